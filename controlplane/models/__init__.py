"""Tables and constraints, no rules: writes are in services, reads in queries."""

from controlplane.models.cluster import ClusterState, Gpu, Node
from controlplane.models.cycle import Audit, Cycle, Heartbeat, Lease, PolicyVersion
from controlplane.models.event import Event
from controlplane.models.forecast import StartForecast
from controlplane.models.outbox import Action, Change, IdempotencyKey
from controlplane.models.simulation import Simulation, SimulationState
from controlplane.models.team import (
    Budget,
    Membership,
    NodePool,
    PodSecurity,
    PriorityClass,
    Quota,
    Role,
    Team,
    Token,
    User,
)
from controlplane.models.usage import ServiceWindow, TeamSample, TeamUse, Usage
from controlplane.models.workload import Dependency, Placement, PlacementState, Workload

__all__ = [
    "Action",
    "Audit",
    "Budget",
    "Change",
    "ClusterState",
    "Cycle",
    "Dependency",
    "Event",
    "Gpu",
    "Heartbeat",
    "IdempotencyKey",
    "Lease",
    "Membership",
    "Node",
    "NodePool",
    "Placement",
    "PlacementState",
    "PodSecurity",
    "PolicyVersion",
    "PriorityClass",
    "Quota",
    "Role",
    "ServiceWindow",
    "Simulation",
    "SimulationState",
    "StartForecast",
    "Team",
    "TeamSample",
    "TeamUse",
    "Token",
    "Usage",
    "User",
    "Workload",
]
