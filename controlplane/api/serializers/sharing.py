"""Request bodies of what is said of a team and of a pool: sharing, reallocation, for what GPUs may be taken."""

from rest_framework import serializers as s

from controlplane.jobspec.shapes import Choice, Field, Flag, Items, Record, Whole
from controlplane.lifecycle.notebooks import MOST_MINUTES
from controlplane.queries.tenancy.teams import Reallocation, Takes
from controlplane.services.tenancy import teams
from gpushare.backends.catalogue import CHOSEN, DEMANDS

NODES_SAY = "nodes"
TEAM_CHANGES = Record(
    (
        Field("shares_with_others", Flag(), "Whether its shares may lie beside those of other teams."),
        Field(
            "reallocation",
            Choice(tuple(Reallocation.values)),
            "Whether what makes its trainings faster is recommended, tried as well (automatic), or neither (off).",
        ),
        Field(
            "notebook_park_minutes",
            Whole(0, MOST_MINUTES),
            "Its notebooks are parked after so many minutes without use at the latest; 0: as their job files say.",
        ),
        Field(
            "notebook_max_milli",
            Whole(0, teams.MOST_MILLI),
            "What a notebook of it may be guaranteed, in thousandths of a GPU; 0: as much as quota allows.",
        ),
        Field("notebook_extend", Flag(), "Whether its members may restart the idle time of a notebook."),
        Field(
            "share_demands",
            Items(Choice(DEMANDS, names_all=True), len(DEMANDS), is_unique=True),
            "What must be held of its shares, and by which back-end; an empty list: nothing.",
        ),
    )
)
NODE_POOL = Record(
    (
        Field("takes", Choice(tuple(Takes.values)), "For what new work may take its GPUs."),
        Field(
            "enforcer",
            Choice((*(one.value for one in CHOSEN), NODES_SAY), names_all=True),
            "What holds shares there to their parts; nodes: what each node says of itself.",
        ),
    )
)


class TeamChanges(s.Serializer[object]):
    """What a team's admins say about it."""


class NodePoolChanges(s.Serializer[object]):
    """What a pool is for, and what holds its shares."""
