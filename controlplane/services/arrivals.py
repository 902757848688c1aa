"""Submitting what a preset's people submit: each arrival once, however often we are killed."""

import uuid
from collections.abc import Sequence

import structlog
from django.db import transaction

from controlplane.models import ClusterState
from controlplane.services import workloads
from controlplane.services.errors import Refused
from controlplane.simulator.presets import Arrival
from controlplane.spec import SpecError, parse

log = structlog.get_logger(__name__)


class CursorMoved(Exception):
    """Somebody else has submitted these arrivals by now; nothing was written."""


def submitted() -> int:
    """How many of the preset's arrivals are in the database."""
    return ClusterState.objects.values_list("arrivals", flat=True).get()


def pace() -> tuple[float, bool]:
    """Cluster seconds per second at most, and whether the clock is paused."""
    speed, paused = ClusterState.objects.values_list("speed", "paused").get()
    return max(float(speed), 0.001), bool(paused)


@transaction.atomic
def submit(*, arrivals: Sequence[Arrival], seen: int, at: float, world: str) -> int:
    """Submit these arrivals, the `seen`th and on, and move the cursor in the same transaction; return the new cursor.

    What the services refuse is left out with a line in the log: a trace may ask what its cluster does not have.
    Raises CursorMoved.
    """
    after = seen + len(arrivals)
    if not ClusterState.objects.filter(arrivals=seen).update(arrivals=after):
        raise CursorMoved(f"the arrivals from {seen} on have been submitted by another process")
    for arrival in arrivals:
        try:
            with transaction.atomic():
                _submit(arrival, at, world)
        except (Refused, SpecError) as refused:
            log.warning("arrival refused", names=[d["name"] for d in arrival.documents], why=str(refused))
    return after


def _submit(arrival: Arrival, at: float, world: str) -> None:
    specs = [parse(document, allow_simulated=True) for document in arrival.documents]
    workloads.submit_many(
        specs=specs,
        user=None,
        actor=arrival.actor,
        at=at,
        # Names that depend on nothing but the world: the same run gives the same ids, and so the same pods.
        uids=[uuid.uuid5(uuid.NAMESPACE_OID, f"{world}/{spec.team}/{spec.name}/{arrival.at:.0f}") for spec in specs],
    )
