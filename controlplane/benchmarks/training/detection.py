"""`detection`: is the planted bottleneck of a training found, by its reporter and by Prometheus alone?

300 trainings of each of six classes and 900 healthy ones, which are bound by their GPUs, drawn by `planted`: measured
step times, what is planted and what only looks like it, 10 % noise. A training is right if the first class named within
40 windows of 15 s is its own; a healthy one is watched for an hour, and is alarmed if any class is named.

- `precision`, `recall`: macro over the six classes; an alarm of a healthy training counts against the class named, at
  the weight of a class as large as the others. `recall_least` is that of the worst class.
- `false_alarm_percent`: healthy trainings alarmed in their hour.
- `straggler_recall`: slow-downs of one worker, log-uniform in 1.3 to 3, under the real noise of PAI jobs 1 and 4,
  found within 25 steps, which is that the right worker is named; pooled. What is named before is noted.
- `precision_prometheus`: by levels alone, each hypothesis probed. A probe of the right class takes the planted part
  away under the same noise, any other changes nothing; the speed is read off the SM activity.
- `harm_percent`: of 10,000 changes on trial each at 3, 5 and 10 % noise that make a training 2 % slower, those that are
  kept; the worst noise.

The constants were fixed on seeds 0 to 4 of every second measured row; the rows not used then are noted apart. What
draws imports nothing of what detects.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from autoscaler.bottleneck.window import Bottleneck
from autoscaler.experiment.verdict import DEFAULT, Terms, Verdict, judge
from controlplane.benchmarks.harness.figure import Figure, Options, Progress, Result
from controlplane.benchmarks.training import paces, planted, watchers
from controlplane.benchmarks.training.planted import CLASSES, HEALTHY, Planted, Row, Watched, correlated
from controlplane.benchmarks.training.watchers import NAMES

EACH, HEALTHY_EACH = 300, 900
WINDOWS, HOUR = 40, 240
NOISE = 0.10
FIRST = 10  # seeds 0 to 4 were used to fix the constants
SLOW = 200  # slow-downs of each PAI job
Watcher = Callable[[Planted, Watched, int], Bottleneck | None]


@dataclass(frozen=True, slots=True)
class Score:
    """What a watcher reaches on a set of trainings; 0..1."""

    precision: float
    recall: float
    least: float  # the recall of the worst class
    alarmed: float  # of the healthy
    worst: str


def run(options: Options, progress: Progress) -> Result:
    """Draw, watch and count. Raises BenchmarkError."""
    seed, each = FIRST + options.seeds[0], options.repeat or EACH
    rows = planted.rows(options.data)
    progress(0.0, "with reporters")
    told = score(watchers.by_reporter, rows, seed, each)
    progress(0.3, "by Prometheus alone")
    levels = score(watchers.by_prometheus, rows, seed, each)
    progress(0.6, "the rows that were not used")
    rest = score(watchers.by_reporter, planted.rows(options.data, 1), seed, each)
    progress(0.8, "slow workers")
    slow = {job: _stragglers(paces.noise(options.data, job), seed, SLOW) for job in paces.JOBS}
    progress(0.9, "changes on trial")
    harm = {noise: kept_percent(-0.02, noise, seed, 10_000) for noise in (0.03, 0.05, 0.10)}
    figures = (
        Figure("detection.precision", round(told.precision, 3), "", 0.95, higher_is_better=True),
        Figure("detection.recall", round(told.recall, 3), "", 0.92, higher_is_better=True),
        Figure("detection.recall_least", round(told.least, 3), "", 0.7, higher_is_better=True),
        Figure("detection.false_alarm_percent", round(100 * told.alarmed, 2), "%", 3.0),
        Figure(
            "detection.straggler_recall",
            round(float(np.mean([found for found, _ in slow.values()])), 3),
            "",
            0.95,
            True,
        ),
        Figure("detection.precision_prometheus", round(levels.precision, 3), "", 0.9, higher_is_better=True),
        Figure("detection.harm_percent", round(max(harm.values()), 2), "%", 2.0),
    )
    return Result(figures, tuple(_notes(told, levels, rest, slow, harm)))


def score(watcher: Watcher, rows: Sequence[Row], seed: int, each: int) -> Score:
    """Watch so many trainings of each class, and three times as many healthy ones."""
    rng = np.random.default_rng(seed)
    named: dict[str, Counter[Bottleneck | None]] = {}
    for kind in (*CLASSES, HEALTHY):
        is_healthy = kind == HEALTHY
        counts: Counter[Bottleneck | None] = Counter()
        for _ in range(each * HEALTHY_EACH // EACH if is_healthy else each):
            training = planted.plant(kind, rows, rng, NOISE)
            windows = HOUR if is_healthy else WINDOWS
            counts[watcher(training, Watched(training, rng, windows), windows)] += 1
        named[kind] = counts
    return _scored(named, each)


def _scored(named: dict[str, Counter[Bottleneck | None]], each: int) -> Score:
    recalls = {kind: named[kind][NAMES[kind]] / each for kind in CLASSES}
    healthy = named[HEALTHY]
    precisions = []
    for kind in CLASSES:
        right = named[kind][NAMES[kind]]
        others = sum(named[other][NAMES[kind]] for other in CLASSES if other != kind)
        alarms = healthy[NAMES[kind]] * each / healthy.total()
        precisions.append(right / (right + others + alarms) if right else 0.0)
    worst = min(recalls, key=lambda kind: recalls[kind])
    alarmed = 1 - healthy[None] / healthy.total()
    return Score(float(np.mean(precisions)), float(np.mean(list(recalls.values()))), recalls[worst], alarmed, worst)


def _stragglers(table: paces.Floats, seed: int, count: int) -> tuple[float, float]:
    """Of slow-downs, the part that is found, and the part before which a worker was named: the job has slow ones."""
    rng = np.random.default_rng(seed)
    seen = [watchers.slow_workers(one) for one in paces.stretches(table, rng, count, 1.3, 3.0)]
    return sum(found for _, found in seen) / count, sum(before for before, _ in seen) / count


def _notes(
    told: Score, levels: Score, rest: Score, slow: dict[int, tuple[float, float]], harm: dict[float, float]
) -> Iterator[str]:
    for name, one in (("reporter", told), ("reporter, rows not used", rest), ("Prometheus and probes", levels)):
        yield (
            f"{name}: precision {one.precision:.3f}, recall {one.recall:.3f} ({one.worst} {one.least:.3f}), "
            f"healthy alarmed {100 * one.alarmed:.1f} %"
        )
    yield "slow workers: " + ", ".join(
        f"PAI job {job} {100 * found:.1f} % found, in {100 * before:.0f} % one was named before"
        for job, (found, before) in slow.items()
    )
    for truth in (0.0, 0.1):
        yield f"changes kept that are {100 * truth:+.0f} % faster: " + ", ".join(
            f"{kept_percent(truth, noise, FIRST, 1000):.1f} % at {100 * noise:.0f} % noise" for noise in harm
        )
    yield "changes kept that are 2 % slower: " + ", ".join(
        f"{part:.2f} % at {100 * noise:.0f} % noise" for noise, part in harm.items()
    )


def kept_percent(truth: float, noise: float, seed: int, count: int, terms: Terms = DEFAULT) -> float:
    """Of so many changes that make a training faster by this part (below 0: slower), the percent that are kept."""
    rng = np.random.default_rng([seed, round(1e4 * noise)])
    times = correlated(rng, terms.before + terms.most, count, noise)
    times[terms.before :] /= 1 + truth
    return 100 * sum(_is_kept(column.tolist(), terms) for column in times.T) / count


def _is_kept(times: list[float], terms: Terms) -> bool:
    before, after = times[: terms.before], times[terms.before :]
    for seen in range(terms.fewest, terms.most + 1):
        verdict = judge(before, after[:seen], terms).verdict
        if verdict is not Verdict.UNDECIDED:
            return verdict is Verdict.KEEP
    return False
