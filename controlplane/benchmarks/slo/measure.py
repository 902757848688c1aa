"""`slo`: services held to their objectives, on ten kinds of load, by the law and by what it is compared with.

Without a suffix: all replicas that the operator allows are loaded, those that do not serve are lent, and one that is
called back serves within 2 s; `_wake10`: within 10 s, without the traces step and spike, where that cannot be enough.
Net hours count a replica from its call until its last request has ended, and for each call what the borrower loses
over all its GPUs as `reclaim` measured it (controlplane/cluster/reclaims.json), 5 s at least; the ratio is to the
oracle's hours. `_60s`: 60 s for each call. `late_percent_max`: of the worst trace and seed.
`bad_windows`: minutes of which more than 5 % were late, all traces and seeds together.

`_alone`: nothing is loaded and nothing is lent, a replica starts in 30, 90 or 300 s; a cell is one trace with one of
these. `alone_hours_ratio`: the law's hours over the cells that it attains, to those of the one HPA setting that
attains most cells, over the same cells. Everything is learned from the first request on; the first minutes count.

`over_best_hpa_`: net hours at 2 s over those of the cheapest HPA setting (on CPU or requests) that attains the cell,
chosen in hindsight cell by cell, else of the one with fewest bad windows; the worst cell. `waves`: ramp, step and
diurnal with starts of 90 and 300 s; `calm`: azure, azure8 and mooncake with all three.

`_batching`: the same at 2 s with replicas that batch (batching.py): prompts one at a time, tokens for all together. The
bad windows are those of all traces but step and spike. Printed beside them: ten services with one load (together.py).

`turns_per_hour_noise`: changes of direction in what is held without standby, under a rate that is the same on average
and has a variation of 0.3, once there was an hour to learn from; the worst start and seed.
"""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from controlplane.benchmarks.harness.figure import Figure, Options, Progress, Result
from controlplane.benchmarks.slo import batching, policies, together, traces
from controlplane.benchmarks.slo.judge import Judged, judge
from controlplane.benchmarks.slo.onset import is_attained
from controlplane.cluster import reclaims

SEEDS = (5, 6, 7, 8, 9)  # constants were chosen on 0 to 4
STARTS = (30.0, 90.0, 300.0)
WAKES = (2.0, 10.0)
LEAST_CALL_SECONDS = 5.0
CALL_SECONDS = max(LEAST_CALL_SECONDS, reclaims.measured().gpu_seconds_lost)  # of one GPU
HARD = ("step", "spike")  # a call of 10 s is too slow for them, whatever the law
SPARSE = "genaiQ34"
HOUR = 3600.0
# Traces and starts on which our net hours are held against the cheapest HPA setting of each cell, and the goals.
HINDSIGHT = (
    ("waves", ("ramp", "step", "diurnal"), STARTS[1:], 0.75),
    ("calm", ("azure", "azure8", "mooncake"), STARTS, 1.05),
)
# Hours of a clairvoyant greedy plan over pure work, for replicas that start in 30 s; docs/objectives.md tells of it.
ORACLE = {
    "azure": 1.05, "azure8": 1.03, "mooncake": 1.08, "genaiQ1": 1.05, "genaiQ34": 1.23, "genai13d": 1.35, "ramp": 1.08,
    "step": 1.13, "spike": 1.32, "diurnal": 1.07,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cell:
    """One policy on one trace and seed. start: s until a replica serves; hours: held; oracle: its hours."""

    policy: str
    trace: str
    seed: int
    start: float
    late_percent: float
    bad_windows: int
    attained: bool
    hours: float
    calls: int
    turns_per_hour: float
    oracle: float
    waited_percent: float  # of all requests: late, and only because they waited

    def net(self, call_seconds: float) -> float:
        """Net hours over the oracle's."""
        return (self.hours + self.calls * call_seconds / HOUR) / self.oracle


def run(options: Options, progress: Progress) -> Result:
    """Judge all policies on all traces."""
    seeds = SEEDS if options.seeds == (0,) else options.seeds
    tasks = [(name, seed, seed == seeds[0]) for seed in seeds for name in traces.NAMES]
    cells: list[Cell] = []
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        waits = [pool.submit(_one, name, options.data, seed, has) for name, seed, has in tasks]
        shared = [pool.submit(together.measured, name, options.data, seeds[0]) for name in together.NAMES]
        for done, one in enumerate(as_completed(waits), 1):
            cells += one.result()
            progress(done / len(waits), f"{done} of {len(waits)} traces and seeds")
        beside = [found for one in shared for found in one.result()]
    turns = max(_turns(seed, start) for seed in seeds for start in STARTS)
    figures = (*_figures(cells), Figure("slo.turns_per_hour_noise", round(turns, 2), "1/h", 2.0))
    return Result(figures, (*_notes(cells, seeds), *_compared(cells), *_beside(cells), *together.told(beside)))


def _turns(seed: int, start: float) -> float:
    """Changes of direction an hour under noise, once the law has had an hour to learn how patient to be."""
    trace = traces.noise(seed)
    held = judge(trace, policies.alone(trace, start), start=start, most=3 * trace.max_replicas).series
    steps = [after - before for (_, before), (at, after) in pairwise(held) if at > HOUR]
    return sum(one * other < 0 for one, other in pairwise(steps)) / (trace.seconds / HOUR - 1)


def _one(name: str, data: Path, seed: int, has_baselines: bool) -> list[Cell]:
    """All policies on one trace."""
    trace = traces.load(name, data, seed)
    found = [_cell("standby", trace, seed, wake, policies.standby) for wake in WAKES]
    found.append(_batching(traces.with_tokens(trace, data, seed), seed))
    found += [_cell("alone", trace, seed, start, policies.alone) for start in STARTS]
    if has_baselines:
        found += [_cell(label, trace, seed, start, m) for label, m in policies.BASELINES.items() for start in STARTS]
        found += [_cell(f"standby {label}", trace, seed, WAKES[0], m) for label, m in policies.WITH_STANDBY.items()]
        found.append(_static(trace, seed))
    return found


def _static(trace: traces.Trace, seed: int) -> Cell:
    """The fewest replicas that attain it from the beginning to the end, chosen in hindsight."""

    def judged(replicas: int) -> Cell:
        return _cell("static", trace, seed, STARTS[0], policies.static(replicas))

    few, many = 0, trace.max_replicas
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if judged(middle).attained else (middle, many)
    return judged(many)


def _cell(label: str, trace: traces.Trace, seed: int, start: float, make: policies.Make) -> Cell:
    judged = judge(trace, make(trace, start), start=start, most=trace.max_replicas)
    return _told(label, trace, seed, start, judged, trace.work_gpu_seconds / HOUR * ORACLE[trace.name])


def _batching(trace: traces.Trace, seed: int) -> Cell:
    """The law with standby, and replicas that batch. The work with full batches stands for an oracle's hours."""
    most, work = batching.max_replicas(trace), float(batching.engine_seconds(trace).sum()) / HOUR
    policy = policies.standby(trace, WAKES[0])
    judged = judge(trace, policy, start=WAKES[0], most=most, kind=batching.BatchingService)
    return _told("batching", trace, seed, WAKES[0], judged, work)


def _told(label: str, trace: traces.Trace, seed: int, start: float, judged: Judged, oracle: float) -> Cell:
    return Cell(
        policy=label, trace=trace.name, seed=seed, start=start, late_percent=judged.late_percent,
        bad_windows=len(judged.bad_windows), attained=is_attained(judged, start), hours=judged.hours,
        calls=judged.starts, turns_per_hour=judged.turns / (trace.seconds / HOUR),
        oracle=oracle, waited_percent=100.0 * judged.waited / max(1, int(judged.arrivals.sum())),
    )  # fmt: skip


def _figures(cells: Sequence[Cell]) -> Iterable[Figure]:
    quick, slow = (_of(cells, "standby", wake) for wake in WAKES)
    slow = [cell for cell in slow if cell.trace not in HARD]
    yield from _standby(quick, "", goals=(0.15, 1.20, 1.30, 1.65))
    yield Figure("slo.late_percent_max_but_spike", _worst(c for c in quick if c.trace != "spike"), "%", 0.1)
    yield Figure("slo.net_ratio_geomean_60s", _mean(c.net(60.0) for c in quick), "x", 1.32)
    yield Figure("slo.net_over_work_geomean", _mean(c.net(CALL_SECONDS) * ORACLE[c.trace] for c in quick), "x")
    yield from _standby(slow, "_wake10", goals=(0.15, 1.30, 1.45, 1.95))
    batched = _of(cells, "batching")
    yield Figure("slo.late_percent_max_batching", _worst(batched), "%", 0.3)
    yield Figure("slo.late_percent_max_but_hard_batching", _worst(c for c in batched if c.trace not in HARD), "%")
    yield Figure("slo.bad_windows_batching", sum(c.bad_windows for c in batched if c.trace not in HARD), "", 0)
    yield Figure("slo.net_over_work_geomean_batching", _mean(c.net(CALL_SECONDS) for c in batched), "x")
    attained = [cell for cell in _of(cells, "alone") if cell.attained]
    seeds = len({cell.seed for cell in cells})
    yield Figure("slo.cells_alone", round(len(attained) / seeds, 1), "", 15, higher_is_better=True)
    ratio = _ratio_to_hpa(cells)
    if ratio is not None:
        yield Figure("slo.alone_hours_ratio", ratio, "x", 0.7)
        for key, names, starts, goal in HINDSIGHT:
            yield Figure(f"slo.over_best_hpa_{key}", max(_over_hpa(cells, names, starts).values()), "x", goal)


def _standby(cells: Sequence[Cell], suffix: str, goals: tuple[float, float, float, float]) -> Iterable[Figure]:
    late, mean, most, sparse = goals
    rest = [c.net(CALL_SECONDS) for c in cells if c.trace != SPARSE]
    yield Figure(f"slo.late_percent_max{suffix}", _worst(cells), "%", late)
    yield Figure(f"slo.bad_windows{suffix}", sum(c.bad_windows for c in cells), "", 0)
    yield Figure(f"slo.net_ratio_geomean{suffix}", _mean(c.net(CALL_SECONDS) for c in cells), "x", mean)
    yield Figure(f"slo.net_ratio_max{suffix}", round(max(rest), 3), "x", most)
    only = [c.net(CALL_SECONDS) for c in cells if c.trace == SPARSE]
    yield Figure(f"slo.net_ratio_genaiQ34{suffix}", round(max(only), 3), "x", sparse)


def _best_hpa(cells: Sequence[Cell]) -> tuple[str, int] | None:
    """The HPA setting that attains most cells, and how many."""
    counts: dict[str, int] = {}
    for cell in cells:
        if cell.policy.startswith("hpa"):
            counts[cell.policy] = counts.get(cell.policy, 0) + cell.attained
    return max(counts.items(), key=lambda item: item[1]) if counts else None


def _over_hpa(
    cells: Sequence[Cell], names: Sequence[str], starts: Sequence[float]
) -> Mapping[tuple[str, float], float]:
    """Our net hours with standby over those of the cheapest HPA setting that attains the cell, chosen in hindsight; of
    the one with fewest bad windows where none does."""
    found = {}
    for name in names:
        theirs = [c for c in cells if c.trace == name and c.policy.startswith("hpa")]
        for start in starts:
            mine = [c for c in theirs if c.start == start]
            best = min(mine, key=lambda c: (not c.attained, 0 if c.attained else c.bad_windows, c.hours))
            (ours,) = [c for c in _of(cells, "standby", WAKES[0]) if (c.trace, c.seed) == (name, best.seed)]
            found[name, start] = round(ours.net(CALL_SECONDS) * ours.oracle / best.hours, 3)
    return found


def _ratio_to_hpa(cells: Sequence[Cell]) -> float | None:
    best = _best_hpa(cells)
    if best is None:
        return None
    theirs = {(c.trace, c.seed, c.start): c.hours for c in cells if c.policy == best[0]}
    ours = {(c.trace, c.seed, c.start): c.hours for c in _of(cells, "alone") if c.attained}
    both = ours.keys() & theirs.keys()
    return round(sum(ours[key] for key in both) / sum(theirs[key] for key in both), 3)


def _notes(cells: Sequence[Cell], seeds: Sequence[int]) -> Iterable[str]:
    yield f"seeds {', '.join(map(str, seeds))}; baselines on seed {seeds[0]}"
    for name in traces.NAMES:
        mine = [c for c in cells if c.trace == name]
        quick, slow = (_of(mine, "standby", wake) for wake in WAKES)
        told = [f"{_mean(c.net(s) for c in quick):.2f}" for s in (5.0, 60.0, 180.0)]
        lone = [
            f"{_mean(c.hours / c.oracle for c in some):.2f} ({sum(c.attained for c in some)} of {len(some)})"
            for some in (_of(mine, "alone", start) for start in STARTS)
        ]
        yield (
            f"{name}: 2 s: late {_worst(quick):.3f} %, net at 5, 60, 180 s a call {', '.join(told)}, "
            f"{_mean(c.calls / (c.hours or 1) for c in quick):.1f} calls a replica-hour, "
            f"{max(c.turns_per_hour for c in quick):.1f} turns an hour; 10 s: late {_worst(slow):.3f} %, "
            f"{sum(c.bad_windows for c in slow)} bad, net {_mean(c.net(5.0) for c in slow):.2f}; "
            f"alone, 30, 90, 300 s: {', '.join(lone)} attained"
        )
    for name in traces.NAMES:
        mine = [c for c in _of(cells, "batching") if c.trace == name]
        waited = round(max(c.waited_percent for c in mine), 3)
        yield (
            f"{name} with batching, 2 s: late {_worst(mine):.3f} %, {waited:.3f} % only because they waited, "
            f"{sum(c.bad_windows for c in mine)} bad, net over work {_mean(c.net(CALL_SECONDS) for c in mine):.2f}"
        )


def _compared(cells: Sequence[Cell]) -> Iterable[str]:
    """Each family of baselines: its setting that attains most cells."""
    seed = cells[0].seed if not cells else min(c.seed for c in cells)
    table: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.seed == seed and cell.policy in (*policies.BASELINES, "alone"):
            table.setdefault(cell.policy, []).append(cell)
    best: dict[str, str] = {}
    for label, mine in table.items():
        family = label.split()[0]
        if family not in best or _rank(mine) > _rank(table[best[family]]):
            best[family] = label
    for label in best.values():
        mine = table[label]
        hours: Mapping[str, str] = {
            name: f"{_mean(c.hours / c.oracle for c in mine if c.trace == name):.2f}" for name in traces.NAMES
        }
        kept = sum(c.attained for c in mine)
        told = ", ".join(f"{name} {ratio}" for name, ratio in hours.items())
        yield f"without standby, {label}: {kept} of {len(mine)} cells; hours over the oracle's: {told}"


def _beside(cells: Sequence[Cell]) -> Iterable[str]:
    """HPA with the law's standby, static replicas, and each cell against HPA in hindsight."""
    if not any(cell.policy == "static" for cell in cells):
        return
    for label in policies.WITH_STANDBY:
        mine = _of(cells, f"standby {label}")
        yield (
            f"standby of 2 s by {label}: late {_worst(mine):.3f} %, {sum(c.bad_windows for c in mine)} bad, net "
            f"{_mean(c.net(CALL_SECONDS) for c in mine):.2f}"
        )
    fixed = ", ".join(f"{c.trace} {c.hours / c.oracle:.2f}" for c in _of(cells, "static"))
    yield f"fewest static replicas that attain it, chosen in hindsight; hours over the oracle's: {fixed}"
    for key, names, starts, _ in HINDSIGHT:
        told = ", ".join(f"{n} {s:.0f} s {ratio:.2f}" for (n, s), ratio in _over_hpa(cells, names, starts).items())
        yield f"net hours at 2 s over the cheapest HPA of each cell, {key}: {told}"


def _rank(cells: Sequence[Cell]) -> tuple[int, float]:
    return sum(c.attained for c in cells), -sum(c.hours for c in cells)


def _of(cells: Iterable[Cell], policy: str, start: float | None = None) -> list[Cell]:
    return [c for c in cells if c.policy == policy and (start is None or c.start == start)]


def _worst(cells: Iterable[Cell]) -> float:
    return round(max(c.late_percent for c in cells), 4)


def _mean(values: Iterable[float]) -> float:
    """Geometric."""
    logs = [math.log(value) for value in values]
    return round(math.exp(sum(logs) / len(logs)), 3)
