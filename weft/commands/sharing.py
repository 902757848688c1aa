"""sharing and pool: beside whose shares a team's may lie, and for what a pool's GPUs may be taken."""

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


def pool(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="The node pool.")],
    takes: Annotated[Takes, typer.Argument(metavar="whole|shares|both", help="For what its GPUs may be taken.")],
) -> None:
    """Say for what new work may take a node pool's GPUs; what runs there stays. For platform admins."""
    session: Session = ctx.obj
    saved = session.client.save_node_pool(name, takes=takes.value)
    output.say(f"Node pool {name} takes {WORDS[Takes(saved.takes)]}.")
    if takes is not Takes.WHOLE:
        enforced = f"; what holds a share to its part: {saved.enforced_by}" if saved.enforced_by else ""
        output.say(f"{saved.share_nodes} of its {saved.nodes} nodes are labelled for shares{enforced}.")
