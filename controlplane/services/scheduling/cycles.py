"""Rounds that decided something, kept so that they can be decided again (`manage.py replay CYCLE`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Max

from controlplane.models import Cycle, bulk
from controlplane.models.statements import database_clock

KEEP_INPUTS = 1000  # rounds that can be replayed; older ones keep their decisions

_NAMES = (
    "loop", "cluster_at", "took_ms", "epoch", "policy", "digest", "is_base", "input", "decisions", "counts",
    "cell",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CycleInput:
    """What a loop knew: the digest of its snapshot and the snapshot itself, whole (a base) or as a difference."""

    loop: str
    at: float  # cluster clock, seconds
    took_ms: float = 0.0
    policy: int | None = None
    digest: str = ""
    is_base: bool = False
    input: bytes | None = None
    decisions: Sequence[Any] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    cell: str = ""  # of the scheduler: whose nodes it is about


def record(cycle: CycleInput, *, epoch: int) -> int:
    """Store a round and tell its number; when it is a base, drop the inputs of rounds that are too old."""
    row = (
        cycle.loop, cycle.at, cycle.took_ms, epoch, cycle.policy, cycle.digest, cycle.is_base, cycle.input,
        list(cycle.decisions), dict(cycle.counts), cycle.cell,
    )  # fmt: skip
    number = bulk.insert_one(Cycle, _NAMES, row, at=database_clock())
    if cycle.is_base:
        prune(loop=cycle.loop, cell=cycle.cell)
    return number


def become_base(number: int, whole: bytes) -> None:
    """Give a stored round its whole input instead of the difference to the round before: it says the same."""
    if Cycle.objects.filter(pk=number, input__isnull=False).update(input=whole, is_base=True):
        loop, cell = Cycle.objects.values_list("loop", "cell").get(pk=number)
        prune(loop=loop, cell=cell)


def prune(*, loop: str, cell: str = "", keep: int = KEEP_INPUTS) -> int:
    """Drop the inputs of all but a cell's last `keep` rounds, and of those before the base that the oldest needs."""
    rounds = Cycle.objects.filter(loop=loop, cell=cell, input__isnull=False)
    oldest = rounds.order_by("-id").values_list("id", flat=True)[keep - 1 : keep].first()
    if oldest is None:
        return 0
    base = rounds.filter(is_base=True, id__lte=oldest).aggregate(last=Max("id"))["last"]
    return rounds.filter(id__lt=base).update(input=None) if base is not None else 0
