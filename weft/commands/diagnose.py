"""diagnose, reallocation: what slows a training, what would make it faster, and what was tried."""

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
COLUMNS = (
    Column("BOTTLENECK", lambda row: str(row["bottleneck"])),
    Column("OF A STEP", lambda row: f"{row['removable']:.0%}", right=True),
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
    _say(tried, form)


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
