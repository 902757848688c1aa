"""The smallest changes that would start a waiting workload now, each found by search and tested in a dry run.

It starts *now* if the very next round decides its `Place`: on free room, or as soon as that work has left which the
round makes leave for it, which leaves already, or which the change stops. A change is applied alone, to a copy; nothing
else happens meanwhile. docs/explanations.md#suggestions lists the changes.

Candidates of a kind (scheduler.explain.candidates) that are few for their cost are tested one by one, the smallest
change first. Of many, the search tests what probes well on the plan of the unchanged round, then the smaller changes,
the nearest first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduler.explain import candidates
from scheduler.explain.change import MONOTONE, OF_THE_ASK, Change, ChangeKind, Choice, PriorityOffer, asking, changed
from scheduler.explain.change_text import text_of
from scheduler.explain.dry_run import DryRuns, may_wait
from scheduler.explain.places import GATES
from scheduler.explain.reasons import PERMANENT
from scheduler.model.decision import Reason
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.state.memo import Memo

STEPS = 5_000  # of `DryRuns.steps`, for all kinds together: well under a second, beside the round itself
SCAN = 24  # candidates up to this number is probed rung by rung, a longer one by halving
STOPS = 60  # stops that are probed


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One change that starts the workload in the next round.

    tested: a round with the change did place it. is_smallest: no smaller change of its kind does: all were tested, or,
    of a smaller ask, at least the next smaller one; False where the steps ran out before.
    """

    kind: ChangeKind
    text: str
    change: Change
    tested: bool = True
    is_smallest: bool = True


def untold(settings: Settings, reason: Reason | None) -> str:
    """Why there is no suggestion against a refusal, in one sentence; empty where nothing was refused."""
    if reason is None:
        return ""
    if reason in GATES:
        return "Neither capacity nor quota holds it back; a change of its request, quota or other work would not help."
    if settings.policy == "weft":
        return (
            "No single change was found that starts it now: of its request, priority or quota, or a stop of other work."
        )
    return (
        f"Suggestions need the policy weft, and {settings.policy} is in use; preview the job with another request, "
        "in the form or with weft submit --dry-run=server."
    )


def confirmed(
    snapshot: Snapshot,
    uid: str,
    choice: Choice,
    settings: Settings,
    offers: Sequence[PriorityOffer] = (),
    memo: Memo | None = None,
) -> Change | None:
    """The change that was named, if it is a candidate and a dry run with it starts the workload; else None.

    It need not be the smallest. Raises KeyError if the workload is not in the snapshot.
    """
    if settings.policy != "weft":
        return None
    dry_runs = DryRuns(snapshot, uid, settings, memo)
    if dry_runs.refusal is None or dry_runs.refusal.reason in GATES:
        return None
    for changes in _candidates(dry_runs, dry_runs.refusal.reason, offers):
        for rung, change in enumerate(changes):
            if choice.is_of(change):
                return change if _Search(dry_runs, changes, STEPS, STEPS).starts(rung) else None
    return None


def suggestions(
    snapshot: Snapshot,
    uid: str,
    settings: Settings,
    offers: Sequence[PriorityOffer] = (),
    max_steps: int = STEPS,
    memo: Memo | None = None,
) -> tuple[Suggestion, ...]:
    """The smallest change of each kind that starts the workload now; none if it starts anyway or does not wait.

    offers are the priorities that it may be given. Raises KeyError if the workload is not in the snapshot.
    """
    if settings.policy != "weft":  # dry runs are of our own policy
        return ()
    dry_runs = DryRuns(snapshot, uid, settings, memo)
    if dry_runs.refusal is None or dry_runs.refusal.reason in GATES:
        return ()
    found: list[Suggestion] = []
    left = _candidates(dry_runs, dry_runs.refusal.reason, offers)
    while left:
        changes = left.pop(0)
        end = dry_runs.steps + max(0, max_steps - dry_runs.steps) // (len(left) + 1)
        best = _Search(dry_runs, changes, end, max_steps).run()
        if best is not None:
            smallest, is_smallest = best
            text = text_of(snapshot, dry_runs.asked, smallest)
            found.append(Suggestion(smallest.kind, text, smallest, True, is_smallest))
    return tuple(found)


def _candidates(dry_runs: DryRuns, reason: Reason, offers: Sequence[PriorityOffer]) -> list[list[Change]]:
    """The candidates of all kinds that can help against the reason."""
    snapshot, asked, plan = dry_runs.snapshot, dry_runs.asked, dry_runs.plan
    out: dict[ChangeKind, list[Change]] = {}
    if may_wait(asked):
        out |= candidates.of_ask(snapshot.inventory, asked)
        out[ChangeKind.PRIORITY] = candidates.of_priority(asked, offers)
    if reason not in PERMANENT or reason is Reason.EXCEEDS_MAX_QUOTA:
        pools = list(dict.fromkeys(f.pool for f in dry_runs.session.flavors.of(asked) if f is not None))
        for kind in (ChangeKind.NOMINAL, ChangeKind.BORROWING):
            out[kind] = candidates.of_quota(plan, asked, kind, pools)
    if reason not in PERMANENT:
        out[ChangeKind.STOP] = candidates.of_stops(snapshot, asked, dry_runs.settings)
    return [out[kind] for kind in ChangeKind if out.get(kind)]


class _Search:
    """The search of one kind until the dry runs have taken `end` steps; the likeliest rung is tried until `last`."""

    def __init__(self, dry_runs: DryRuns, changes: list[Change], end: int, last: int) -> None:
        self.dry_runs = dry_runs
        self.candidates = changes
        self.kind = changes[0].kind
        self.end = end
        self.last = last
        self.is_of_ask = self.kind in OF_THE_ASK or self.kind is ChangeKind.PRIORITY
        self._known: dict[int, bool] = {}

    def run(self) -> tuple[Change, bool] | None:
        """The smallest change found that was tested, and whether no smaller one does; None if none was found."""
        rungs = range(len(self.candidates))
        is_short = self.dry_runs.steps + len(rungs) * self.dry_runs.dear <= self.end
        best = next((rung for rung in (rungs if is_short else self._likely()) if self.starts(rung)), None)
        if best is None:
            return None
        found = best
        for rung in range(best - 1, -1, -1):
            if self.dry_runs.steps >= self.end and rung not in self._known:
                return self.candidates[found], self.kind in MONOTONE and rung < found - 1
            if self.starts(rung):
                found = rung
        return self.candidates[found], True

    def starts(self, rung: int) -> bool:
        """Whether a round with the change places the workload."""
        if rung not in self._known:
            dry_runs, change = self.dry_runs, self.candidates[rung]
            if self.is_of_ask:
                self._known[rung] = dry_runs.starts_with(asking(dry_runs.asked, change))
            else:
                starts = dry_runs.starts_in if self.kind is ChangeKind.STOP else dry_runs.starts_under
                self._known[rung] = starts(changed(dry_runs.snapshot, dry_runs.asked.id, change))
        return self._known[rung]

    def _likely(self) -> Iterator[int]:
        """Rungs worth a dry run, in the order in which to try them; none once the steps are used up."""
        if self.kind in OF_THE_ASK:
            rungs: Iterator[int] = iter((self._first_probed(),))
        elif self.kind is ChangeKind.PRIORITY:
            rungs = iter(range(len(self.candidates)))
        elif self.kind is ChangeKind.STOP:
            rungs = (rung for rung in self._stops() if self.dry_runs.probe_stop(self.candidates[rung].target))
        else:
            rungs = iter(self._quotas())
        for tries, rung in enumerate(rungs):
            if self.dry_runs.steps >= (self.end if tries else self.last):
                return
            yield rung

    def _first_probed(self) -> int:
        """The smallest change of the ask that probes well; the largest if none does."""
        last = len(self.candidates) - 1
        if self.kind not in MONOTONE or last < SCAN:
            return next((rung for rung in range(last) if self._probe(rung)), last)
        low, high = 0, last
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._probe(middle) else (middle + 1, high)
        return low

    def _probe(self, rung: int) -> bool:
        return self.dry_runs.probe(asking(self.dry_runs.asked, self.candidates[rung]))

    def _stops(self) -> list[int]:
        """Those whose stop gives the workload more room or more quota, what loses least first."""
        plan, asked = self.dry_runs.plan, self.dry_runs.asked
        gain = candidates.gains(self.dry_runs.session, asked)
        return [rung for rung, change in enumerate(self.candidates) if gain(plan.workload(change.target))][:STOPS]

    def _quotas(self) -> list[int]:
        """For each row, the first rung that covers what its numbers lack."""
        plan, asked = self.dry_runs.plan, self.dry_runs.asked
        out: dict[int, None] = {}
        for lack in sorted(candidates.lacks(plan, asked, self.kind)):
            rungs = (i for i, c in enumerate(self.candidates) if (c.target, c.pool) == lack[1:] and _more(c) >= lack[0])
            if (first := next(rungs, None)) is not None:
                out[first] = None
        return sorted(out)


def _more(change: Change) -> int:
    return int(change.after) - int(change.before)
