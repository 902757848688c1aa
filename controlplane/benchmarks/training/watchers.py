"""What production's diagnosis makes of trainings that `planted` and `paces` draw, window by window."""

from autoscaler.bottleneck.detect import Diagnosis, observe
from autoscaler.bottleneck.hypothesis import hypotheses
from autoscaler.bottleneck.straggler import Pace, follow
from autoscaler.bottleneck.window import Bottleneck, Levels, Window, Worker, smoothed
from autoscaler.experiment import verdict
from autoscaler.experiment.verdict import Verdict
from controlplane.benchmarks.training.paces import BEFORE, Stretch
from controlplane.benchmarks.training.planted import Planted, Sample, Watched

NAMES = {  # of what `planted` plants
    "cpu": Bottleneck.INPUT_CPU,
    "storage": Bottleneck.STORAGE,
    "network": Bottleneck.NETWORK,
    "ps": Bottleneck.PARAMETER_SERVER,
    "small": Bottleneck.TOO_SMALL,
    "straggler": Bottleneck.STRAGGLER,
}


def by_reporter(training: Planted, watched: Watched, windows: int) -> Bottleneck | None:
    """The first class but GPU compute that is named; None if none is."""
    diagnosis = Diagnosis()
    for at in range(windows):
        sample = watched.sample(training, at)
        diagnosis = observe(diagnosis, _window(sample, training.row.nodes) if sample else None)
        if diagnosis.slowed_by is not None:
            return diagnosis.slowed_by
    return None


def by_prometheus(training: Planted, watched: Watched, windows: int) -> Bottleneck | None:
    """The first hypothesis that a probe confirms; None if none is."""
    levels, speeds, tried = Levels(), list[float](), set[Bottleneck]()
    probed: Bottleneck | None = None
    relieved, after = training, list[float]()
    for at in range(windows):
        sample = watched.sample(relieved, at)
        if sample is None:
            continue
        (after if probed else speeds).append(1 / float(sample.sm.mean()))
        if probed is None:
            levels = smoothed(levels, _levels(sample))
            if len(speeds) < verdict.DEFAULT.before:
                continue
            probed = next(iter(hypotheses(levels, training.row.nodes, tried)), None)
            if probed is not None:
                relieved, after = training.relieved() if NAMES.get(training.kind) is probed else training, []
            continue
        judged = verdict.judge(speeds[-verdict.DEFAULT.before :], after)
        if judged.verdict is Verdict.KEEP:
            return probed
        if judged.verdict is Verdict.ROLL_BACK:
            tried.add(probed)
            probed, relieved = None, training
    return None


def slow_workers(stretch: Stretch) -> tuple[bool, bool]:
    """Whether some worker was named before the slow-down, and whether the right one was within the steps after it."""
    pace, named = Pace(), list[int | None]()
    for times in stretch.times:
        pace = follow(pace, tuple(times.tolist()))
        named.append(pace.slowest if pace.is_slow else None)
    return any(one is not None for one in named[:BEFORE]), stretch.slow in named[BEFORE:]


def _window(sample: Sample, nodes: int) -> Window:
    workers = tuple(
        Worker(float(step), float(wait), float(sync))
        for step, wait, sync in zip(sample.step, sample.wait, sample.sync, strict=True)
    )
    return Window(workers, _levels(sample), nodes)


def _levels(sample: Sample) -> Levels:
    return Levels(sample.cpu, sample.throttled, sample.disk, sample.nic, sample.server, tuple(sample.sm.tolist()))
