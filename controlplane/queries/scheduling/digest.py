"""One number for all that happened: two runs of the same world must have the same."""

from hashlib import sha256

from controlplane.models import Usage, Workload

_WORKLOAD = (
    "team__name", "name", "phase", "attempt", "failures", "submitted_at", "queued_at", "first_started_at", "started_at",
    "ended_at", "attained", "preempted_at", "exit_code",
)  # fmt: skip
_USAGE = ("team__name", "name", "pool", "hour", "held")


def of_history() -> str:
    """Of every workload's phase and times, and of every usage row; ids and real time play no part."""
    digest = sha256()
    for row in Workload.objects.order_by("team__name", "seq").values_list(*_WORKLOAD).iterator():
        digest.update(repr(row).encode())
    for usage in Usage.objects.order_by(*_USAGE).values_list(*_USAGE).iterator():
        digest.update(repr(usage).encode())
    return digest.hexdigest()[:32]
