"""Request bodies of what is said of a team and of a pool: sharing, reallocation, for what GPUs may be taken."""

from rest_framework import serializers as s

from controlplane.jobspec.shapes import REQUIRED, Choice, Field, Flag, Record
from controlplane.queries.tenancy.teams import Reallocation, Takes

TEAM_CHANGES = Record(
    (
        Field("shares_with_others", Flag(), "Whether its shares may lie beside those of other teams."),
        Field(
            "reallocation",
            Choice(tuple(Reallocation.values)),
            "Whether what makes its trainings faster is recommended, tried as well (automatic), or neither (off).",
        ),
    )
)
NODE_POOL = Record((Field("takes", Choice(tuple(Takes.values)), "For what new work may take its GPUs.", REQUIRED),))


class TeamChanges(s.Serializer[object]):
    """What a team's admins say about it."""


class NodePoolChanges(s.Serializer[object]):
    """What a pool is for."""
