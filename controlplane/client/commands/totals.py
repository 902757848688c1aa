"""quota and usage: what a team may hold, and what was used."""

import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controlplane.client import output
from controlplane.client.commands.act import Yes, ask
from controlplane.client.commands.read import Form
from controlplane.client.errors import WeftError
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


def budget(
    ctx: typer.Context,
    team: Annotated[str, typer.Argument(help="The team, with those below it.")],
    period: Annotated[str, typer.Argument(metavar="day|week|month", help="How long it lasts before it begins anew.")],
    hours: Annotated[int, typer.Argument(min=1, help="GPU hours that may be used in each.")],
    is_hard: Annotated[
        bool | None, typer.Option("--hard/--soft", help="Once used up: start nothing new, or only say so (as it is).")
    ] = None,
    yes: Yes = False,
) -> None:
    """Set a team's budget of GPU hours; if as many are used already it asks first. For platform admins."""
    session: Session = ctx.obj
    client = session.client
    known = next((one for one in client.budgets(team) if one.period == period), None)
    values: dict[str, Any] = {
        "gpu_hours": hours,
        "is_hard": bool(known and known.is_hard) if is_hard is None else is_hard,
    }
    try:
        saved = client.save_budget(team, period, **values, accept_used_up=yes)
    except WeftError as refused:
        if refused.code != "UsedUpAlready":
            raise
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise WeftError(f"{refused} With --yes it is saved all the same.") from None
        output.note(output.clean(str(refused)))
        ask("Save it all the same?", "Nothing was changed.")
        saved = client.save_budget(team, period, **values, accept_used_up=True)
    then = "then nothing new starts" if saved.is_hard else "then it is told"
    used = f"{saved.used_hours:.1f} used in this one"
    output.say(f"{team} may use {saved.gpu_hours} GPU hours each {period}, {then}; {used}.")


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
