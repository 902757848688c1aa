"""diagnose, reallocation: what slows a training, what would make it faster, and what was tried."""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from weft import output
from weft.answers import Json
from weft.commands.read import Form
from weft.output import Column, Format
from weft.session import Session

Name = Annotated[str, typer.Argument(metavar="NAME", help="team/name, name or uid.")]
Team = Annotated[str, typer.Option(help="Team of the name.")]
BARS = " ▁▂▃▄▅▆▇█"  # of a step: none of it to all


def _bars(parts: Sequence[float]) -> str:
    """A bar for each look, the newest at the right."""
    return "".join(BARS[min(len(BARS) - 1, math.ceil(part * (len(BARS) - 1)))] for part in parts)


COLUMNS = (
    Column("BOTTLENECK", lambda row: str(row["bottleneck"])),
    Column("OF A STEP", lambda row: f"{row['removable']:.0%}", right=True),
    Column("LATELY", lambda row: _bars(row.get("lately") or ())),
    Column("EVIDENCE", lambda row: f"{row['strength']:.0%}", right=True),
)
LEVELS = {
    "cpu": "CPU of its workers",
    "throttled": "held back by the CPU limit",
    "disk": "disk",
    "nic": "network",
    "server_cpu": "CPU of its servers",
    "gpu": "GPUs",
}


TRIED = (
    Column("CHANGE", lambda row: str(row["message"])),
    Column("STATUS", lambda row: str(row["status"]).replace("_", " ")),
    Column("EXPECTED", lambda row: f"{row['expected']:+.0%}", right=True),
    Column("MEASURED", lambda row: "-" if row["gain"] is None else f"{row['gain']:+.0%}", right=True),
)


SLOW = (
    Column("TRAINING", lambda row: f"{row['team']}/{row['name']}" if row["name"] else f"team {row['team']}"),
    Column("WORKER", lambda row: str(row["rank"]), right=True),
    Column("OF A STEP", lambda row: f"{row['part']:.0%}", right=True),
    Column("NAMED", lambda row: str(row["named_at"])),
)


CURVE = (
    Column("WORKERS", lambda row: str(row["workers"]), right=True),
    Column("SPEED", lambda row: f"{row['speed']:.2f} x", right=True),
    Column("95 %", lambda row: f"{row['low']:.2f} to {row['high']:.2f}", right=True),
    Column("MEASURED", lambda row: "-" if row["measured"] is None else f"{row['measured']:.2f} x", right=True),
)
BATCHES = (
    Column("BATCH", lambda row: str(row["examples"]), right=True),
    Column("GOODPUT", lambda row: f"{row['goodput']:.2f} x", right=True),
    Column("95 %", lambda row: f"{row['low']:.2f} to {row['high']:.2f}", right=True),
    Column("MEASURED", lambda row: "-" if row["measured"] is None else f"{row['measured']:.2f} x", right=True),
    Column("SPEED", lambda row: f"{row['speed']:.2f} x", right=True),
)
GOODPUT = Column("GOODPUT", lambda row: f"{row['goodput']:.2f} x", right=True)


class Mode(StrEnum):
    """What is done where it is known what makes trainings faster."""

    OFF = "off"
    RECOMMEND = "recommend"
    AUTOMATIC = "automatic"


def diagnose(ctx: typer.Context, name: Name, team: Team = "", form: Form = Format.TABLE) -> None:
    """Show what the steps of a training wait for, with the evidence."""
    session: Session = ctx.obj
    workload = session.client.find(name, team=team)
    if workload.type != "training":
        raise typer.BadParameter(f"{workload.path} is no training, but of type {workload.type}.")
    found = session.client.diagnosis(workload.uid)
    tried = session.client.experiments(workload.uid)
    if not form.is_text:
        output.show([workload], (), form) if form == Format.NAME else output.dump({**found, "tried": tried}, form)
        return
    output.say(f"{workload.path}: {found['bottleneck'] or 'not known'}")
    output.say(f"  {output.clean(found['message'])}")
    if slow := found.get("slow_worker"):
        output.say(f"  Worker {slow['rank']} is on {output.clean(slow['node'])}.")
    if found["evidence"]:
        output.say("\n" + output.table(found["evidence"], COLUMNS, form))
    parts = found["levels"] or {}
    levels = [(told, f"{parts[one]:.0%}") for one, told in LEVELS.items() if parts.get(one) is not None]
    if levels:
        output.say("\n" + output.pairs(levels))
    _say_curves(found, form)
    if known := found.get("restart"):
        output.say(f"\n{_restart(known)}")
    _say(tried, form)


def _say_curves(found: Json, form: Form) -> None:
    """What other numbers of workers and other batches would give."""
    if curve := found.get("scaling_curve"):
        has_noise = all(row.get("goodput") is not None for row in curve)
        output.say("\n" + output.table(curve, (*CURVE, GOODPUT) if has_noise else CURVE, form))
    if batch := found.get("batch"):
        output.say(f"\n{_batch(batch)}")
        if batch["curve"]:
            output.say("\n" + output.table(batch["curve"], BATCHES, form))


def _batch(batch: Json) -> str:
    """How many examples a step has, and why it is or is not changed."""
    now, named, low, high = (batch[name] for name in ("size", "named", "min", "max"))
    said = f"Its batch is {now}" + (f" instead of the {named} of its job file" if now != named else "")
    if low == high:
        return f"{said}, and fixed."
    noise = batch["gradient_noise"]
    told = "its program reports no gradient noise" if noise is None else f"its gradient noise is {noise:.0f} examples"
    return f"{said}; {low} to {high} are allowed, and {told}."


def _restart(known: Json) -> str:
    """What a restart of it is taken to cost, and how that is known."""
    parts = f"{known['leave_seconds']:.0f} s to leave, {known['begin_seconds']:.0f} s to its first step"
    seen = f"learned from {known['own']} of its own and {known['lent']} of trainings like it"
    if not known["own"] and not known["lent"]:
        seen = "not measured yet"
    return f"A restart is taken to cost {known['seconds']:.0f} s: {parts}; {seen}."


def stragglers(
    ctx: typer.Context,
    node: Annotated[str, typer.Argument(metavar="NODE", help="Name of the node.")],
    form: Form = Format.TABLE,
) -> None:
    """Show in which trainings a worker on a node was named as slow, the newest first."""
    session: Session = ctx.obj
    found = session.client.slow_workers(node)
    if not form.is_text:
        output.dump(found, form)
    elif found["trainings"]:
        output.say(output.table(found["trainings"], SLOW, form))
    else:
        output.say(f"No worker on {node} was named as slow.")


def reallocation(
    ctx: typer.Context,
    team: Annotated[str, typer.Argument(help="The team.")],
    mode: Annotated[Mode, typer.Argument(metavar="off|recommend|automatic", help="What is done.")],
) -> None:
    """Say what is done where it is known what makes a team's trainings faster. For the team's admins."""
    session: Session = ctx.obj
    saved = session.client.save_team(team, reallocation=mode.value)
    output.say(f"Reallocation of trainings of {team}: {saved.reallocation}.")


def _say(tried: Json, form: Format) -> None:
    if tried["recommended"]:
        output.say("\nWhat would make it faster:")
    for told in tried["recommended"]:
        output.say(f"  {output.clean(told)}")
    if tried["experiments"]:
        output.say("\n" + output.table(tried["experiments"], TRIED, form))
