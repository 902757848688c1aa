"""quota and usage: what a team may hold, and what was used."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controlplane.client import output
from controlplane.client.commands.read import Form
from controlplane.client.output import Format
from controlplane.client.session import Session

if TYPE_CHECKING:
    from controlplane.client.answers import Quota, TeamShare

DAYS = 30


def quota(
    ctx: typer.Context,
    team: Annotated[str, typer.Argument(metavar="[TEAM]", help="Only this team's.")] = "",
    form: Form = Format.TABLE,
) -> None:
    """Show what your teams own in each pool, are entitled to, hold, and may borrow; and their budgets of GPU hours."""
    from controlplane.client import columns

    session: Session = ctx.obj
    client = session.client
    names = [client.team(team).name] if team else [one.name for one in client.teams()]
    owned = {(one.team, one.pool): one for one in client.quotas(team=team)}
    shares = {(one.team, one.pool): one for one in client.shares(team=team)}
    rows = [_Row(key, owned.get(key), shares.get(key)) for key in sorted({*owned, *shares})]
    budgets = [one for name in names for one in client.budgets(name)]
    if not form.is_text:
        found = {"quotas": [row.document for row in rows], "budgets": [one.document for one in budgets]}
        output.dump(found, form) if form != Format.NAME else output.say("\n".join(names))
        return
    output.show(rows, columns.OWNED, form, empty="There are no quotas that you see.")
    if budgets:
        output.say("")
        output.show(budgets, columns.BUDGETS, form)


def usage(
    ctx: typer.Context,
    by: Annotated[str, typer.Option("--by", help="Any of team, user, pool and workload, by commas.")] = "team",
    days: Annotated[int, typer.Option(min=1, max=366, help="So many of the last days, by the cluster's clock.")] = DAYS,
    granularity: Annotated[str, typer.Option(help="all: one row each; or a row each day or hour.")] = "all",
    form: Form = Format.TABLE,
) -> None:
    """Show GPU hours held and computed: by team alone of every team, else of your teams."""
    from controlplane.client import columns

    session: Session = ctx.obj
    seconds = float(session.client.cluster()["seconds"])
    start = datetime.fromtimestamp(max(0.0, seconds - timedelta(days=days).total_seconds()), UTC)
    found = session.client.usage(group_by=by, granularity=granularity, start=f"{start:%Y-%m-%dT%H:%M:%SZ}")
    if not form.is_text:
        output.dump(found, form if form != Format.NAME else Format.JSON)
        return
    chosen = columns.usage(by.split(","), has_start=granularity != "all")
    output.show(
        [columns.UsageRow(row) for row in found["rows"]], chosen, form, empty=f"Nothing was held in {days} days."
    )


class _Row:
    """A quota and how its team stands, in one pool."""

    def __init__(self, key: tuple[str, str], owned: "Quota | None", share: "TeamShare | None") -> None:
        self.team, self.pool = key
        self.owned = owned
        self.share = share
        self.document: dict[str, Any] = {**(share.document if share else {}), **(owned.document if owned else {})}
