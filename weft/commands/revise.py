"""change, price, revisions, promote, rollback: another image, environment or objective, its cost, the way back."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft import output
from weft.commands.read import Form
from weft.errors import Conflict, WeftError
from weft.output import Column, Format
from weft.session import Session

if TYPE_CHECKING:
    from weft.answers import Json

Name = Annotated[str, typer.Argument(metavar="NAME", help="team/name, name or uid of a service.")]
Team = Annotated[str, typer.Option(help="Team of the name.")]
FirstToken = Annotated[
    str, typer.Option("--first-token", help="In place of a latency: p95 time to the first token, such as 500ms.")
]
LATENCIES = {"p95_latency", "p95_first_token"}  # of a job file's objective, which has one of them
SHARES = ("weight", "steps", "step_minutes")  # of a job file's rollout: how requests come to a new revision
TRIES = 10  # a rollout writes the service's row for each replica that comes or goes
COLUMNS = (
    Column("REVISION", lambda one: f"{one['number']}{' (wanted)' if one['is_wanted'] else ''}"),
    Column("IMAGE", lambda one: output.clean(one["image"])),
    Column("READY", lambda one: f"{one['ready']}/{one['placed']}", right=True),
    Column("BY", lambda one: output.clean(one["made_by"]) or "-"),
    Column("TAKEN BACK", lambda one: output.clean(one["failed"]) or "-"),
)


def change(
    ctx: typer.Context,
    name: Name,
    image: Annotated[str, typer.Option("--image", help="Another container image.")] = "",
    env: Annotated[
        list[str] | None, typer.Option("--env", help="NAME=value to set, NAME= to empty, NAME- to take away.")
    ] = None,
    latency: Annotated[str, typer.Option("--latency", help="p95 latency to be held to, such as 200ms.")] = "",
    first_token: FirstToken = "",
    availability: Annotated[
        float | None, typer.Option("--availability", help="Percent of requests within it, such as 99.9.")
    ] = None,
    window: Annotated[str, typer.Option("--window", help="Over how long that is counted, such as 28d.")] = "",
    weight: Annotated[
        int | None, typer.Option("--weight", min=1, max=100, help="Percent of the requests for the new revision.")
    ] = None,
    steps: Annotated[
        str, typer.Option("--steps", help="Percents that it gets by itself one after the other, such as 5,25,50.")
    ] = "",
    step_minutes: Annotated[
        int | None, typer.Option("--step-minutes", min=1, max=10_080, help="How long each step lasts at least (10).")
    ] = None,
    standby: Annotated[str, typer.Option("--standby", help="Replicas kept loaded: a number, auto, or 0.")] = "",
    standby_memory: Annotated[
        str, typer.Option("--standby-memory", help="Where their weights may wait: device, or host too.")
    ] = "",
    team: Team = "",
) -> None:
    """Change a service that runs: another image or environment replaces its replicas one by one, or gets a part of the
    requests (`--weight 10`) until `weft promote` or `weft rollback`, or one share after the other (`--steps 5,25,50`).
    """
    _one_latency(latency, first_token)
    promised = {
        "p95_latency": latency, "p95_first_token": first_token, "availability": availability, "window": window
    }  # fmt: skip
    given = {field: value for field, value in promised.items() if value not in ("", None)}
    shares = _shares(weight, steps, step_minutes)
    if not (image or env or given or shares or standby or standby_memory):
        names = (
            "--image, --env, --weight, --steps, --latency, --first-token, --availability, --window, --standby or "
            "--standby-memory"
        )
        raise typer.BadParameter(f"Give {names}.")
    session: Session = ctx.obj
    for left in reversed(range(TRIES)):
        now = session.client.read(session.client.find(name, team=team).uid)
        asked = {"image": image, "env": env, "objective": given, "rollout": shares, "standby": standby}
        asked |= {"standby_memory": standby_memory}
        changes = _changes(now.document["spec"], asked)
        try:
            session.client.patch(now.uid, changes, version=now.version)
            break
        except Conflict:  # its row changes as replicas come and go: what is asked for is added to what is there now
            if not left:
                raise
    output.say(f"{now.path}: {', '.join(changes)} changed.")
    if changes.keys() & {"image", "env", "rollout"}:
        _say(now.path, session.client.revisions(now.uid))


def revisions(ctx: typer.Context, name: Name, team: Team = "", form: Form = Format.TABLE) -> None:
    """List the revisions of a service, and how far the newest has replaced the one before."""
    session: Session = ctx.obj
    now = session.client.find(name, team=team)
    found = session.client.revisions(now.uid)
    if not form.is_text:
        output.show([now], (), form) if form == Format.NAME else output.dump(found, form)
        return
    output.say(output.table(found["revisions"], COLUMNS, form))
    _say(now.path, found)


def promote(ctx: typer.Context, name: Name, team: Team = "") -> None:
    """Let a new revision that gets a part of the requests replace the one before."""
    session: Session = ctx.obj
    for left in reversed(range(TRIES)):
        now = session.client.read(session.client.find(name, team=team).uid)
        found = session.client.revisions(now.uid)
        if not (found["rollout"] or {}).get("is_canary"):
            raise WeftError(f"{now.path} has no revision to promote: none gets a part of its requests only.")
        rollout = _rollout(now.document["spec"], {"weight": 100})
        try:
            session.client.patch(now.uid, {"rollout": rollout}, version=now.version)
            break
        except Conflict:
            if not left:
                raise
    output.say(f"{now.path}: revision {found['revision']} is promoted.")
    _say(now.path, session.client.revisions(now.uid))


def rollback(
    ctx: typer.Context,
    name: Name,
    to: Annotated[int | None, typer.Option("--to", help="The revision; without it, the one before.")] = None,
    team: Team = "",
) -> None:
    """Bring an earlier revision of a service back, or take back the newest change that Weft made of a training."""
    session: Session = ctx.obj
    now = session.client.find(name, team=team)
    if now.type == "training":
        if to is not None:
            raise typer.BadParameter(f"{now.path} is a training, which has no revisions. Leave --to out.")
        session.client.take_back(now.uid)
        output.say(f"The newest change of {now.path} is taken back.")
        return
    found = session.client.rollback(now.uid, to=to)
    output.say(f"{now.path} goes back to revision {found['revision']}.")
    _say(now.path, found)


def price(
    ctx: typer.Context,
    name: Name,
    latency: Annotated[str, typer.Option("--latency", help="Another p95 latency, such as 200ms.")] = "",
    first_token: FirstToken = "",
    standby: Annotated[str, typer.Option("--standby", help="Other replicas on standby: a number, auto, or 0.")] = "",
    team: Team = "",
    form: Form = Format.TABLE,
) -> None:
    """Show what a service's objective costs at the load of its last day, and what another latency or standby would."""
    session: Session = ctx.obj
    now = session.client.find(name, team=team)
    _one_latency(latency, first_token)
    found = session.client.objective_price(now.uid, p95_latency=latency, p95_first_token=first_token, standby=standby)
    if not form.is_text:
        output.dump(found, form if form != Format.NAME else Format.JSON)
        return
    known = [one for one in (found["asked"], found["now"]) if one]
    for one in known:
        output.say(_price(one))
    if found.get("standby"):
        output.say(output.clean(found["standby"]))
    if not known:
        output.note(f"{now.path} has no objective. Name a latency: --latency 200ms, or --first-token 500ms.")


def progress(found: "Json") -> str:
    """`revision 3 replaces revision 2: 1 of 4 replicas`; empty when nothing is being replaced."""
    rollout = found.get("rollout")
    if not rollout:
        return ""
    again = " again" if rollout["is_back"] else ""
    why = f" ({output.clean(rollout['message'])})" if rollout["message"] else ""
    if rollout.get("is_canary"):
        gets = "is to get" if rollout["percent"] is None else "gets"
        return (
            f"revision {rollout['to']} {gets} {rollout['weight']} % of the requests, beside revision "
            f"{rollout['before']}: {rollout['ready']} of {output.plural(rollout['of'], 'replica')}{_judged(rollout)}"
            f"{_following(rollout)}"
        )
    replaced = f"{rollout['ready']} of {output.plural(rollout['of'], 'replica')}"
    return f"revision {rollout['to']} replaces revision {rollout['before']}{again}: {replaced}{why}"


def _changes(spec: "Json", asked: dict[str, Any]) -> dict[str, Any]:
    """The changes of a job file that was last `spec`; what is empty in `asked` stays."""
    found = {name: value for name, value in asked.items() if value}
    if "env" in found:
        found["env"] = _environment(spec.get("env") or {}, found["env"]) or None
    if "objective" in found:
        before = spec.get("objective") or {}
        kept = {} if LATENCIES & found["objective"].keys() else {name: before.get(name) for name in LATENCIES}
        rest = {name: value for name, value in before.items() if name not in LATENCIES}
        latency = {name: value for name, value in kept.items() if value}
        found["objective"] = {**rest, **latency, **found["objective"]}
    if "rollout" in found:
        found["rollout"] = _rollout(spec, found["rollout"])
    if found.get("standby", "").isdigit():
        found["standby"] = int(found["standby"])
    return found


def _one_latency(latency: str, first_token: str) -> None:
    if latency and first_token:
        raise typer.BadParameter("--latency and --first-token are both given. Give one: a service is held to one.")


def _shares(weight: int | None, steps: str, step_minutes: int | None) -> dict[str, Any]:
    """What of the requests a new revision gets, as a job file says it; empty: nothing is said."""
    if weight and steps:
        raise typer.BadParameter("--weight and --steps are both given. Give one of them.")
    if step_minutes and not steps:
        raise typer.BadParameter("--step-minutes is given without --steps. Give steps, such as 5,25,50.")
    if not steps:
        return {"weight": weight} if weight else {}
    percents = [part.strip() for part in steps.split(",")]
    if not all(part.isascii() and part.isdigit() for part in percents):
        raise typer.BadParameter(f"--steps is {steps}. Give percents with commas, such as 5,25,50.")
    return {"steps": list(map(int, percents)), **({"step_minutes": step_minutes} if step_minutes else {})}


def _rollout(spec: "Json", shares: dict[str, Any]) -> dict[str, Any]:
    """A job file's rollout with other shares: what it said of them before is gone."""
    kept = {name: value for name, value in (spec.get("rollout") or {}).items() if name not in SHARES}
    return {**kept, **shares}


def _following(rollout: "Json") -> str:
    """The next step of a canary, if it has steps, and what it waits for."""
    if rollout.get("next_weight") is None:
        return ""
    at = f" at {rollout['next_at']} at the soonest" if rollout["next_at"] else ""
    waits = f" ({output.clean(rollout['held'])})" if rollout["held"] else ""
    return f"; next{at}: {rollout['next_weight']} %{waits}"


def _judged(rollout: "Json") -> str:
    """What a canary is judged by."""
    if rollout["judged_by"] == "requests":
        return f"; {rollout['own_over']} of its {output.plural(rollout['own_requests'], 'request')} late or failed"
    return "; judged by the whole service" if rollout["judged_by"] == "service" else "; not judged: nothing is measured"


def _say(path: str, found: "Json") -> None:
    output.say(f"{path}: {progress(found) or 'it is of revision {}'.format(found['revision'])}.")


def _environment(before: "Json", given: list[str]) -> dict[str, str]:
    """The variables after these changes."""
    after = {str(name): str(value) for name, value in before.items()}
    for one in given:
        name, sign, value = one.partition("=")
        if sign:
            after[name] = value
        elif one.endswith("-"):
            after.pop(one[:-1], None)
        else:
            raise typer.BadParameter(f"--env {one} is neither NAME=value nor NAME-.")
    return after


def _price(one: "Json") -> str:
    """`200 ms: 12.4 GPU-hours a day, 2.1 replicas on average, 4 at most`."""
    of = "first token within " if one.get("p95_of") == "first_token" else ""
    what = f"{of}{one['p95_seconds'] * 1000:g} ms"
    if one["gpu_hours_a_day"] is None:
        return f"{what}: not known before requests were measured"
    short = f"; {one['short_part']:.1%} of the time it needs more than its max" if one["short_part"] else ""
    replicas = f"{one['replicas_mean']:.1f} replicas on average, {one['replicas_most']} at most"
    return f"{what}: about {one['gpu_hours_a_day']:.1f} GPU-hours a day, {replicas}{short}"
