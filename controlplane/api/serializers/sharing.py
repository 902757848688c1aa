"""Request bodies of sharing: beside whose shares a team's may lie, and for what a pool's GPUs may be taken."""

from rest_framework import serializers as s

from controlplane.jobspec.shapes import REQUIRED, Choice, Field, Flag, Record
from controlplane.queries.tenancy.teams import Takes

TEAM_CHANGES = Record(
    (Field("shares_with_others", Flag(), "Whether its shares may lie beside those of other teams.", REQUIRED),)
)
NODE_POOL = Record((Field("takes", Choice(tuple(Takes.values)), "For what new work may take its GPUs.", REQUIRED),))


class TeamChanges(s.Serializer[object]):
    """What a team's admins say about it."""


class NodePoolChanges(s.Serializer[object]):
    """What a pool is for."""
