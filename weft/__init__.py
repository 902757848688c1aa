"""`from weft import Client`: the Python SDK.

A name is loaded when it is asked for, so that the command line starts without the HTTP client.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.answers import (
        Applied,
        Budget,
        Cost,
        Diff,
        Eta,
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
    from weft.cells import Cell
    from weft.client import Client
    from weft.errors import (
        Conflict,
        FieldError,
        NotFound,
        NotReachable,
        NotSignedIn,
        Outdated,
        WaitTimeout,
        WeftError,
    )
    from weft.ledger import Gpu
    from weft.reporter import report
    from weft.transport import Retries

__all__ = [
    "Applied",
    "Budget",
    "Cell",
    "Client",
    "Conflict",
    "Cost",
    "Diff",
    "Eta",
    "Event",
    "Explanation",
    "FieldError",
    "Gpu",
    "LogLine",
    "Logs",
    "Me",
    "Node",
    "NodePool",
    "NotFound",
    "NotReachable",
    "NotSignedIn",
    "Outdated",
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
    "report",
]
_WHERE = {
    "answers": (
        "Applied",
        "Budget",
        "Cost",
        "Diff",
        "Eta",
        "Event",
        "Explanation",
        "LogLine",
        "Logs",
        "Me",
        "Node",
        "NodePool",
        "Preview",
        "PriorityClass",
        "Quota",
        "Team",
        "TeamShare",
        "Token",
        "Workload",
    ),
    "cells": ("Cell",),
    "client": ("Client",),
    "errors": (
        "Conflict",
        "FieldError",
        "NotFound",
        "NotReachable",
        "NotSignedIn",
        "Outdated",
        "WaitTimeout",
        "WeftError",
    ),
    "ledger": ("Gpu",),
    "reporter": ("report",),
    "transport": ("Retries",),
}
_MODULE = {name: module for module, names in _WHERE.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load what is asked for (PEP 562)."""
    if name not in _MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"weft.{_MODULE[name]}"), name)
    globals()[name] = found
    return found
