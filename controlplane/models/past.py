"""The tables and columns that the demo's past is made of; the `week.py` of the queries reads them."""

from collections.abc import Mapping
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

from django.db import models

from controlplane.models.cluster import Node
from controlplane.models.cycle import Cycle
from controlplane.models.event import Event
from controlplane.models.team import NodePool, PriorityClass, Team, User
from controlplane.models.usage import ServiceWindow, TeamSample, TeamUse, Usage, WorkloadSample
from controlplane.models.workload import Dependency, Placement, Workload

# In the order in which they may be written.
MODELS: Mapping[str, type[models.Model]] = {
    model.__name__: model
    for model in (
        Node, Workload, Dependency, Cycle, Placement, Event, Usage, TeamUse, TeamSample, ServiceWindow, WorkloadSample,
    )
}  # fmt: skip
NAMED = (Team, PriorityClass, NodePool)


def uid_of(world: str, team: str, name: str) -> UUID:
    """The id of a workload that a preset's people submit: the same in each run of this world."""
    return uuid5(NAMESPACE_OID, f"{world}/{team}/{name}")


def kept(model: type[models.Model]) -> tuple[Any, ...]:
    """The columns that the document has: not automatic keys, the database's clock, rounds' inputs and accounts."""
    out = (models.AutoField, models.DateTimeField, models.BinaryField)
    return tuple(
        field
        for field in model._meta.concrete_fields
        if not isinstance(field, out) and not (field.is_relation and field.related_model is User)
    )


def is_workload(field: Any) -> bool:
    """Whether a column names a workload."""
    return isinstance(field, models.UUIDField) or (field.is_relation and field.related_model is Workload)
