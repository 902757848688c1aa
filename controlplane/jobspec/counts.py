"""How many members a job file asks for, once it has been read: workers, replicas, replicas on standby."""

from collections.abc import Mapping
from typing import Any

from autoscaler.zero import IDLE_SECONDS
from controlplane.jobspec import jobfile
from scheduler.model.workload import Gang, Kind


def workers(kind: Kind, values: Mapping[str, Any]) -> Gang:
    """How many workers or replicas: what it begins with, the least and the most."""
    if kind is Kind.INFERENCE:
        least = values["replicas"]["min"]
        first = max(1, least)  # so that it is known whether it starts, and how long that takes
        return Gang(first, least, values["replicas"]["max"] or first)
    if kind is Kind.NOTEBOOK:
        return Gang()
    count = values["workers"]["count"]
    return Gang(count, values["workers"]["min"] or count, values["workers"]["max"] or count)


def idle_after(kind: Kind, values: Mapping[str, Any]) -> float | None:
    """Seconds without a request until a service falls asleep; None: it never does."""
    may_sleep = kind is Kind.INFERENCE and not values["replicas"]["min"]
    return float(values["replicas"]["scale_to_zero_after"] or IDLE_SECONDS) if may_sleep else None


def standby(kind: Kind, values: Mapping[str, Any]) -> int:
    """Replicas that a service keeps loaded beyond those that serve."""
    given = values.get("standby") or 0
    return workers(kind, values).max if given == jobfile.AUTO else int(given)
