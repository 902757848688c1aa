"""What a trace looks like over time under several policies: load, replicas wanted and ready, and what was late."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from controlplane.benchmarks.slo import policies
from controlplane.benchmarks.slo.cells import in_hindsight
from controlplane.benchmarks.slo.judge import MINUTE, SCRAPE_SECONDS, Judged, judge
from controlplane.benchmarks.slo.traces import Floats, Trace

WAKE, START = 2.0, 30.0  # s until a replica serves that stands by, and one that has to start
POINTS = 600  # of a curve at most: a longer trace has several minutes in a point
LAWS: Mapping[str, tuple[policies.Make, float]] = {
    "law, standby": (policies.standby, WAKE),
    "law, alone": (policies.alone, START),
}
# One setting of each family, the same for all traces.
OTHERS = ("hpa-cpu 0.5 300s", "hpa-rps 0.7 300s", "knative 0.7 60s", "keda 1 300s", "llm-d 0.3 60s")
SHOWN: Mapping[str, tuple[policies.Make, float]] = {
    **LAWS,
    **{one: (policies.BASELINES[one], START) for one in OTHERS},
    "static, in hindsight": (in_hindsight, START),  # the fewest that attain it
}


@dataclass(frozen=True, slots=True)
class Curve:
    """One policy on a trace; a value for each point. wanted: the most; ready: the fewest; late: percent of arrivals."""

    policy: str
    start: float
    judged: Judged
    wanted: Floats
    ready: Floats
    late: Floats


@dataclass(frozen=True, slots=True)
class Cell:
    """A trace under all policies that are shown. minutes: of one point; load: requests a second, at each point."""

    trace: str
    objective: float
    slots: int
    seconds: float
    requests: int
    minutes: int
    load: Floats
    curves: tuple[Curve, ...]


def cell(trace: Trace, shown: Mapping[str, tuple[policies.Make, float]] = SHOWN) -> Cell:
    """Judge a trace under each policy."""
    minutes = max(1, -(-int(np.ceil(trace.seconds / MINUTE)) // POINTS))
    points = -(-int(np.ceil(trace.seconds / MINUTE)) // minutes)
    curves: list[Curve] = []
    for name, (make, start) in shown.items():
        judged = judge(trace, make(trace, start), start=start, most=trace.max_replicas)
        came, late = (_summed(one, minutes, points) for one in (judged.arrivals, judged.late))
        each = int(minutes * MINUTE / SCRAPE_SECONDS)
        ready = [min(judged.ready[at * each : (at + 1) * each], default=judged.ready[-1]) for at in range(points)]
        curves.append(
            Curve(
                name,
                start,
                judged,
                _wanted(judged, minutes * MINUTE, points),
                np.array(ready, float),
                100.0 * late / np.maximum(1.0, came),
            )  # fmt: skip
        )
    load = _summed(curves[0].judged.arrivals, minutes, points) / (minutes * MINUTE)
    return Cell(
        trace.name, trace.objective, trace.slots, trace.seconds, len(trace.at), minutes, load, tuple(curves)
    )  # fmt: skip


def _summed(by_minute: Sequence[int] | np.ndarray[tuple[int], np.dtype[np.int64]], minutes: int, points: int) -> Floats:
    """Sums over so many minutes each."""
    padded = np.zeros(points * minutes)
    padded[: len(by_minute)] = by_minute[: len(padded)]
    out: Floats = padded.reshape(points, minutes).sum(axis=1)
    return out


def _wanted(judged: Judged, seconds: float, points: int) -> Floats:
    """The most replicas that were wanted in each span of so many seconds."""
    out = np.zeros(points)
    ends = [at for at, _ in judged.series[1:]] + [points * seconds]
    for (begins, number), end in zip(judged.series, ends, strict=True):
        first, last = int(begins // seconds), int(np.ceil(end / seconds))
        out[first : max(last, first + 1)] = np.maximum(out[first : max(last, first + 1)], number)
    return out
