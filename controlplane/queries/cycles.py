"""Stored rounds: what each of them saw."""

from controlplane.cycle import rebuild
from controlplane.models import Cycle
from scheduler.snapshot import Snapshot


class InputGoneError(Exception):
    """The round's input is not kept any more."""


def replayable() -> list[int]:
    """Numbers of the scheduler's rounds whose input is kept, newest first."""
    kept = Cycle.objects.filter(loop="schedule", input__isnull=False)
    return list(kept.order_by("-pk").values_list("pk", flat=True))


def snapshot_of(cycle: Cycle) -> Snapshot:
    """What a round saw: the last whole input before it and the differences since. Raises InputGoneError."""
    kept = Cycle.objects.filter(loop=cycle.loop, pk__lte=cycle.pk, input__isnull=False)
    base = kept.filter(is_base=True).order_by("-pk").values_list("pk", flat=True).first()
    if base is None:
        raise InputGoneError(f"The database has no input of cycle {cycle.pk}. Name one of the newest rounds.")
    inputs = kept.filter(pk__gte=base).order_by("pk").values_list("input", flat=True)
    return rebuild(bytes(packed) for packed in inputs if packed is not None)
