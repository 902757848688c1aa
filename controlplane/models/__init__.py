"""Tables and constraints, no rules: writes are in services, reads in queries."""

from controlplane.models.accounts import GroupMapping, ProviderGrant, Session, SignInFailures
from controlplane.models.auditlog import AuditEntry, Outcome
from controlplane.models.cluster import ClusterState, Gpu, Node
from controlplane.models.cycle import Audit, Cycle, Heartbeat, Lease, PolicyVersion
from controlplane.models.event import Event
from controlplane.models.forecast import StartForecast
from controlplane.models.notice import (
    ACCOUNT_MATTER,
    Delivery,
    DeliveryState,
    EventCursor,
    Matter,
    Notice,
    NotificationRule,
    Webhook,
    WebhookFormat,
)
from controlplane.models.outbox import Action, Change, IdempotencyKey
from controlplane.models.personal import Preferences, SavedView, Template
from controlplane.models.retention import AuditAnchor, Pruned
from controlplane.models.simulation import Simulation, SimulationState
from controlplane.models.team import (
    Budget,
    Membership,
    NodePool,
    PodSecurity,
    PriorityClass,
    Quota,
    Role,
    Scope,
    Source,
    Takes,
    Team,
    Token,
    User,
)
from controlplane.models.usage import (
    ServiceAlarm,
    ServiceDay,
    ServiceState,
    ServiceWindow,
    TeamSample,
    TeamUse,
    Usage,
    WorkloadSample,
)
from controlplane.models.workload import Dependency, Placement, PlacementState, Revision, Workload

__all__ = [
    "ACCOUNT_MATTER",
    "Action",
    "Audit",
    "AuditAnchor",
    "AuditEntry",
    "Budget",
    "Change",
    "ClusterState",
    "Cycle",
    "Delivery",
    "DeliveryState",
    "Dependency",
    "Event",
    "EventCursor",
    "Gpu",
    "GroupMapping",
    "Heartbeat",
    "IdempotencyKey",
    "Lease",
    "Matter",
    "Membership",
    "Node",
    "NodePool",
    "Takes",
    "Notice",
    "NotificationRule",
    "Outcome",
    "Placement",
    "PlacementState",
    "PodSecurity",
    "PolicyVersion",
    "Preferences",
    "PriorityClass",
    "ProviderGrant",
    "Pruned",
    "Quota",
    "Revision",
    "Role",
    "SavedView",
    "Scope",
    "ServiceAlarm",
    "ServiceDay",
    "ServiceState",
    "ServiceWindow",
    "Session",
    "SignInFailures",
    "Simulation",
    "SimulationState",
    "Source",
    "StartForecast",
    "Team",
    "TeamSample",
    "TeamUse",
    "Template",
    "Token",
    "Usage",
    "User",
    "Webhook",
    "WebhookFormat",
    "Workload",
    "WorkloadSample",
]
