"""stop, suspend, resume, requeue, extend, scale, priority; and remedy, which makes a waiting one start."""

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
    end(session, [session.client.get(name, team=team) for name in names], yes)


def end(session: Session, found: "Sequence[Workload]", yes: bool) -> None:
    """End these workloads, after a question at a terminal."""
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


def extend(ctx: typer.Context, names: Names, team: Team = "") -> None:
    """Count the time without use of notebooks anew: they are parked later."""
    session: Session = ctx.obj
    found = _found(session, names, team)
    for one in found:
        if one.type != "notebook":
            raise WeftError(f"{one.path} is of type {one.type}. Only a notebook is parked when nobody uses it.")
    for one in found:
        after = session.client.extend(one.uid).get("park_after_seconds")
        output.say(f"{one.path} stays for another {output.span(after)} without use.")


def scale(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="team/name, name or uid.")],
    workers: Annotated[int | None, typer.Option("--workers", help="Workers wanted, of a training that waits.")] = None,
    least: Annotated[int | None, typer.Option("--min", help="Least workers, or replicas of a service.")] = None,
    most: Annotated[int | None, typer.Option("--max", help="Most workers, or replicas of a service.")] = None,
    replicas: Annotated[int | None, typer.Option("--replicas", help="Of a service: --min and --max at once.")] = None,
    team: Team = "",
) -> None:
    """Change how many workers a training has, or between how many replicas a service is scaled."""
    session: Session = ctx.obj
    if replicas is not None:
        if (workers, least, most) != (None, None, None):
            raise typer.BadParameter("--replicas is --min and --max at once. Give either.")
        least = most = replicas
    if (workers, least, most) == (None, None, None):
        raise typer.BadParameter("Say how many: --workers, --replicas, --min or --max.")
    found = session.client.find(name, team=team)
    now = session.client.scale(found.uid, count=workers, least=least, most=most)
    sizes = now.workers
    what = "replicas" if now.type == "inference" else "workers"
    bounds = f" (min {sizes.get('min')}, max {sizes.get('max')})"
    output.say(f"{now.path} has {sizes.get('count')} {what} wanted{bounds}.")


def priority(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="team/name, name or uid.")],
    priority_class: Annotated[str, typer.Argument(metavar="CLASS", help="See `weft get priority-classes`.")],
    team: Team = "",
) -> None:
    """Give a workload another priority class."""
    session: Session = ctx.obj
    found = session.client.find(name, team=team)
    now = session.client.set_priority(found.uid, priority_class)
    output.say(f"{now.path} has priority class {now.priority_class}.")


def remedy(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="team/name, name or uid.")],
    kind: Annotated[str, typer.Argument(metavar="[KIND]", help="Which one to apply; without it they are listed.")] = "",
    team: Annotated[str, typer.Option(help="Team of the name.")] = "",
    yes: Yes = False,
) -> None:
    """Apply a change that starts a waiting workload in the next round, or list those there are."""
    session: Session = ctx.obj
    workload = session.client.find(name, team=team)
    explanation = session.client.explanation(workload.uid)
    if not kind:
        if not explanation.remedies and not explanation.no_remedies:
            output.say(f"{workload.path} does not wait for anything that a change would give it.")
        output.say_remedies(explanation.remedies, explanation.no_remedies, workload.path)
        return
    found = next((one for one in explanation.remedies if one.get("kind") == kind), None)
    if found is None:
        kinds = ", ".join(str(one.get("kind")) for one in explanation.remedies)
        raise WeftError(
            f"No change of {kind} would start {workload.path} now. " + (f"These would: {kinds}." if kinds else "")
        )
    if not yes and sys.stdin.isatty() and sys.stderr.isatty():
        output.note(output.clean(str(found.get("text"))))
        ask(f"Do this, so that {workload.path} starts?", "Nothing was changed.")
    now = session.client.apply_remedy(workload.uid, found, version=workload.version)
    output.say(f"{now.path}: {output.clean(str(found.get('text')))} It starts with the next round.")


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
    ask(f"Stop {live[0].path if len(live) == 1 else f'these {len(live)}'}?", "Nothing was stopped.")


def ask(question: str, otherwise: str) -> None:
    """Go on if the answer at the terminal is yes; else raise with what was not done."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise WeftError(otherwise)
