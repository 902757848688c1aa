"""What the activator tells of a service: counters, gauges and histograms, and the rate of the last seconds.

Own counts rather than the client library's: it looks through every bucket under a lock, at a tenth of a request's cost.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from autoscaler.lanes import Lanes
from autoscaler.observed import BUCKETS

# Upper bounds, s: from 1 ms on each a fifth above the one before, the last one just over an hour. The law's own.
BOUNDS = tuple(float(bound) for bound in BUCKETS[:84])
RECENT_SECONDS = 5.0
FAILED = 500  # from this code on
CELLS = 50  # of a tenth of a second


class Histogram:
    """How often a time was within each bound."""

    def __init__(self) -> None:
        self.cells = [0] * (len(BOUNDS) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        """One more."""
        self.cells[bisect_left(BOUNDS, seconds)] += 1
        self.sum += seconds

    def cumulated(self) -> list[tuple[str, float]]:
        """As Prometheus wants it: for each bound, how many were not above it."""
        found, total = [], 0
        for bound, cell in zip((*map(_text, BOUNDS), "+Inf"), self.cells, strict=True):
            total += cell
            found.append((bound, float(total)))
        return found


class Recent:
    """How many came in the last seconds, in cells of a tenth."""

    def __init__(self) -> None:
        self._cells = [0] * CELLS
        self._newest = 0

    def add(self, at: float) -> None:
        """One more, at this time."""
        self._cells[self._turn(at) % CELLS] += 1

    def rate(self, at: float) -> float:
        """How many a second."""
        self._turn(at)
        return sum(self._cells) / RECENT_SECONDS

    def _turn(self, at: float) -> int:
        now = int(at * CELLS / RECENT_SECONDS)
        if now > self._newest:
            for cell in range(max(self._newest + 1, now - CELLS + 1), now + 1):
                self._cells[cell % CELLS] = 0
            self._newest = now
        return now


@dataclass(slots=True)
class Counts:
    """Of one service, since this process began."""

    arrivals: int = 0
    refused: int = 0
    late: int = 0
    codes: Counter[int] = field(default_factory=Counter)
    revisions: Counter[tuple[int, str]] = field(default_factory=Counter)  # while requests are split: see `judge`
    service: Histogram = field(default_factory=Histogram)
    request: Histogram = field(default_factory=Histogram)
    first_served: Histogram = field(default_factory=Histogram)
    first: Histogram = field(default_factory=Histogram)
    recent: Recent = field(default_factory=Recent)
    busy: float = 0.0  # s that replicas have worked, on requests that still run as well: see `worked`
    _ended: float = 0.0
    _running: int = 0
    _begun: float = 0.0  # sum of when those that run were handed over

    def judge(self, revision: int, code: int, is_whole: bool, seconds: float, within: float | None) -> None:
        """Count a request that a replica of this revision has ended as good, late or failed."""
        is_late = within is not None and seconds > within
        word = "failed" if code >= FAILED or not is_whole else "late" if is_late else "good"
        self.revisions[revision, word] += 1

    def begin(self, at: float) -> None:
        """A replica begins to work on a request."""
        self._running += 1
        self._begun += at

    def end(self, began: float, at: float) -> None:
        """It has ended, in whatever way."""
        self._running -= 1
        self._begun = self._begun - began if self._running else 0.0
        self._ended += at - began

    def worked(self, at: float) -> None:
        """Count what those that run have had until now."""
        self.busy = max(self.busy, self._ended + self._running * at - self._begun)


Counted = tuple[str, Counts, Lanes[object]]  # workload's uid, its counts, its queue
COUNTERS: tuple[tuple[str, str, Callable[[Counts], float]], ...] = (
    ("weft_gateway_arrivals", "Requests that came", lambda counts: counts.arrivals),
    ("weft_gateway_refused", "Requests that were told to come again, as too many waited or for too long",
     lambda counts: counts.refused),
    ("weft_gateway_busy_seconds", "Seconds that replicas have worked on requests, on those that still run as well",
     lambda counts: counts.busy),
    ("weft_gateway_late", "Requests that were handed over from the late lane", lambda counts: counts.late),
)  # fmt: skip
GAUGES: tuple[tuple[str, str, Callable[[Lanes[object]], int]], ...] = (
    ("weft_gateway_waiting", "Requests that wait for a replica now", lambda lanes: lanes.waiting),
    ("weft_gateway_running", "Requests that replicas serve now", lambda lanes: lanes.running),
    ("weft_gateway_widest", "Most requests that one replica serves now", lambda lanes: lanes.widest),
    ("weft_gateway_ready", "Replicas that may be given requests", lambda lanes: len(lanes.ready)),
)
HISTOGRAMS: tuple[tuple[str, str, Callable[[Counts], Histogram]], ...] = (
    ("weft_gateway_service_seconds", "From hand-over to a replica to the end of its answer",
     lambda counts: counts.service),
    ("weft_gateway_request_seconds", "From arrival to the end of the answer, with the wait",
     lambda counts: counts.request),
    ("weft_gateway_first_byte_service_seconds", "From hand-over to a replica to the first byte of the answer's body",
     lambda counts: counts.first_served),
    ("weft_gateway_first_byte_seconds", "From arrival to the first byte of the answer's body, with the wait",
     lambda counts: counts.first),
)  # fmt: skip


def families(of: Callable[[], Iterable[Counted]]) -> Iterator[Metric]:
    """Everything, one series a workload."""
    every = tuple(of())
    yield from _counters(every)
    for name, text, state in GAUGES:
        gauge = GaugeMetricFamily(name, text, labels=["workload"])
        for workload, _, lanes in every:
            gauge.add_metric([workload], state(lanes))
        yield gauge
    for name, text, part in HISTOGRAMS:
        histogram = HistogramMetricFamily(name, text, labels=["workload"])
        for workload, counts, _ in every:
            histogram.add_metric([workload], part(counts).cumulated(), part(counts).sum)
        yield histogram


def _counters(every: tuple[Counted, ...]) -> Iterator[Metric]:
    requests = CounterMetricFamily(
        "weft_gateway_requests", "Requests by what they were answered", labels=["workload", "code"]
    )
    for workload, counts, _ in every:
        for code, count in sorted(counts.codes.items()):
            requests.add_metric([workload, str(code)], count)
    yield requests
    yield _revisions(every)
    for name, text, number in COUNTERS:
        counter = CounterMetricFamily(name, text, labels=["workload"])
        for workload, counts, _ in every:
            counter.add_metric([workload], number(counts))
        yield counter


def _revisions(every: tuple[Counted, ...]) -> Metric:
    """Of services whose requests are split only."""
    family = CounterMetricFamily(
        "weft_gateway_revision_requests",
        "Requests that a revision has ended while they were split, by what became of them",
        labels=["workload", "revision", "outcome"],
    )
    for workload, counts, _ in every:
        for (revision, outcome), count in sorted(counts.revisions.items()):
            family.add_metric([workload, str(revision), outcome], count)
    return family


def _text(bound: float) -> str:
    return f"{bound:.6g}"
