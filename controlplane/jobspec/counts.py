"""How many members a job file asks for, once it has been read: workers, replicas, replicas on standby."""

from collections.abc import Mapping
from typing import Any

from autoscaler.zero import IDLE_SECONDS
from controlplane.jobspec import jobfile
from controlplane.jobspec.scaling import PACK
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


def asynchronous(kind: Kind, values: Mapping[str, Any]) -> bool:
    """Whether the workers of a training do not wait for each other in each step."""
    return kind is Kind.TRAINING and bool(values["workers"]["asynchronous"])


def idle_after(kind: Kind, values: Mapping[str, Any]) -> float | None:
    """Seconds without a request until a service falls asleep; None: it never does."""
    may_sleep = kind is Kind.INFERENCE and not values["replicas"]["min"]
    return float(values["replicas"]["scale_to_zero_after"] or IDLE_SECONDS) if may_sleep else None


def standby(kind: Kind, values: Mapping[str, Any]) -> int:
    """Replicas that a service keeps loaded beyond those that serve."""
    given = values.get("standby") or 0
    return workers(kind, values).max if given == jobfile.AUTO else int(given)


def spread(kind: Kind, values: Mapping[str, Any]) -> str:
    """Over what a service's replicas are spread; empty: they are packed."""
    given = (values["replicas"]["spread"] or PACK) if kind is Kind.INFERENCE else PACK
    return "" if given == PACK else str(given)
