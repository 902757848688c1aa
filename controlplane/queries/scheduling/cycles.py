"""Stored rounds: what each of them saw."""

from controlplane.domain.cycle import rebuild
from controlplane.models import Cycle
from scheduler.model.snapshot import Snapshot

REPLAYED = {"schedule": "scheduling", "scale": "scaling"}  # the loops whose rounds can be decided again


class InputGoneError(Exception):
    """The round's input is not kept any more."""


def replayable() -> list[int]:
    """Numbers of the scheduler's rounds whose input is kept, newest first."""
    kept = Cycle.objects.filter(loop="schedule", input__isnull=False)
    return list(kept.order_by("-pk").values_list("pk", flat=True))


def stored(number: int) -> Cycle:
    """A round of the scheduler or of the autoscaler, with its input. Raises InputGoneError, which names one to take."""
    found = Cycle.objects.filter(pk=number).first()
    if found is not None and found.input is not None and found.loop in REPLAYED:
        return found
    newest = (Cycle.objects.filter(loop=loop, input__isnull=False).order_by("-pk").first() for loop in REPLAYED)
    there = [f"{one.pk} ({REPLAYED[one.loop]})" for one in newest if one is not None]
    fix = f"Take {' or '.join(there)}, the newest." if there else "Let Weft run until a round has decided something."
    if found is None or found.loop not in REPLAYED:
        what = f"There is no scheduling or scaling round {number}." if number else "No round is stored."
    else:
        what = f"The input of round {number} is not kept any more."
    raise InputGoneError(f"{what} {fix}")


def snapshot_of(cycle: Cycle) -> Snapshot:
    """What a round saw: the last whole input before it and the differences since. Raises InputGoneError."""
    kept = Cycle.objects.filter(loop=cycle.loop, cell=cycle.cell, pk__lte=cycle.pk, input__isnull=False)
    base = kept.filter(is_base=True).order_by("-pk").values_list("pk", flat=True).first()
    if base is None:
        raise InputGoneError(f"The database has no input of cycle {cycle.pk}. Name one of the newest rounds.")
    inputs = kept.filter(pk__gte=base).order_by("pk").values_list("input", flat=True)
    return rebuild(bytes(packed) for packed in inputs if packed is not None)
