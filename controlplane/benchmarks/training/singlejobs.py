"""Half of `nearchus`: one training at the same GPUs, re-allocated by production's course of one training.

Every row of Gavel's V100 table with 2, 4 and 8 GPUs starts spread, one GPU on a node, and has 20 courses under 10 %
noise that is correlated from window to window (AR(1), .5). The course sees the noisy step times of what ran, and
nothing else; it has room on every node and may place its GPUs otherwise. Gains are of true speeds, at the end over the
start.

- `max_gain_percent`: the best case's median over its courses.
- `median_gain_percent`: the median over the cases of a model, of LM, ResNet-18 and Transformer the least.
- `most_moves`: changes that a course tried, at most; `slower_percent`: courses that ended more than 2 % slower. Both
  over all sources.

Beside it: the other GPU models, the T4 tables of Pollux with the exchange that was measured, parameter servers with
assumed coefficients, CPU for the input, and the gain from the starts that the traces' own sizes have. No constant
was changed for a figure of these tables; seeds are from 10 on.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import correlation, mean, median

from controlplane.benchmarks.harness.figure import Figure, Options, Progress, Result
from controlplane.benchmarks.training import singlecases
from controlplane.benchmarks.training.singlecases import Case
from controlplane.benchmarks.training.singlecourse import MEAN_ERROR, REMAINING, Ended, affords, expected, run_case

RUNS = 20
FIRST = 10  # of the seeds
GOAL_BEST, GOAL_MEDIAN, GOAL_MOVES, GOAL_SLOWER = 129.0, 71.0, 5.0, 1.0
JUDGED = ("LM", "ResNet-18", "Transformer")
SLOWER = -0.02


@dataclass(frozen=True, slots=True)
class Judged:
    """A case and its courses. gain, best: parts, the median of the courses and what is possible."""

    case: Case
    ended: tuple[Ended, ...]

    @property
    def gain(self) -> float:
        """The median of its courses."""
        return median(one.gain for one in self.ended)

    @property
    def best(self) -> float:
        """Of everything that is known of it, the start included."""
        return max(0.0, *(self.case.gain(given) for given in self.case.known))


def figures(options: Options, progress: Progress) -> Result:
    """Run all courses. Raises BenchmarkError."""
    data, runs, seed = options.data, options.repeat or RUNS, FIRST + options.seeds[0]
    alone, own = singlecases.pollux_trace(data)
    sources: dict[str, Callable[[], Sequence[Case]]] = {
        "V100": lambda: singlecases.gavel(data, "v100"),
        "P100": lambda: singlecases.gavel(data, "p100"),
        "K80": lambda: singlecases.gavel(data, "k80"),
        "T4": lambda: singlecases.pollux(data),
        "servers": singlecases.with_servers,
        "cpu": singlecases.starved,
        "own": lambda: [case for case, _ in own],
    }
    done: dict[str, list[Judged]] = {}
    for place, (name, cases) in enumerate(sources.items()):
        progress(place / len(sources), f"one training, {name}")
        done[name] = judge(cases(), seed, runs)
    every = [one for judged in done.values() for each in judged for one in each.ended]
    v100 = done["V100"]
    least = min(median(one.gain for one in v100 if one.case.model == model) for model in JUDGED)
    slower = 100 * mean(one.gain < SLOWER for one in every)
    notes = [*_headline(v100), *_rows(v100)]
    notes += [note for name in ("P100", "K80", "T4", "servers", "cpu") for note in _summary(name, done[name])]
    notes += [_expectations("T4, exchange told", done["T4"]), _expectations("V100, steps only", v100)]
    notes += [_lending(v100, seed), gavel_starts(v100, singlecases.gavel_trace(data))]
    notes += [_pollux_starts(done["own"], [jobs for _, jobs in own], alone.total()), *_costs(every)]
    return Result(
        (
            Figure("nearchus.max_gain_percent", round(100 * max(one.gain for one in v100), 1), "%", GOAL_BEST, True),
            Figure("nearchus.median_gain_percent", round(100 * least, 1), "%", GOAL_MEDIAN, True),
            Figure("nearchus.most_moves", max(one.moves for one in every), "", GOAL_MOVES),
            Figure("nearchus.slower_percent", round(slower, 2), "%", GOAL_SLOWER),
        ),
        tuple(notes),
    )


def judge(cases: Sequence[Case], seed: int, runs: int) -> list[Judged]:
    """Each case with so many courses."""
    return [Judged(case, tuple(run_case(case, seed, place, runs))) for place, case in enumerate(cases)]


def _headline(judged: Sequence[Judged]) -> Iterator[str]:
    for name, part in (("all rows", judged), ("every second row", judged[1::2])):
        yield f"Gavel V100, {name}: " + _by_model(part)


def _summary(name: str, judged: Sequence[Judged]) -> Iterator[str]:
    told = {
        "T4": "T4 of Pollux, every batch, 2 to 4 GPUs: ",
        "servers": "parameter servers, ASSUMED coefficients (parts of a computation of 1 s for workers over servers, "
        f"each worker, each server: {singlecases.SERVERS}): ",
        "cpu": "3 to 12 cores for a GPU, Synergy's speed-ups with an ASSUMED input (inverse to the cores): ",
    }
    yield told.get(name, f"Gavel {name}: ") + _by_model(judged)


def _by_model(judged: Sequence[Judged]) -> str:
    models = sorted({one.case.model for one in judged})
    of_model = {model: [one for one in judged if one.case.model == model] for model in models}
    return "; ".join(
        f"{model} {_percent(median(one.gain for one in mine))}, best {_percent(max(one.gain for one in mine))}"
        for model, mine in of_model.items()
    )


def _rows(judged: Sequence[Judged]) -> Iterator[str]:
    for model in sorted({one.case.model for one in judged}):
        rows = (
            f"{one.case.gpus}x{one.case.batch} {100 * one.gain:.0f}/{100 * one.best:.0f}"
            for one in judged
            if one.case.model == model
        )
        yield f"{model}, GPUs x batch, gained/possible %: " + ", ".join(rows)


def _expectations(name: str, judged: Sequence[Judged]) -> str:
    """How far off the model is before anything was tried, for each placement that is known."""
    pairs = [pair for one in judged for pair in expected(one.case)]
    off = [true - gain.value for gain, true in pairs]
    inside = mean(abs(one) < 2 * math.hypot(gain.error, MEAN_ERROR) for one, (gain, _) in zip(off, pairs, strict=True))
    likeness = correlation([gain.value for gain, _ in pairs], [true for _, true in pairs])
    return (
        f"{name}, {len(pairs)} other placements, expected from the start's steps alone: correlation with the true log "
        f"gain {likeness:.2f}, off by {mean(off):+.2f} on average and {math.sqrt(mean(one * one for one in off)):.2f} "
        f"(rms), {100 * inside:.0f} % within two stated errors"
    )


def _lending(judged: Sequence[Judged], seed: int) -> str:
    """The courses of a second training of each template, to which the first of the first one's courses lends."""
    first = [one for each in judged for one in each.ended]
    second = [
        one
        for place, each in enumerate(judged)
        for one in run_case(
            each.case, seed + 1, place, len(each.ended),
            [replace(seen, is_lent=True) for seen in each.ended[0].seen],
        )
    ]  # fmt: skip
    vain, spared = (sum(one.moves for one in part if one.gain <= 0) for part in (first, second))
    return (
        f"a second training of each V100 row, to which the first lends its observations: {spared} changes tried in "
        f"vain instead of {vain}; gain {_percent(median(one.gain for one in second))} "
        f"instead of {_percent(median(one.gain for one in first))}"
    )


def gavel_starts(judged: Sequence[Judged], jobs: dict[tuple[str, int, int], list[float]]) -> str:
    """All jobs of the trace as they are, where one with one GPU or too little work is not changed."""
    by_key = {(one.case.model, one.case.batch, one.case.gpus): one for one in judged}
    gains, several, long_enough = [], [], 0
    for key, steps in jobs.items():
        known = by_key.get(key)
        for count in steps:
            is_long = known is not None and affords(
                known.case, count * known.case.times(known.case.start).step / known.case.gpus
            )
            gain = known.gain if known is not None and is_long else 0.0
            gains.append(gain)
            long_enough += is_long
            if key[2] > 1:
                several.append(gain)
    return (
        f"Gavel's trace, its own sizes, spread: {len(several)} of {len(gains)} jobs have several GPUs, {long_enough} "
        "of these run long enough for a try and are in the table (to 8 GPUs); "
        f"gain of all jobs {_percent(mean(gains))} (median {_percent(median(gains))}), "
        f"of those with several {_percent(mean(several))} (median {_percent(median(several))})"
    )


def _pollux_starts(judged: Sequence[Judged], jobs: Sequence[int], alone: int) -> str:
    """Jobs with one GPU gain nothing and are told apart."""
    models = sorted({one.case.model for one in judged})
    parts = []
    for model in models:
        mine = [(one, count) for one, count in zip(judged, jobs, strict=True) if one.case.model == model]
        got = [one.gain for one, count in mine for _ in range(count)]
        best = [one.best for one, count in mine for _ in range(count)]
        parts.append(f"{model} {_percent(median(got))} of {_percent(median(best))}")
    return (
        f"T4, the workloads' own sizes and batches, spread over 16 nodes: {alone} of {alone + sum(jobs)} jobs have one "
        "GPU and gain nothing; of the others the median gained of the possible: " + "; ".join(parts)
    )


def _costs(every: Sequence[Ended]) -> Iterator[str]:
    moves = sorted(one.moves for one in every)
    yield (
        f"{len(every)} courses: moves {mean(moves):.2f}, p99 {moves[int(0.99 * len(moves))]}; slowest end "
        f"{_percent(min(one.gain for one in every))}; windows until nothing is left to try "
        f"{median(one.windows for one in every):.0f}"
    )
    yield (
        f"work done in {REMAINING / 3600:.0f} h, restarts and tries included, against no change: median "
        f"{_percent(median(one.net for one in every))}, least {_percent(min(one.net for one in every))}"
    )


def _percent(part: float) -> str:
    return f"{100 * part:+.1f} %"
