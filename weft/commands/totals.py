"""quota and usage: what a team may hold, and what was used."""

import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft import output
from weft.commands.act import Yes, ask
from weft.commands.read import Form
from weft.errors import WeftError
from weft.output import Format
from weft.session import Session

if TYPE_CHECKING:
    from weft.answers import Quota, TeamShare

DAYS = 30


def quota(
    ctx: typer.Context,
    team: Annotated[str, typer.Argument(metavar="[TEAM]", help="Only of this team.")] = "",
    form: Form = Format.TABLE,
) -> None:
    """Show quota, entitlement, allocation and borrowing limit of your teams by pool, and their budgets of GPU hours."""
    from weft import columns

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
    output.show(rows, columns.OWNED, form, empty="There are no quotas that you may see.")
    if budgets:
        output.say("")
        output.show(budgets, columns.BUDGETS, form)


def budget(
    ctx: typer.Context,
    team: Annotated[str, typer.Argument(help="The team; teams below it are included.")],
    period: Annotated[str, typer.Argument(metavar="day|week|month", help="The period of the budget.")],
    hours: Annotated[int, typer.Argument(min=1, help="GPU hours in each period.")],
    is_hard: Annotated[
        bool | None,
        typer.Option("--hard/--soft", help="When used up: start nothing new, or only notify (default: unchanged)."),
    ] = None,
    yes: Yes = False,
) -> None:
    """Set a team's budget of GPU hours; it asks first if that many are already used. For platform admins."""
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
            raise WeftError(f"{refused} With --yes it is saved anyway.") from None
        output.note(output.clean(str(refused)))
        ask("Save it anyway?", "Nothing was changed.")
        saved = client.save_budget(team, period, **values, accept_used_up=True)
    then = "then nothing new starts" if saved.is_hard else "then there is only a notice"
    used = f"{saved.used_hours:.1f} used in this one"
    output.say(f"{team} may use {saved.gpu_hours} GPU hours each {period}, {then}; {used}.")


def usage(
    ctx: typer.Context,
    by: Annotated[
        str, typer.Option("--by", help="Any of team, user, pool and workload, separated by commas.")
    ] = "team",
    days: Annotated[
        int, typer.Option(min=1, max=366, help="How many of the last days, by the cluster's clock.")
    ] = DAYS,
    granularity: Annotated[str, typer.Option(help="all: one row for the whole time; or one per day or hour.")] = "all",
    form: Form = Format.TABLE,
) -> None:
    """Show allocated and computed GPU hours: by team for all teams, otherwise for your teams."""
    from weft import columns

    session: Session = ctx.obj
    seconds = float(session.client.cluster()["seconds"])
    start = datetime.fromtimestamp(max(0.0, seconds - timedelta(days=days).total_seconds()), UTC)
    found = session.client.usage(group_by=by, granularity=granularity, start=f"{start:%Y-%m-%dT%H:%M:%SZ}")
    if not form.is_text:
        output.dump(found, form if form != Format.NAME else Format.JSON)
        return
    chosen = columns.usage(by.split(","), has_start=granularity != "all")
    output.show(
        [columns.UsageRow(row) for row in found["rows"]],
        chosen,
        form,
        empty=f"No GPU was allocated in the last {days} days.",
    )


class _Row:
    """A quota and how its team stands, in one pool."""

    def __init__(self, key: tuple[str, str], owned: "Quota | None", share: "TeamShare | None") -> None:
        self.team, self.pool = key
        self.owned = owned
        self.share = share
        self.document: dict[str, Any] = {**(share.document if share else {}), **(owned.document if owned else {})}
