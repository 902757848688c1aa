"""`explanations`: whether the smallest changes that would start a waiting workload are true, and the smallest.

1,000 random small worlds. Of each waiting workload every stated change is applied and must start it in the next round;
no smaller change of the same kind may do so, which is tried one by one over all candidates by code that shares
nothing with the search (everychange). Where no change of a kind is stated, none should exist: that is tried in every
tenth world, as it takes the longest.

How often the expected start's interval is right is measured on the shared Philly file (eta.py).

The processor time of a search is measured at 1,250 nodes with 1,000 waiting, on workloads all over the queue.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from controlplane.benchmarks.harness.figure import Figure, Options, Progress, Result
from controlplane.benchmarks.scheduling import eta
from controlplane.benchmarks.scheduling.everychange import Step, starts, steps
from controlplane.benchmarks.scheduling.fullcluster import full_cluster
from controlplane.benchmarks.scheduling.smallworlds import world
from scheduler.explain.change import ChangeKind, PriorityOffer
from scheduler.explain.explanation import explain
from scheduler.explain.suggestions import Suggestion, suggestions
from scheduler.model.decision import Reason
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import Phase

WORLDS = 1000
SEARCHES = 50
COVERED_MIN, COVERED_MAX = 75.0, 85.0  # % of starts within intervals that say 80 %
TRUE_PERCENT, OF_A_KIND, OF_A_REASON, SEARCH_SECONDS = 99.9, 50, 20, 1.0
PRIORITIES = (("normal", 100, True), ("high", 200, True), ("urgent", 300, False), ("top", 400, True))
# Told by services, or of work that is no claimant; a round gives none of them.
NOT_OF_THE_CORE = {
    Reason.SUSPENDED, Reason.WAITING_FOR_PODS_READY, Reason.PENDING_EVALUATION,
}  # fmt: skip
MISSED_EVERY = 10  # worlds
SETTINGS = Settings()
FIRST_SEED = 1_000_000  # times the seed: runs with other seeds see other worlds


@dataclass
class _Score:
    """What was found so far."""

    kinds: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)  # stated, and not true or not the smallest
    missed: list[str] = field(default_factory=list)  # there is one, and none was stated
    found: int = 0  # stated in the worlds in which missed ones were looked for
    open: int = 0  # stated without the claim that none is smaller


def run(options: Options, progress: Progress) -> Result:
    """Look at `--jobs` worlds a seed, by default 1,000, and judge every stated change; then at expected starts."""
    eta.trace(options.data)  # a run without it says so before it has taken an hour
    worlds, score = options.jobs or WORLDS, _Score()
    for part, seed in enumerate(options.seeds):
        for number in range(worlds):
            _judge(world(seed * FIRST_SEED + number), number, score)
            if number % 20 == 0:
                done = (part + number / worlds) / len(options.seeds)
                progress(done, f"world {number}, {score.kinds.total()} changes, {len(score.wrong)} wrong")
    result = _result(score, _searches(options, progress))
    coverage = eta.measure(options.data, progress)
    return Result((*result.figures, *_of(coverage)), (*result.notes, coverage.note))


def _of(coverage: eta.Coverage) -> tuple[Figure, ...]:
    name, hour = "explanations.eta", 3600.0
    covered, width = round(coverage.covered_percent, 2), round(coverage.median_width_seconds / hour, 2)
    plain = round(coverage.plain_width_seconds / hour, 2)
    return (
        Figure(f"{name}_coverage_percent", covered, "%", COVERED_MIN, True, COVERED_MAX),
        Figure(f"{name}_median_width_hours", width, "h", plain),
    )


def _searches(options: Options, progress: Progress) -> list[float]:
    """Processor seconds of searches on the full cluster, for `--repeat` workloads all over the queue."""
    count, taken = options.repeat or SEARCHES, []
    snapshot = full_cluster(options.seeds[0])
    waiting = [uid for uid, workload in snapshot.workloads.items() if workload.phase is Phase.QUEUED]
    for uid in waiting[:: max(1, len(waiting) // count)][:count]:
        started = time.process_time()
        suggestions(snapshot, uid, SETTINGS, [PriorityOffer(*offer) for offer in PRIORITIES])
        taken.append(time.process_time() - started)
        progress(1.0, f"{len(taken)} searches on the full cluster")
    return sorted(taken)


def _judge(snapshot: Snapshot, number: int, score: _Score) -> None:
    """Judge all that is said of one world."""
    offers = [PriorityOffer(*offer) for offer in PRIORITIES]
    for uid, workload in snapshot.workloads.items():
        told = explain(snapshot, uid, SETTINGS)
        if told.reason is None:
            continue
        score.reasons[told.reason.value] += 1
        if workload.phase is Phase.RESERVED:  # it has its place
            continue
        found = {suggestion.kind: suggestion for suggestion in suggestions(snapshot, uid, SETTINGS, offers)}
        score.found += 0 if number % MISSED_EVERY else len(found)
        for suggestion in found.values():
            score.kinds[suggestion.kind.value] += 1
            score.open += not suggestion.is_smallest
            if not _is_true(suggestion, snapshot, uid):
                score.wrong.append(f"world {number}, {uid}: {suggestion.text}")
        for kind in () if number % MISSED_EVERY else set(ChangeKind) - found.keys():
            if (first := _smallest(snapshot, uid, kind)) is not None:
                score.missed.append(f"world {number}, {uid}: {kind} {first.name}")


def _smallest(snapshot: Snapshot, uid: str, kind: ChangeKind) -> Step | None:
    return next((s for s in steps(snapshot, uid, kind, PRIORITIES) if starts(s.world, uid, SETTINGS)), None)


def _is_true(suggestion: Suggestion, snapshot: Snapshot, uid: str) -> bool:
    """Whether the change starts it and none of its kind is smaller; another one of the same size does no harm."""
    first = _smallest(snapshot, uid, suggestion.kind)
    if first is None:
        return False
    change = suggestion.change
    name = {
        ChangeKind.STOP: (change.target,),
        ChangeKind.PRIORITY: (change.target,),
        ChangeKind.NOMINAL: (change.target, change.pool, change.after),
        ChangeKind.BORROWING: (change.target, change.pool, change.after),
    }.get(change.kind, (change.after,))
    if name == first.name:
        return True
    same = (s for s in steps(snapshot, uid, change.kind, PRIORITIES) if s.name == name)
    return any(s.size == first.size and starts(s.world, uid, SETTINGS) for s in same)


def _result(score: _Score, taken: Sequence[float]) -> Result:
    stated = score.kinds.total()
    figures = (
        Figure("explanations.true_percent", _percent(stated - len(score.wrong), stated), "%", TRUE_PERCENT, True),
        Figure("explanations.found_percent", _percent(score.found, score.found + len(score.missed)), "%", None, True),
        Figure("explanations.said_to_be_smallest_percent", _percent(stated - score.open, stated), "%", None, True),
        Figure("explanations.fewest_of_a_kind", min(score.kinds[k.value] for k in ChangeKind), "", OF_A_KIND, True),
        Figure(
            "explanations.fewest_of_a_reason",
            min(score.reasons[r.value] for r in Reason if r not in NOT_OF_THE_CORE),
            "",
            OF_A_REASON,
            True,
        ),
        Figure("explanations.search_p99_cpu_seconds", round(taken[int(0.99 * len(taken))], 3), "s", SEARCH_SECONDS),
    )
    notes = (
        f"a search at 1,250 nodes and 1,000 waiting: median {taken[len(taken) // 2]:.2f} s of processor time",
        "changes: " + ", ".join(f"{kind} {count}" for kind, count in score.kinds.most_common()),
        "reasons: " + ", ".join(f"{reason} {count}" for reason, count in score.reasons.most_common()),
        *(f"wrong: {text}" for text in score.wrong[:10]),
        *(f"missed: {text}" for text in score.missed[:10]),
    )
    return Result(figures, notes)


def _percent(part: int, whole: int) -> float:
    return round(100.0 * part / whole, 3) if whole else 0.0
