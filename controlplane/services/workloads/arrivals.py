"""Submitting what a preset's people submit: each arrival once, however often we are killed."""

from collections.abc import Sequence

import structlog
from django.db import transaction

from controlplane.jobspec.spec import SpecError, parse
from controlplane.models import ClusterState
from controlplane.models.past import uid_of
from controlplane.services.errors import Refused
from controlplane.services.workloads.submission import Submission, submit_all
from controlplane.simulator.worlds.presets import Arrival

log = structlog.get_logger(__name__)


class CursorMovedError(Exception):
    """Another process has submitted these arrivals by now; nothing was written."""


def submitted() -> int:
    """How many of the preset's arrivals are in the database."""
    return ClusterState.objects.values_list("arrivals", flat=True).get()


def skip(count: int) -> None:
    """Note that so many of the preset's arrivals, the first ones, are in the database by another way."""
    ClusterState.objects.update(arrivals=count)


def pace() -> tuple[float, bool]:
    """Cluster seconds per second at most, and whether the clock is paused."""
    speed, paused = ClusterState.objects.values_list("speed", "paused").get()
    return max(float(speed), 0.001), bool(paused)


@transaction.atomic
def submit(*, arrivals: Sequence[Arrival], seen: int, world: str) -> int:
    """Submit these arrivals, the `seen`th and on, and move the cursor in the same transaction; return the new cursor.

    What the services refuse is left out with a line in the log: a trace may ask what its cluster does not have.
    Raises CursorMovedError.
    """
    after = seen + len(arrivals)
    if not ClusterState.objects.filter(arrivals=seen).update(arrivals=after):
        raise CursorMovedError(f"the arrivals from {seen} on have been submitted by another process")
    try:
        with transaction.atomic():
            submit_all([one for arrival in arrivals for one in _submissions(arrival, world)])
    except (Refused, SpecError):
        for arrival in arrivals:
            _submit_alone(arrival, world)
    return after


def _submit_alone(arrival: Arrival, world: str) -> None:
    try:
        with transaction.atomic():
            submit_all(_submissions(arrival, world))
    except (Refused, SpecError) as refused:
        log.warning("arrival refused", names=[d["name"] for d in arrival.documents], why=str(refused))


def _submissions(arrival: Arrival, world: str) -> list[Submission]:
    """The arrival's job files. Their ids follow from the world, so that the same run has the same pods."""
    specs = [parse(document, allow_simulated=True) for document in arrival.documents]
    return [
        Submission(
            spec,
            actor=arrival.actor,
            at=arrival.at,
            uid=uid_of(world, spec.team, spec.name),
        )
        for spec in specs
    ]
