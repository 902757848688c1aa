"""get, queue, top: lists of things."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft import output
from weft.errors import NotFound, WeftError
from weft.jobs import TYPES
from weft.output import Format
from weft.session import Session

if TYPE_CHECKING:
    from weft.answers import Workload
    from weft.columns import Table

Form = Annotated[Format, typer.Option("--output", "-o", help="Output format.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Keep running and print what changes.")]
WATCH_PAUSE = 2.0  # s
KINDS = {
    "workloads": ("workload", "wl", "jobs", "job"),
    "nodes": ("node", "no"),
    "node-pools": ("node-pool", "pools", "pool"),
    "cells": ("cell",),
    "teams": ("team",),
    "quotas": ("quota",),
    "shares": ("share",),
    "budgets": ("budget",),
    "usage": (),
    "priority-classes": ("priority-class", "pc"),
}
EMPTY = {"cells": "This cluster is one cell."}
OF_TEAMS = ("teams", "quotas", "shares", "budgets")


def get(
    ctx: typer.Context,
    kind: Annotated[
        str,
        typer.Argument(
            metavar="[KIND]", help=f"{', '.join(KINDS)}; or the NAME of a workload.", autocompletion=lambda: list(KINDS)
        ),
    ] = "workloads",
    name: Annotated[str, typer.Argument(help="Only the object with this name.")] = "",
    team: Annotated[str, typer.Option(help="Only of this team.")] = "",
    phase: Annotated[
        list[str] | None, typer.Option("--phase", metavar="PHASE", help="Only workloads in this phase; repeatable.")
    ] = None,
    selector: Annotated[
        str,
        typer.Option(
            "--selector", "-l", help="Filter by phase, type, team or name, such as phase=Queued,type=training."
        ),
    ] = "",
    limit: Annotated[int, typer.Option(help="Maximum number of workloads.")] = 200,
    watch: Watch = False,
    form: Form = Format.TABLE,
) -> None:
    """List workloads, nodes, teams and other objects, or show one."""
    session: Session = ctx.obj
    chosen = next((known for known, others in KINDS.items() if kind == known or kind in others), "")
    if not chosen and name:
        raise typer.BadParameter(
            f"{kind} cannot be listed. Use one of {', '.join(KINDS)}; or give only the NAME of a workload."
        )
    if not chosen:
        chosen, name = "workloads", kind
    if chosen == "workloads":
        wanted = {"team": team, "phase": phases(phase or ()), "limit": limit}
        _workloads(session, name, _narrowed(wanted, name, selector), form, watch=watch)
        return
    if watch or phase or selector:
        raise typer.BadParameter("--watch, --phase and --selector are for workloads.")
    if team and chosen not in OF_TEAMS:
        raise typer.BadParameter(f"--team is for workloads, {', '.join(OF_TEAMS)}; {chosen} do not belong to a team.")
    if name and chosen == "usage":
        raise typer.BadParameter(f"usage takes no NAME such as {name}. `weft usage --by user` groups it.")
    _others(session, chosen, name, team, form)


def queue(
    ctx: typer.Context,
    team: Annotated[str, typer.Option(help="Only of this team.")] = "",
    form: Form = Format.TABLE,
) -> None:
    """Show the waiting workloads in queue order, and why each one waits."""
    from weft import columns

    session: Session = ctx.obj
    pages: list[Any] = []
    rows = list(session.client.queue(team=team, told=pages.append))
    now = _now(session, form)
    output.show(rows, columns.queue(now), form, empty="No workload is waiting.")
    if pages and (of_when := output.as_of(pages[0].get("as_of"), now)):
        output.note(of_when)


def top(
    ctx: typer.Context,
    kind: Annotated[str, typer.Argument(metavar="[teams|nodes]", help="What to show.")] = "teams",
    form: Form = Format.TABLE,
) -> None:
    """Show GPUs by team (nominal, allocated, borrowed, computing) or by node."""
    from weft import columns

    session: Session = ctx.obj
    if kind in ("teams", "team"):
        output.show(list(session.client.teams()), columns.TEAMS, form, empty="There are no teams that you may see.")
    elif kind in ("nodes", "node"):
        nodes = sorted(session.client.nodes(), key=lambda node: -node.allocated_milli)
        output.show(nodes, columns.NODES, form, empty="There are no nodes.")
    else:
        raise typer.BadParameter(f"{kind} is neither teams nor nodes.")


def _workloads(session: Session, name: str, wanted: dict[str, Any], form: Format, *, watch: bool) -> None:
    from weft import columns

    def read() -> "Sequence[Workload]":
        if name:
            return [session.client.get(name, team=wanted["team"])]
        return list(session.client.list(**wanted))

    rows = read()
    empty = "No workloads. Submit one: weft submit training --name hello --image IMAGE --gpus 1"
    output.show(rows, columns.workloads(_now(session, form)), form, one=bool(name), empty=empty)
    if watch:
        _watch(session, rows, read, form)


def _watch(
    session: Session, rows: "Sequence[Workload]", read: "Callable[[], Sequence[Workload]]", form: Format
) -> None:
    """Print each workload that changes as one more line, until Ctrl-C."""
    from weft import columns
    from weft.follow import Steady

    steady = Steady(output.note)
    last = {row.uid: row.version for row in rows}
    while True:
        time.sleep(WATCH_PAUSE)
        rows = steady.look(read) or ()
        changed = [row for row in reversed(rows) if last.get(row.uid) != row.version]
        last |= {row.uid: row.version for row in rows}
        if changed and form.is_text:
            # All rows are laid out, so that the columns stay where they were.
            lines = output.table(rows, columns.workloads(_now(session, form)), form, head=False).splitlines()
            output.say("\n".join(lines[rows.index(row)] for row in changed))
        elif changed:
            output.show(changed, (), form)


def _others(session: Session, kind: str, name: str, team: str, form: Format) -> None:
    from weft import columns

    client = session.client
    sources: dict[str, tuple[Callable[[], Iterable[Any]], Table]] = {
        "nodes": (client.nodes, columns.NODES),
        "node-pools": (client.node_pools, columns.POOLS),
        "cells": (client.cells, columns.CELLS),
        "teams": (client.teams, columns.TEAMS),
        "quotas": (lambda: client.quotas(team=team), columns.QUOTAS),
        "shares": (lambda: client.shares(team=team), columns.SHARES),
        "budgets": (
            lambda: [b for t in ([team] if team else [t.name for t in client.teams()]) for b in client.budgets(t)],
            columns.BUDGETS,
        ),
        "priority-classes": (client.priority_classes, columns.PRIORITIES),
        "usage": (lambda: [columns.UsageRow(row) for row in client.usage()["rows"]], columns.USAGE),
    }
    read, table = sources[kind]
    if name and kind in ("nodes", "teams"):
        rows: list[Any] = [client.node(name) if kind == "nodes" else client.team(name)]
    else:
        attribute = "team" if kind in ("quotas", "shares", "budgets") else "name"
        rows = [row for row in read() if not name or getattr(row, attribute) == name]
        if team:
            rows = [row for row in rows if getattr(row, "team", team) == team or row.name == team]
    if name and not rows:
        raise NotFound(f"There is no {kind} {name} that you may see.", status=404)
    empty = EMPTY.get(kind, f"There are no {kind} that you may see.")
    output.show(rows, table, form, one=bool(name) and len(rows) == 1, empty=empty)


def _narrowed(wanted: dict[str, Any], name: str, selector: str) -> dict[str, Any]:
    """What was asked by options, with what the selector asks; nothing may be asked twice, or of one workload."""
    selected = _selected(selector)
    if name and (wanted["phase"] or selected):
        raise typer.BadParameter("--phase and --selector are for lists. Give them or a NAME, not both.")
    if twice := [key for key in selected if wanted.get(key)]:
        raise typer.BadParameter(f"{twice[0]} is given as an option and in --selector. Give it once.")
    return {**wanted, **selected}


def phases(given: Sequence[str]) -> tuple[str, ...]:
    """The phases as the server writes them; one that there is not is refused."""
    from weft.answers import PHASES

    known = {phase.lower(): phase for phase in PHASES}
    for one in given:
        if one.lower() not in known:
            raise typer.BadParameter(f"{one} is not a phase. Use one of {', '.join(PHASES)}.")
    return tuple(known[one.lower()] for one in given)


def _selected(selector: str) -> dict[str, Any]:
    """Read `phase=Queued,type=training` (several phases: phase=Queued|Held)."""
    chosen: dict[str, Any] = {}
    for part in filter(None, selector.split(",")):
        key, sign, value = part.partition("=")
        if not sign or not value or key not in ("phase", "type", "team", "name"):
            raise WeftError(
                f"--selector {part} is not understood. Write phase=, type=, team= or name=, separated by commas."
            )
        if key in chosen:
            raise WeftError(f"--selector names {key} twice. Write several phases as phase=Queued|Held.")
        if key == "type" and value not in TYPES:
            raise WeftError(f"--selector type={value} is not a type. Use one of {', '.join(TYPES)}.")
        chosen[key] = phases(value.split("|")) if key == "phase" else value
    return chosen


def _now(session: Session, form: Format) -> str | None:
    """Return the cluster's clock, which ages are counted by; None where no age is shown."""
    if not form.is_text:
        return None
    try:
        return str(session.client.cluster().get("now") or "") or None
    except NotFound:
        return None
