"""`from weft import Client`: the Python SDK (re-exported from controlplane.client)."""

from controlplane.client.answers import (
    Applied,
    Event,
    Explanation,
    LogLine,
    Logs,
    Me,
    Node,
    NodePool,
    Preview,
    PriorityClass,
    Quota,
    Team,
    TeamShare,
    Token,
    Workload,
)
from controlplane.client.client import Client
from controlplane.client.errors import (
    Conflict,
    FieldError,
    NotFound,
    NotReachable,
    NotSignedIn,
    WaitTimeout,
    WeftError,
)
from controlplane.client.transport import Retries

__all__ = [
    "Applied",
    "Client",
    "Conflict",
    "Event",
    "Explanation",
    "FieldError",
    "LogLine",
    "Logs",
    "Me",
    "Node",
    "NodePool",
    "NotFound",
    "NotReachable",
    "NotSignedIn",
    "Preview",
    "PriorityClass",
    "Quota",
    "TeamShare",
    "Retries",
    "Team",
    "Token",
    "WaitTimeout",
    "WeftError",
    "Workload",
]
