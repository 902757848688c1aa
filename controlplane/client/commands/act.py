"""stop, suspend, resume, requeue."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.client import output
from controlplane.client.errors import WeftError
from controlplane.client.session import Session

if TYPE_CHECKING:
    from controlplane.client.answers import Workload

Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="team/name, name or uid.")]
Team = Annotated[str, typer.Option(help="Team of the names.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def stop(ctx: typer.Context, names: Names, team: Team = "", yes: Yes = False) -> None:
    """End workloads for good."""
    session: Session = ctx.obj
    found = [session.client.get(name, team=team) for name in names]
    live = [one for one in found if not one.has_ended]
    for one in found:
        if one.has_ended:
            output.say(f"{one.path} has ended already: {one.phase}.")
    if live and not yes and sys.stdin.isatty() and sys.stderr.isatty():
        _confirm(live)
    _act(live, session.client.stop)


def suspend(ctx: typer.Context, names: Names, team: Team = "") -> None:
    """Save the work of workloads and take them off their GPUs until they are resumed."""
    session: Session = ctx.obj
    _act(_found(session, names, team), session.client.suspend)


def resume(ctx: typer.Context, names: Names, team: Team = "") -> None:
    """Put suspended workloads back into the queue."""
    session: Session = ctx.obj
    _act(_found(session, names, team), session.client.resume)


def requeue(ctx: typer.Context, names: Names, team: Team = "") -> None:
    """Send running workloads back to the queue, after a checkpoint."""
    session: Session = ctx.obj
    _act(_found(session, names, team), session.client.requeue)


def _found(session: Session, names: Sequence[str], team: str) -> "list[Workload]":
    # All names are looked up first: a wrong one leaves everything as it was.
    return [session.client.find(name, team=team) for name in names]


def _act(workloads: "Sequence[Workload]", verb: "Callable[[str], Workload]") -> None:
    for one in workloads:
        now = verb(one.uid)
        output.say(f"{now.path} is {now.phase}.")


def _confirm(live: "Sequence[Workload]") -> None:
    for one in live:
        running = one.workers.get("running", 0)
        what = f"{one.phase}, {output.plural(running, 'worker')}" if running else one.phase
        output.note(f"{one.path} ({what}) ends for good; work since its last checkpoint is lost.")
    sys.stderr.write(f"Stop {live[0].path if len(live) == 1 else f'these {len(live)}'}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise WeftError("Nothing was stopped.")
