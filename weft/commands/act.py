"""stop, suspend, resume, requeue, extend, scale, resize, priority; and suggestion, which makes a waiting one start."""

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft import output
from weft.errors import WeftError
from weft.session import Session

if TYPE_CHECKING:
    from weft.answers import Workload

Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="team/name, name or uid.")]
Team = Annotated[str, typer.Option(help="Team of the names.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def stop(ctx: typer.Context, names: Names, team: Team = "", yes: Yes = False) -> None:
    """Stop workloads permanently."""
    session: Session = ctx.obj
    end(session, [session.client.get(name, team=team) for name in names], yes)


def end(session: Session, found: "Sequence[Workload]", yes: bool) -> None:
    """End these workloads, after a question at a terminal."""
    live = [one for one in found if not one.has_ended]
    for one in found:
        if one.has_ended:
            output.say(f"{one.path} has already ended: {one.phase}.")
    if live and not yes and sys.stdin.isatty() and sys.stderr.isatty():
        _confirm(live)
    _act(live, session.client.stop)


def suspend(ctx: typer.Context, names: Names, team: Team = "") -> None:
    """Suspend workloads: they save a checkpoint and free their GPUs until they are resumed."""
    session: Session = ctx.obj
    _act(_found(session, names, team), session.client.suspend)


def resume(ctx: typer.Context, names: Names, team: Team = "") -> None:
    """Put suspended workloads back into the queue."""
    session: Session = ctx.obj
    _act(_found(session, names, team), session.client.resume)


def requeue(ctx: typer.Context, names: Names, team: Team = "") -> None:
    """Put running workloads back into the queue, after a checkpoint."""
    session: Session = ctx.obj
    _act(_found(session, names, team), session.client.requeue)


def extend(ctx: typer.Context, names: Names, team: Team = "") -> None:
    """Restart the idle time of notebooks, so that they are parked later."""
    session: Session = ctx.obj
    found = _found(session, names, team)
    for one in found:
        if one.type != "notebook":
            raise WeftError(f"{one.path} is of type {one.type}. Only a notebook is parked when it is idle.")
    for one in found:
        after = session.client.extend(one.uid).get("park_after_seconds")
        output.say(f"{one.path} may be idle for another {output.span(after)}.")


def scale(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="team/name, name or uid.")],
    workers: Annotated[int | None, typer.Option("--workers", help="Number of workers of a waiting training.")] = None,
    least: Annotated[int | None, typer.Option("--min", help="Minimum of workers, or of replicas of a service.")] = None,
    most: Annotated[int | None, typer.Option("--max", help="Maximum of workers, or of replicas of a service.")] = None,
    replicas: Annotated[
        int | None, typer.Option("--replicas", help="For a service: sets both --min and --max.")
    ] = None,
    team: Team = "",
) -> None:
    """Change the number of workers of a training, or the minimum and maximum replicas of a service."""
    session: Session = ctx.obj
    if replicas is not None:
        if (workers, least, most) != (None, None, None):
            raise typer.BadParameter("--replicas sets both --min and --max. Give it alone.")
        least = most = replicas
    if (workers, least, most) == (None, None, None):
        raise typer.BadParameter("Give one of --workers, --replicas, --min or --max.")
    found = session.client.find(name, team=team)
    now = session.client.scale(found.uid, count=workers, least=least, most=most)
    sizes = now.workers
    what = "replicas" if now.type == "inference" else "workers"
    bounds = f" (min {sizes.get('min')}, max {sizes.get('max')})"
    output.say(f"{now.path} now asks for {sizes.get('count')} {what}{bounds}.")


def resize(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="team/name, name or uid.")],
    cpu: Annotated[str, typer.Option("--cpu", help="CPU cores of each worker, such as 8 or 500m.")] = "",
    memory: Annotated[str, typer.Option("--memory", help="Memory of each worker, such as 64Gi.")] = "",
    team: Team = "",
) -> None:
    """Change CPU or memory of each worker; one that runs goes on meanwhile."""
    session: Session = ctx.obj
    if not cpu and not memory:
        raise typer.BadParameter("Give --cpu, --memory or both.")
    found = session.client.find(name, team=team)
    now = session.client.resize(found.uid, cpu=cpu, memory=memory)
    to = now.resize
    if to is None:
        output.say(f"{now.path} asks for {output.size(now.resources)} for each worker.")
    else:
        output.say(f"{now.path}: each worker is being given {output.size(to)}. `weft describe` shows when it has it.")


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


def suggestion(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="team/name, name or uid.")],
    kind: Annotated[
        str, typer.Argument(metavar="[KIND]", help="Which change to apply; without it the changes are listed.")
    ] = "",
    team: Annotated[str, typer.Option(help="Team of the name.")] = "",
    yes: Yes = False,
) -> None:
    """Apply a change that starts a waiting workload in the next round, or list such changes."""
    session: Session = ctx.obj
    workload = session.client.find(name, team=team)
    explanation = session.client.explanation(workload.uid)
    if not kind:
        if not explanation.suggestions and not explanation.no_suggestions:
            output.say(f"{workload.path} does not wait for anything that a change could provide.")
        output.say_suggestions(explanation.suggestions, explanation.no_suggestions, workload.path)
        return
    found = next((one for one in explanation.suggestions if one.get("kind") == kind), None)
    if found is None:
        kinds = ", ".join(str(one.get("kind")) for one in explanation.suggestions)
        raise WeftError(
            f"No change of {kind} would start {workload.path} now. " + (f"These would: {kinds}." if kinds else "")
        )
    if not yes and sys.stdin.isatty() and sys.stderr.isatty():
        output.note(output.clean(str(found.get("text"))))
        ask(f"Apply this change, so that {workload.path} starts?", "Nothing was changed.")
    now = session.client.apply_suggestion(workload.uid, found, version=workload.version)
    output.say(f"{now.path}: {output.clean(str(found.get('text')))} It starts in the next round.")


@wraps(suggestion)
def remedy(*args: Any, **kwargs: Any) -> None:
    """Do what `weft suggestion` does, under the name that it had before 0.1."""
    output.note("Deprecated: use `weft suggestion`. The old name is removed in 0.2.")
    suggestion(*args, **kwargs)


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
        output.note(f"{one.path} ({what}) is stopped permanently; work since its last checkpoint is lost.")
    ask(f"Stop {live[0].path if len(live) == 1 else f'these {len(live)}'}?", "Nothing was stopped.")


def ask(question: str, otherwise: str) -> None:
    """Go on if the answer at the terminal is yes; else raise with what was not done."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise WeftError(otherwise)
