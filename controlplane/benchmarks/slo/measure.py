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

`cells_alone_headroom`: with the headroom that attains most cells within that HPA setting's hours over all cells.

`over_best_hpa_`: net hours at 2 s over those of the cheapest HPA setting (on CPU or requests) that attains the cell,
chosen in hindsight cell by cell, else of the one with fewest bad windows; the worst cell and seed. `waves`: ramp, step
and diurnal with starts of 90 and 300 s; `calm`: azure, azure8 and mooncake with all three.

`_batching`: the same at 2 s with replicas that batch (batching.py): prompts one at a time, tokens for all together. The
bad windows are those of all traces but step and spike. Printed beside them: ten services with one load (together.py).

`turns_per_hour_noise`: changes of direction in what is held without standby, under a rate that is the same on average
and has a variation of 0.3, once there was an hour to learn from; the worst start and seed.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from itertools import pairwise

from controlplane.benchmarks.harness.figure import Figure, Options, Progress, Result
from controlplane.benchmarks.slo import cells as judging
from controlplane.benchmarks.slo import policies, together, traces
from controlplane.benchmarks.slo.cells import HOUR, STARTS, WAKES, Cell, mean, of, worst
from controlplane.benchmarks.slo.compare import FAMILIES, HINDSIGHT, all_cells, alone_to_hpa, over_hpa, with_headroom
from controlplane.benchmarks.slo.judge import Judged, judge
from controlplane.benchmarks.slo.notes import notes
from controlplane.benchmarks.slo.traces import HARD, SPARSE

SEEDS = (5, 6, 7, 8, 9)  # constants were chosen on 0 to 4
LONG = ("genai13d", "diurnal")  # begun first, so that no core waits for another at the end


def run(options: Options, progress: Progress) -> Result:
    """Judge all policies on all traces."""
    seeds = SEEDS if options.seeds == (0,) else tuple(sorted(options.seeds))
    names = sorted(traces.NAMES, key=lambda name: name not in LONG)
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        shared = [pool.submit(together.measured, name, options.data, seeds[0]) for name in together.NAMES]
        waits: list[Future[list[Cell]]] = []
        for seed in seeds:
            waits += [pool.submit(judging.law, name, options.data, seed) for name in names]
            waits += [pool.submit(judging.baselines, n, options.data, seed, start) for n in names for start in STARTS]
            waits += [
                pool.submit(part, n, options.data, seed) for n in names for part in (judging.beside, judging.headroom)
            ]
        found = list(_all(waits, progress))
        labels = tuple(all_cells(found, (family,))[0].label for family in FAMILIES)
        found += _all([pool.submit(judging.roomier, n, options.data, seeds[0], labels) for n in names], progress)
        noisy = list(pool.map(_noise, *zip(*[(seed, start) for seed in seeds for start in STARTS], strict=True)))
        calls = list(pool.map(_noise, seeds, [WAKES[0]] * len(seeds)))
        beside = [one for some in shared for one in some.result()]
    turns = max(_turns(one) for one in noisy)
    figures = (*_figures(found), Figure("slo.turns_per_hour_noise", round(turns, 2), "1/h", 2.0))
    return Result(figures, (*notes(found, seeds, tuple(_of_noise(noisy, calls))), *together.told(beside)))


def _all(waits: Sequence[Future[list[Cell]]], progress: Progress) -> Iterator[Cell]:
    try:
        for done, one in enumerate(as_completed(waits), 1):
            yield from one.result()
            progress(done / len(waits), f"{done} of {len(waits)} parts")
    finally:
        for one in waits:  # nothing more is begun where a trace is missing
            one.cancel()


def _noise(seed: int, start: float) -> Judged:
    """The law under a load of noise: with standby where a replica serves within a call, else alone."""
    trace = traces.noise(seed)
    make = policies.standby if start in WAKES else policies.alone
    return judge(trace, make(trace, start), start=start, most=3 * trace.max_replicas)


def _turns(found: Judged) -> float:
    """Changes of direction an hour under noise, once the law has had an hour to learn how patient to be."""
    steps = [after - before for (_, before), (at, after) in pairwise(found.series) if at > HOUR]
    return sum(one * other < 0 for one, other in pairwise(steps)) / (_hours(found) - 1)


def _of_noise(alone: Sequence[Judged], called: Sequence[Judged]) -> Iterator[str]:
    told = ", ".join(f"{max(one.starts / _hours(one) for one in alone[at::3]):.1f}" for at in range(len(STARTS)))
    yield f"noise, alone, starts of 30, 90, 300 s: at most {told} starts an hour"
    turns = ", ".join(f"{max(one.turns / _hours(one) for one in alone[at::3]):.2f}" for at in range(len(STARTS)))
    yield f"noise, alone, the first hour counted as well: at most {turns} changes of direction an hour"
    wakes, lends = (max(getattr(one, what) / _hours(one) for one in called) for what in ("starts", "lends"))
    yield f"noise, standby of 2 s: {wakes:.1f} wakes and {lends:.1f} lends an hour; what is held stays the same"


def _hours(found: Judged) -> float:
    return len(found.arrivals) / 60


def _figures(cells: Sequence[Cell]) -> Iterable[Figure]:
    quick, slow = (of(cells, "standby", wake) for wake in WAKES)
    slow = [cell for cell in slow if cell.trace not in HARD]
    yield from _standby(quick, "", goals=(0.15, 1.20, 1.30, 1.65))
    yield Figure("slo.late_percent_max_but_spike", worst(c for c in quick if c.trace != "spike"), "%", 0.1)
    yield Figure("slo.net_ratio_geomean_60s", mean(c.net(60.0) for c in quick), "x", 1.32)
    yield Figure("slo.net_over_work_geomean", mean(c.net() * judging.ORACLE[c.trace][0] for c in quick), "x")
    yield from _standby(slow, "_wake10", goals=(0.15, 1.30, 1.45, 1.95))
    batched = of(cells, "batching")
    yield Figure("slo.late_percent_max_batching", worst(batched), "%", 0.3)
    yield Figure("slo.late_percent_max_but_hard_batching", worst(c for c in batched if c.trace not in HARD), "%")
    yield Figure("slo.bad_windows_batching", sum(c.bad_windows for c in batched if c.trace not in HARD), "", 0)
    yield Figure("slo.net_over_work_geomean_batching", mean(c.net() for c in batched), "x")
    lone = of(cells, "alone")
    seeds = len({cell.seed for cell in lone})
    kept = round(sum(cell.attained for cell in lone) / seeds, 1)
    yield Figure("slo.cells_alone", kept, "", 15, higher_is_better=True)
    if (ratio := alone_to_hpa(cells)) is not None:
        yield Figure("slo.alone_hours_ratio", ratio, "x", 0.7)
        for key, names, starts, goal in HINDSIGHT:
            yield Figure(f"slo.over_best_hpa_{key}", max(over_hpa(cells, names, starts).values()), "x", goal)
    if both := with_headroom(cells):
        ours, theirs = both
        kept, goal = (round(one.attained / seeds, 1) for one in (ours, theirs))
        yield Figure("slo.cells_alone_headroom", kept, "", goal, higher_is_better=True)


def _standby(cells: Sequence[Cell], suffix: str, goals: tuple[float, float, float, float]) -> Iterable[Figure]:
    late, geometric, most, sparse = goals
    rest = [c.net() for c in cells if c.trace != SPARSE]
    yield Figure(f"slo.late_percent_max{suffix}", worst(cells), "%", late)
    yield Figure(f"slo.bad_windows{suffix}", sum(c.bad_windows for c in cells), "", 0)
    yield Figure(f"slo.net_ratio_geomean{suffix}", mean(c.net() for c in cells), "x", geometric)
    yield Figure(f"slo.net_ratio_max{suffix}", round(max(rest), 3), "x", most)
    only = [c.net() for c in cells if c.trace == SPARSE]
    yield Figure(f"slo.net_ratio_genaiQ34{suffix}", round(max(only), 3), "x", sparse)
