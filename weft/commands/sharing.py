"""sharing, demand, parking and pool: beside whose shares a team's may lie, what holds of its notebooks, of pools."""

from enum import StrEnum
from typing import Annotated

import typer

from weft import output
from weft.session import Session


class Switch(StrEnum):
    """On or off."""

    ON = "on"
    OFF = "off"


class Takes(StrEnum):
    """For what new work may take a pool's GPUs."""

    WHOLE = "whole"
    SHARES = "shares"
    BOTH = "both"


class By(StrEnum):
    """What holds shares to their parts; NODES: what each node says of itself."""

    MIG = "mig"
    MPS = "mps"
    HAMI = "hami"
    DRA = "dra"
    TIME_SLICING = "time-slicing"
    WEFT = "weft"
    NODES = "nodes"


NOTHING = "nothing"
WORDS = {Takes.WHOLE: "whole GPUs", Takes.SHARES: "shares", Takes.BOTH: "whole GPUs and shares"}


def sharing(
    ctx: typer.Context,
    team: Annotated[str, typer.Argument(help="The team.")],
    allowed: Annotated[Switch, typer.Argument(metavar="on|off", help="Whether its shares may lie beside others'.")],
) -> None:
    """Allow a team's shares on one GPU with those of other teams that allow it too. For the team's admins."""
    session: Session = ctx.obj
    saved = session.client.save_team(team, shares_with_others=allowed is Switch.ON)
    if saved.shares_with_others:
        output.say(f"New shares of {team} may lie beside shares of other teams that allow it too.")
    else:
        output.say(f"New shares of {team} lie beside those of no other team.")


def parking(
    ctx: typer.Context,
    team: Annotated[str, typer.Argument(help="The team.")],
    minutes: Annotated[
        int | None, typer.Option("--after", min=0, help="Minutes without use until they are parked; 0: no limit.")
    ] = None,
    share: Annotated[
        float | None,
        typer.Option("--share", min=0.0, help="GPUs that one may be guaranteed, such as 0.5; 0: no limit."),
    ] = None,
    extend: Annotated[
        Switch | None, typer.Option("--extend", metavar="on|off", help="Whether an idle one may be extended.")
    ] = None,
) -> None:
    """Say when a team's notebooks are parked, and how large they may be. For the team's admins."""
    session: Session = ctx.obj
    if minutes is None and share is None and extend is None:
        found = session.client.team(team)
    else:
        milli = None if share is None else round(1000 * share)
        may = None if extend is None else extend is Switch.ON
        found = session.client.save_team(
            team, notebook_park_minutes=minutes, notebook_max_milli=milli, notebook_extend=may
        )
    after, most = found.notebook_park_minutes, found.notebook_max_milli
    limit = f"after {after} minutes without use at the latest" if after else "as their job files say"
    output.say(f"Notebooks of {team} are parked {limit}.")
    output.say(f"One may be guaranteed {f'{most / 1000:g} GPUs' if most else 'what quota allows'}.")
    output.say(f"An idle one may {'be' if found.notebook_extend else 'not be'} extended.")


def demand(
    ctx: typer.Context,
    team: Annotated[str, typer.Argument(help="The team.")],
    held: Annotated[
        list[str],
        typer.Argument(help="memory, time, faults, the name of a back-end (mig, mps, ...), or nothing."),
    ],
) -> None:
    """Say what must be held of a team's shares of GPUs: they go to pools that hold it only. For the team's admins."""
    session: Session = ctx.obj
    saved = session.client.save_team(team, share_demands=[] if held == [NOTHING] else held)
    if saved.share_demands:
        output.say(f"New shares of {team} go only where this is held: {', '.join(saved.share_demands)}.")
    else:
        output.say(f"New shares of {team} go wherever they fit.")


def pool(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="The node pool.")],
    takes: Annotated[Takes, typer.Argument(metavar="whole|shares|both", help="For what its GPUs may be taken.")],
    by: Annotated[
        By | None, typer.Option("--enforced-by", help="What holds shares to their parts; nodes: what each node says.")
    ] = None,
) -> None:
    """Say for what new work may take a node pool's GPUs, and what holds shares there. For platform admins.

    What runs there stays.
    """
    session: Session = ctx.obj
    saved = session.client.save_node_pool(name, takes=takes.value, enforcer="" if by is None else by.value)
    output.say(f"Node pool {name} takes {WORDS[Takes(saved.takes)]}.")
    if takes is not Takes.WHOLE:
        enforced = f"; what holds a share to its part: {saved.enforced_by}" if saved.enforced_by else ""
        output.say(f"{saved.share_nodes} of its {saved.nodes} nodes are labelled for shares{enforced}.")
        if saved.enforcement:
            tried = "" if saved.verified or not saved.guarantees else " Not verified on a GPU by Weft."
            output.say(f"{saved.enforcement}{tried}")
