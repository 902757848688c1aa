"""Read, decide, commit."""

import time
from dataclasses import dataclass, fields, replace
from typing import Any

from django.conf import settings as configured

from controlplane.domain.cycle import Difference
from controlplane.domain.deciders import SCHEDULE, decider_of
from controlplane.loops import deciding, rounds
from controlplane.loops.keeper import SnapshotKeeper, Taken
from controlplane.loops.lease import Report
from controlplane.loops.wiring import Wiring
from controlplane.runtime import wake
from controlplane.services.scheduling import cycles, decisions, inforce, roundviews
from controlplane.services.scheduling.cycles import CycleInput
from controlplane.services.scheduling.inforce import InForce
from controlplane.services.scheduling.leases import HeldLease
from scheduler.cells.route import shown
from scheduler.explain.roundview import Note
from scheduler.model.cell import Cell, CellView, names
from scheduler.model.decision import Decision, Evict, Offload, Place, Shrink, Wait
from scheduler.model.partial_cycle import DirtySet, PartialCycle, Starts
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import Assignment
from scheduler.policies import WEFT, decide_round

_FIELDS = {kind: tuple(f.name for f in fields(kind)) for kind in (Place, Evict, Shrink, Wait, Offload)}
_WORKER = tuple(f.name for f in fields(Assignment))
_STANDBY = ("asleep_at", "lender", "weights")  # of a worker; kept only where they are set
BASE_EVERY = 50  # stored rounds between two whole inputs, as long as the loop finds time for one


class Journal:
    """Puts together what a stored round has to hold, so that it can be decided again."""

    def __init__(self, base_every: int = BASE_EVERY) -> None:
        self._base_every = base_every
        self._changed: dict[str, str] = {}
        self._gone: dict[str, None] = {}
        self._frame: str | None = None
        self._demand: str | None = None
        self._since_base = 0
        self._needs_base = True
        self._owed: tuple[int, Difference] | None = None  # the round that is to become a base, and its whole input
        self.dirty: DirtySet | None = DirtySet()  # to be tried, since a round decided last; None: all

    def add(self, taken: Taken) -> None:
        """Note a difference; rounds that decide nothing are not stored, so theirs belongs to the next that is."""
        if taken.is_base:
            self._needs_base = True
        self.dirty = None if self.dirty is None or taken.dirty is None else self.dirty | taken.dirty
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

    def input(self, keeper: SnapshotKeeper, snapshot: Snapshot) -> tuple[bytes, bool]:
        """The input of the round being stored, and whether it is a base."""
        if self._needs_base:
            return replace(keeper.whole(), scope=snapshot.scope).pack(), True
        kept = self._changed, tuple(self._gone), self._frame, self._demand
        return Difference(snapshot.at, *kept, snapshot.scope).pack(), False

    def stored(self, number: int | None, is_base: bool, keeper: SnapshotKeeper, snapshot: Snapshot) -> None:
        """The round is in the database: the next difference starts from here. Before the keeper follows it."""
        self._changed, self._gone, self._frame, self._demand = {}, {}, None, None
        self._needs_base = False
        self._since_base += 1
        if is_base:
            self._since_base, self._owed = 0, None
        elif self._owed is None and number is not None and self._since_base > self._base_every:
            self._owed = number, replace(keeper.whole(), scope=snapshot.scope)

    @property
    def is_behind(self) -> bool:
        """Whether a base is owed for so long that a round has to wait for it."""
        return self._since_base >= 2 * self._base_every

    def settle(self) -> None:
        """Make the round that was remembered a base. To pack a large cluster takes longer than a partial cycle."""
        if self._owed is not None:
            number, whole = self._owed
            cycles.become_base(number, whole.pack())
            self._since_base, self._owed = 0, None


@dataclass
class FullCycleTimer:
    """When a full cycle is due, and until then: what the last one left behind.

    Time passes for those that wait, too: others may be asked to leave after a while, back-offs end. So the first round
    in each period (`every` seconds of the cluster's clock) is a full cycle; after it only the dirty set is tried,
    unless something became free.

    `news_first`: new arrivals get a partial cycle before the full one that is due, and only one.
    """

    every: float
    news_first: bool = False
    is_owed: bool = False  # a full cycle is due, and let new arrivals go first
    whole_at: float | None = None  # the cluster's clock; None: the next one
    starts: Starts = ()
    policy: int | None = None

    def scope(self, dirty: DirtySet | None, at: float, settings: Settings, version: int | None) -> PartialCycle | None:
        """What the round tries: the dirty set, or None in a full cycle."""
        if self.whole_at is None or dirty is None or version != self.policy or settings.policy != WEFT:
            return None
        found = dirty.scope(self.starts)
        if at // self.every == self.whole_at // self.every:
            return found
        self.is_owed = self.news_first and not self.is_owed and not found.is_empty
        return found if self.is_owed else None

    def tried_all(self, at: float, starts: Starts, version: int | None) -> None:
        """A full cycle was decided."""
        self.whole_at, self.starts, self.policy, self.is_owed = at, starts, version, False

    def unsettled(self) -> None:
        """Something leaves, was left over or was not applied: the next round is a full cycle."""
        self.whole_at = None


def run_once(wiring: Wiring) -> Report:
    """One round of the schedule loop: of each cell that this process decides for, one after the other."""
    number = wiring.kept.setdefault("cells_number", 0)
    report = _turn(wiring)
    if report.is_standby:  # a process that decides nothing is told by no round that there are other cells now
        _follow(wiring, inforce.now())
    return report if wiring.kept["cells_number"] == number else _turn(wiring)


def _turn(wiring: Wiring) -> Report:
    known: tuple[Cell, ...] = wiring.kept.get("cells", ())
    if not known:
        return rounds.run(SCHEDULE, wiring, lambda wired, lease: _schedule(wired, lease, None))
    chosen: tuple[str, ...] = configured.CELLS
    mine = [cell for cell in names(known) if not chosen or shown(cell) in chosen]
    report = deciding.of_each(wiring, mine, lambda cell: _run(wiring, CellView(cell, known)))
    deciding.divide_when_due(wiring)
    return report


def _run(wiring: Wiring, view: CellView) -> Report:
    return rounds.run(decider_of(view.cell), wiring, lambda wired, lease: _schedule(wired, lease, view))


def _follow(wiring: Wiring, now: InForce) -> bool:
    """Go by the cells in force; tell whether they are others, for which all begins from scratch."""
    kept = wiring.kept
    if kept["cells_number"] == now.cells_number:
        return False
    for key in [key for key in kept if key.partition(":")[0] in ("keeper", "journal", "timer")]:
        del kept[key]
    kept.update(cells_number=now.cells_number, cells=now.cells)
    return True


def _schedule(wiring: Wiring, lease: HeldLease, view: CellView | None) -> int:
    policy = inforce.now()
    by = () if view is None else view.cells
    if _follow(wiring, policy) or by != policy.cells:  # the latter: a cell before it in this turn has followed
        return 0
    # Taken out and put back: a round that breaks off anywhere leaves nothing half followed behind.
    of = "" if view is None else f":{view.cell}"
    keeper: SnapshotKeeper = wiring.kept.pop(f"keeper{of}", None) or SnapshotKeeper(view)
    journal: Journal = wiring.kept.pop(f"journal{of}", None) or Journal()
    timer: FullCycleTimer = wiring.kept.pop(f"timer{of}", None) or FullCycleTimer(
        wiring.full_cycle_seconds, wiring.news_first
    )
    fenced = replace(lease, cells_number=policy.cells_number)
    applied = _round(wiring, fenced, policy, keeper, journal, timer)
    keeper.check_now_and_then()
    wiring.kept.update({f"keeper{of}": keeper, f"journal{of}": journal, f"timer{of}": timer})
    return applied


def _round(
    wiring: Wiring,
    lease: HeldLease,
    policy: InForce,
    keeper: SnapshotKeeper,
    journal: Journal,
    timer: FullCycleTimer,
) -> int:
    started = time.monotonic()
    settings, version = policy.policy, policy.version
    taken = keeper.take(lease, wiring.cluster.now())
    journal.add(taken)
    scope = timer.scope(journal.dirty, taken.snapshot.at, settings.scheduling, version)
    if scope is not None and scope.is_empty:
        journal.settle()
        return 0
    if timer.is_owed:
        wake.bells[SCHEDULE].set()
    snapshot, note = replace(taken.snapshot, scope=scope), Note()
    decided, starts = decide_round(snapshot, settings.scheduling, keeper.memo, note)
    journal.dirty = DirtySet()
    if scope is None:
        timer.tried_all(snapshot.at, starts, version)
    view = roundviews.packed(note.view, every=timer.every)
    if not decided:
        roundviews.keep_alone(view, lease=lease)
        journal.settle()
        return 0
    packed, is_base = journal.input(keeper, snapshot)
    cycle = CycleInput(
        loop=SCHEDULE,
        at=snapshot.at,
        took_ms=round((time.monotonic() - started) * 1000, 3),
        policy=version,
        digest=taken.digest,
        is_base=is_base,
        input=packed,
        decisions=[record(decision) for decision in decided],
        counts=count(decided),
        cell=keeper.cell or "",
    )
    committed = decisions.commit(decided, lease=lease, cycle=cycle, is_followed=True, view=view)
    journal.stored(committed.cycle, is_base, keeper, snapshot)
    keeper.follow(committed.applied)
    if journal.is_behind:
        journal.settle()
    is_full = sum(not isinstance(decision, Wait) for decision in decided) >= settings.scheduling.max_changes
    if is_full or committed.stale or any(isinstance(decision, Evict | Shrink) for decision in decided):
        timer.unsettled()
    if is_full:
        wake.bells[SCHEDULE].set()  # there may be more: come again at once instead of after a period
    return len(committed.applied)


def record(decision: Decision) -> dict[str, Any]:
    """A decision as the Cycle row keeps it."""
    out = {"kind": type(decision).__name__, **{name: getattr(decision, name) for name in _FIELDS[type(decision)]}}
    if isinstance(decision, Place):
        out["workers"] = _recorded(decision.workers)
    if isinstance(decision, Evict):
        out["keeps"] = _recorded(decision.keeps)
    return out


def _recorded(workers: tuple[Assignment, ...]) -> list[dict[str, Any]]:
    return [
        {name: value for name in _WORKER if (value := getattr(worker, name)) or name not in _STANDBY}
        for worker in workers
    ]


def count(decided: tuple[Decision, ...]) -> dict[str, int]:
    """How many decisions of each kind."""
    counts: dict[str, int] = {}
    for decision in decided:
        kind = type(decision).__name__
        counts[kind] = counts.get(kind, 0) + 1
    return counts
