"""The scheduler's snapshot, kept up to date from round to round by what changed."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from django.conf import settings
from django.db import transaction

from controlplane.domain.cycle import Difference, Frame, demand_text, digest_text, row_hash, workload_text
from controlplane.queries.cells.narrowed import held_by_others, narrowed
from controlplane.queries.scheduling.demand import asked_of_late
from controlplane.queries.scheduling.snapshot import frame, observed_at, workloads_of
from controlplane.queries.tenancy import shares
from controlplane.services.scheduling import changes
from scheduler.model.cell import CellView
from scheduler.model.decision import Decision
from scheduler.model.demand import Demand
from scheduler.model.partial_cycle import DirtySet, dirty_after
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import Workload
from scheduler.placement.forecast import next_count
from scheduler.state import recount
from scheduler.state.memo import Memo

# Of the cluster's clock, between two looks at recent usage and budgets, and at what ended work teaches. That is a
# thousand workloads' worth, so an hour changes little; as long as nothing is known it is looked for each time.
FRAME_SECONDS, LEARN_SECONDS = 600.0, 3600.0


class Fence(Protocol):
    """A held lease: `check` raises inside the transaction once it is another's."""

    @property
    def epoch(self) -> int:
        """Grows with each new holder."""

    def check(self) -> None:
        """Raise unless the lease is still ours."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A snapshot, how it differs from the one taken before, and its digest."""

    snapshot: Snapshot
    changed: Difference
    is_base: bool  # nothing was taken before: `changed` is everything
    digest: str
    dirty: DirtySet | None = None  # the claimants to try; None: all (a full cycle)


class SnapshotKeeper:
    """The snapshot of one holder of the schedule lease, kept between rounds as long as the epoch lasts.

    `take` reads again what Change rows name and deletes them, in one transaction fenced by the lease: if that fails,
    nothing is lost. A new epoch starts from scratch, since others may have consumed Change rows meanwhile; so do other
    cells. With a view, the snapshot is that of one cell.
    """

    def __init__(self, view: CellView | None = None) -> None:
        self.view = view
        self.cell = None if view is None else view.cell
        self._held = frozenset[str]()  # its nodes that work of other cells still holds
        self.memo = Memo.of_one_loop()  # what rounds on these snapshots leave for the next ones
        self._rounds = 0
        self._epoch: int | None = None
        self._snapshot = Snapshot.build(0.0, (), (), (), ())
        self._hashes: dict[str, int] = {}
        self._texts: dict[str, str] = {}
        self._frame = ""
        self._framed_at = 0.0
        self._learnt_at = 0.0
        self._sum = 0
        self._followed: dict[str, str] = {}
        self._demand = demand_text(Demand())
        self._count_at = 0  # the submission with which demand is counted again

    def take(self, lease: Fence, at: float | None = None) -> Taken:
        """The snapshot as of now. Raises what `lease.check` raises."""
        if self._epoch != lease.epoch:
            return self._base(lease, at)
        is_given_back = self._is_given_back()
        if not (
            is_given_back or changes.are_there(self.cell)
        ):  # nothing to write; whatever is decided on this is fenced when it commits
            at = self._snapshot.at if at is None else at
            self._snapshot = self._snapshot.replace(at=at)
            followed, self._followed = self._followed, {}
            return Taken(self._snapshot, Difference(at, followed), False, digest_text(self._sum), DirtySet())
        with transaction.atomic():
            lease.check()
            hints = changes.hints(self.cell)
            uids = {uid for _, uid in hints if uid is not None}
            changed = workloads_of(uids, cell=self.cell) if uids else []
            at = observed_at() if at is None else at
            is_hinted = any(uid is None for _, uid in hints) or is_given_back
            newer = self._newer_frame(at, is_hinted=is_hinted)
            if self.cell is not None:
                changes.pass_on(uids, self.cell)
            changes.forget(hints)
        return self._next(at, changed, {str(uid) for uid in uids}, newer)

    def follow(self, decisions: Iterable[Decision]) -> None:
        """Apply decisions that were just committed, so that their rows need not be read again.

        This relies on `Snapshot.after` and `services.decisions.commit` meaning the same; the tests and the audit
        compare this snapshot with one read from scratch.
        """
        made = list(decisions)
        named = {d.workload for d in made}
        self._snapshot = self._snapshot.after(made)
        texts = self._exchange([self._snapshot.workloads[uid] for uid in named if uid in self._snapshot.workloads])
        self._followed |= texts

    def check_now_and_then(self) -> None:
        """After a round, one of so many times: compare what was handed on to it with a recount.

        Raises LedgerDiffersError; as whatever breaks a round off, that has the next one begin from scratch.
        """
        self._rounds += 1
        if self._rounds % settings.LEDGER_CHECK_EVERY == 0:
            recount.check(self.memo.ledgers)

    def _newer_frame(self, at: float, *, is_hinted: bool) -> Frame | None:
        """The frame if it is time to look, or if nodes, teams or quotas are hinted at; of it what may have changed."""
        now = self._snapshot
        is_old = not self._framed_at <= at < self._framed_at + FRAME_SECONDS
        may_learn = not now.history.runs or not self._learnt_at <= at < self._learnt_at + LEARN_SECONDS
        if is_hinted or (is_old and (may_learn or self.view)):
            return self._narrowed(frame(None if is_old and may_learn else now.history))
        if is_old:
            return Frame(now.inventory.nodes, now.teams, now.quotas, shares.decayed(), shares.used_up(), now.history)
        return None

    def _is_given_back(self) -> bool:
        """Whether work of another cell has left a node of this one."""
        return bool(self._held) and self.cell is not None and held_by_others(self.cell, self._held) != self._held

    def _narrowed(self, whole: Frame) -> Frame:
        seen, self._held = narrowed(whole, self.view)
        return seen

    def _exchange(self, changed: Iterable[Workload]) -> dict[str, str]:
        """Put these workloads' texts in the place of the ones before, in the digest too."""
        texts = {w.id: workload_text(w) for w in changed}
        for uid, text in texts.items():
            new = row_hash(text)
            self._sum += new - self._hashes.get(uid, 0)
            self._hashes[uid] = new
        self._texts |= texts
        return texts

    def _base(self, lease: Fence, at: float | None) -> Taken:
        """Everything from scratch. The rows are read after the hints, so no hint that is deleted is newer than them."""
        self._epoch = None
        self._followed = {}
        with transaction.atomic():
            lease.check()
            hints = changes.hints(self.cell)
            made = self._narrowed(frame())
            workloads = workloads_of(None, cell=self.cell)
            if self.cell is not None:
                changes.pass_on({uid for _, uid in hints if uid is not None}, self.cell)
            changes.forget(hints)
            at = observed_at() if at is None else at
            self._snapshot = made.snapshot(at, workloads)
            self._count_demand()
        self._framed_at = self._learnt_at = at
        self._texts = {w.id: workload_text(w) for w in workloads}
        self._hashes = {uid: row_hash(text) for uid, text in self._texts.items()}
        self._frame = made.text
        self._sum = row_hash(self._frame) + sum(self._hashes.values())
        self._epoch = lease.epoch
        return Taken(self._snapshot, self.whole(), True, digest_text(self._sum))

    def whole(self) -> Difference:
        """The last snapshot as the difference to nothing."""
        return Difference(self._snapshot.at, dict(self._texts), (), self._frame, self._demand)

    def _count_demand(self) -> str:
        """Count again what was asked for of late; the text."""
        demand, last = asked_of_late(self._snapshot, self.cell)
        self._snapshot = replace(self._snapshot, demand=demand)
        self._count_at = next_count(last)
        self._demand = demand_text(demand)
        return self._demand

    def _next(self, at: float, changed: list[Workload], named: set[str], frame: Frame | None) -> Taken:
        gone = tuple(sorted(uid for uid in named - {w.id for w in changed} if uid in self._texts))
        for uid in gone:
            del self._texts[uid]
            self._sum -= self._hashes.pop(uid)
            self._followed.pop(uid, None)
        texts = {**self._followed, **self._exchange(changed)}
        self._followed = {}
        new = None if frame is not None else dirty_after(self._snapshot.workloads, changed, gone)
        self._snapshot = self._snapshot.replace(at=at, changed=changed, gone=gone)
        if frame is not None:
            self._sum += row_hash(frame.text) - row_hash(self._frame)
            self._frame = frame.text
            self._learnt_at = self._learnt_at if frame.history is self._snapshot.history else at
            self._framed_at = at
            self._snapshot = _framed(self._snapshot, frame)
        is_due = max((w.seq for w in changed), default=0) >= self._count_at
        asked = self._count_demand() if is_due else None
        difference = Difference(at, texts, gone, None if frame is None else frame.text, asked)
        return Taken(self._snapshot, difference, False, digest_text(self._sum), new)


def _framed(before: Snapshot, frame: Frame) -> Snapshot:
    """The snapshot with another frame. What follows from nodes, teams and quotas is kept where they are the same."""
    if (frame.nodes, frame.teams, frame.quotas) == (before.inventory.nodes, before.teams, before.quotas):
        return replace(before, use=frame.use, budgets=frame.budgets, history=frame.history)
    return frame.snapshot(before.at, before.workloads.values(), before.demand)
