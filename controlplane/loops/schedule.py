"""Read, decide, commit."""

import time
from dataclasses import asdict
from typing import Any

from controlplane import wake
from controlplane.cycle import Difference
from controlplane.loops import rounds
from controlplane.loops.lease import Report
from controlplane.loops.wiring import Wiring
from controlplane.queries.snapshot import SnapshotKeeper, Taken
from controlplane.services import decisions, policy
from controlplane.services.cycles import CycleInput
from controlplane.services.leases import HeldLease
from scheduler.decision import Decision, Wait
from scheduler.policies import decide

BASE_EVERY = 50  # stored rounds between two whole inputs: a replay applies at most so many differences


class Journal:
    """Puts together what a stored round has to hold, so that it can be decided again."""

    def __init__(self) -> None:
        self._changed: dict[str, str] = {}
        self._gone: dict[str, None] = {}
        self._frame: str | None = None
        self._demand: str | None = None
        self._since_base = 0
        self._needs_base = True

    def add(self, taken: Taken) -> None:
        """Note a difference; rounds that decide nothing are not stored, so theirs belongs to the next that is."""
        if taken.is_base:
            self._needs_base = True
        for uid in taken.changed.gone:
            self._changed.pop(uid, None)
            self._gone[uid] = None
        for uid, text in taken.changed.changed.items():
            self._gone.pop(uid, None)
            self._changed[uid] = text
        if taken.changed.frame is not None:
            self._frame = taken.changed.frame
        if taken.changed.demand is not None:
            self._demand = taken.changed.demand

    def input(self, keeper: SnapshotKeeper, at: float) -> tuple[bytes, bool]:
        """The input of the round being stored, and whether it is a base."""
        if self._needs_base or self._since_base >= BASE_EVERY:
            return keeper.whole().pack(), True
        return Difference(at, self._changed, tuple(self._gone), self._frame, self._demand).pack(), False

    def stored(self, is_base: bool) -> None:
        """The round is in the database: the next difference starts from here."""
        self._changed, self._gone, self._frame, self._demand = {}, {}, None, None
        self._since_base = 0 if is_base else self._since_base + 1
        self._needs_base = False


def run_once(wiring: Wiring) -> Report:
    """One round of the schedule loop."""
    return rounds.run("schedule", wiring, _schedule)


def _schedule(wiring: Wiring, lease: HeldLease) -> int:
    # Taken out and put back: a round that breaks off anywhere leaves nothing half followed behind.
    keeper: SnapshotKeeper = wiring.kept.pop("keeper", None) or SnapshotKeeper()
    journal: Journal = wiring.kept.pop("journal", None) or Journal()
    applied = _round(wiring, lease, keeper, journal)
    wiring.kept.update(keeper=keeper, journal=journal)
    return applied


def _round(wiring: Wiring, lease: HeldLease, keeper: SnapshotKeeper, journal: Journal) -> int:
    started = time.monotonic()
    settings, version = policy.current()
    taken = keeper.take(lease, wiring.cluster.now())
    journal.add(taken)
    decided = decide(taken.snapshot, settings.scheduling)
    if not decided:
        return 0
    packed, is_base = journal.input(keeper, taken.snapshot.at)
    cycle = CycleInput(
        loop="schedule",
        at=taken.snapshot.at,
        took_ms=round((time.monotonic() - started) * 1000, 3),
        policy=version,
        digest=taken.digest,
        is_base=is_base,
        input=packed,
        decisions=[record(decision) for decision in decided],
        counts=count(decided),
    )
    committed = decisions.commit(decided, lease=lease, cycle=cycle, is_followed=True)
    keeper.follow(committed.applied)
    journal.stored(is_base)
    if sum(not isinstance(decision, Wait) for decision in decided) >= settings.scheduling.most_changes:
        wake.bells["schedule"].set()  # there may be more: come again at once instead of after a period
    return len(committed.applied)


def record(decision: Decision) -> dict[str, Any]:
    """A decision as the Cycle row keeps it."""
    return {"kind": type(decision).__name__, **asdict(decision)}


def count(decided: tuple[Decision, ...]) -> dict[str, int]:
    """How many decisions of each kind."""
    counts: dict[str, int] = {}
    for decision in decided:
        kind = type(decision).__name__
        counts[kind] = counts.get(kind, 0) + 1
    return counts
