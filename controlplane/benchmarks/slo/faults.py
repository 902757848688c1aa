"""`slo-faults`: what a service has while its measurements fail (F23), on the ten loads of `slo`.

Of longer loads the first six hours. In each hour the scrapes fail for ten minutes, in one way at a time; the
gateway's own signal goes on, but for the last:

- `gone`: nothing is told. `stale`: the last scrape is told again and again. `slow`: each scrape comes 30 s late.
- `no numbers`: what is told is not a number. `lies`: it is negative, or larger than there is. `twice`: each scrape is
  told two times. `reset`: what counts began anew in between, so that a part of what came is told, and marked so.
- `all gone`: nothing is told, and the gateway tells nothing either.

A fall is unsafe when the service has fewer replicas after it than in the run without faults on the same requests at the
same moment. What is wanted in a fault may not jump to the most that is allowed either. Both for replicas on standby
(2 s) and for those that have to start (30 s); what decides is what the loop runs for each service
(autoscaler/scale.py). Beside it: the requests that were late, with and without.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from autoscaler import observed, scale
from autoscaler.law import State
from autoscaler.metrics import Objective, ServiceMetrics
from autoscaler.observed import NONE, Scrape
from autoscaler.settings import Settings
from controlplane.benchmarks.harness import cores
from controlplane.benchmarks.harness.figure import Figure, Options, Progress, Result
from controlplane.benchmarks.slo import traces
from controlplane.benchmarks.slo.judge import Policy, Seen, Signal, judge
from controlplane.benchmarks.slo.traces import Trace

SEED = 5  # constants were chosen on 0 to 4
MODES = {"standby of 2 s": 2.0, "starts of 30 s": 30.0}  # s until a replica serves
STANDBY = "standby of 2 s"
ALL_GONE = "all gone"
EVERY, SINCE, SECONDS = 3600.0, 1200.0, 600.0  # a fault in each hour, from its twentieth minute on
LONGEST = 6 * 3600.0  # s of a load: six faults; judging whole days takes an hour of both cores
LATE = 2  # looks by which a slow scrape is late
HUGE = 1e15
TOLD = 0.4  # the part of what came that is told where what counts began anew
Fault = Callable[
    [Sequence[Scrape]], tuple[Scrape, ...]
]  # what is told at a look, of all scrapes since the last before it


def _no_numbers(seen: Sequence[Scrape]) -> tuple[Scrape, ...]:
    nan = math.nan
    return (replace(seen[-1], arrived=nan, answered_seconds=nan, counts=(nan,) * len(NONE)),)


def _lies(seen: Sequence[Scrape]) -> tuple[Scrape, ...]:
    return (replace(seen[-1], arrived=-1.0 if len(seen) % 2 else HUGE),)


def _reset(seen: Sequence[Scrape]) -> tuple[Scrape, ...]:
    now = seen[-1]
    came, seconds = TOLD * now.arrived, TOLD * now.answered_seconds
    counts = tuple(TOLD * count for count in now.counts)
    return (replace(now, arrived=came, answered_seconds=seconds, counts=counts, is_partial=True),)


FAULTS: dict[str, Fault] = {
    "gone": lambda _: (),
    "stale": lambda seen: (seen[0],),
    "slow": lambda seen: (seen[-1 - LATE],) if len(seen) > LATE else (),
    "no numbers": _no_numbers,
    "lies": _lies,
    "twice": lambda seen: (seen[-1], seen[-1]),
    "reset": _reset,
    ALL_GONE: lambda _: (),
}


@dataclass(frozen=True, slots=True)
class Found:
    """One trace under one fault. falls: that were unsafe; jumps: to the most that is allowed; looks: within faults."""

    mode: str
    trace: str
    fault: str
    falls: int
    jumps: int
    looks: int
    late: float  # % of the requests
    usual: float  # the same without faults


def run(options: Options, progress: Progress) -> Result:
    """Judge all faults on all traces. Raises BenchmarkError where one is missing."""
    found: list[Found] = []
    loads = [clipped(traces.load(name, options.data, SEED)) for name in traces.NAMES]
    largest_first = sorted(loads, key=lambda trace: -len(trace.at))  # so that no core waits for another at the end
    jobs = [(trace, mode) for trace in largest_first for mode in MODES]
    for done, (_, some) in enumerate(cores.each(_of, jobs, cores.usable()), 1):
        found += some
        progress(done / len(jobs), f"{done} of {len(jobs)} parts")
    return Result(
        (
            Figure("slo-faults.unsafe_falls", sum(one.falls for one in found), "", 0),
            Figure("slo-faults.jumps_to_most", sum(one.jumps for one in found), "", 0),
        ),
        tuple(_told(found)),
    )


def in_fault(at: float) -> bool:
    """Whether measurements fail at this moment of a trace."""
    return SINCE <= at % EVERY < SINCE + SECONDS


class Scaled:
    """One service of the judge under the product's decision. fault: of its scrapes; None: all of them arrive.

    has_signal: whether its gateway tells what waits in a fault.
    """

    def __init__(self, trace: Trace, mode: str, fault: Fault | None, has_signal: bool = True) -> None:
        self.trace, self.mode, self.fault, self.has_signal = trace, mode, fault, has_signal
        self.state: State | None = None
        self._settings, self._objective = Settings(), Objective(trace.objective)
        self.looks: dict[float, tuple[int, int]] = {}  # at each look: the replicas before, and those wanted
        self._seen: list[Scrape] = []

    @property
    def policy(self) -> Policy:
        """What the judge asks."""
        return Policy(self._look, self._signal)

    def _look(self, now: Seen) -> int:
        is_failing = in_fault(now.at) and self.fault is not None
        self._seen = [*self._seen, now.scrape] if is_failing else [now.scrape]  # the first one is of before the fault
        wanted = now.on
        for scrape in self.fault(self._seen) if self.fault and is_failing else (now.scrape,):
            wanted = self._decided(now.at, now.on, now.ready, scrape=scrape)
        self.looks[now.at] = now.on, wanted
        return wanted

    def _signal(self, now: Signal) -> int | None:
        if not self.has_signal and in_fault(now.at):
            return None
        told = observed.Signal(now.waiting, now.rate)
        wanted = self._decided(now.at, now.on, now.ready, signal=told)
        return wanted if wanted > now.on else None

    def _decided(
        self, at: float, on: int, ready: int, *, scrape: Scrape | None = None, signal: observed.Signal | None = None
    ) -> int:
        service = ServiceMetrics("service", self._objective, scrape, self.state, ready, MODES[self.mode], signal)
        self.state, wanted = scale.judged(on, at, service, self._settings, has_standby=self.mode == STANDBY)
        return min(wanted.replicas, self.trace.max_replicas)


def clipped(trace: Trace) -> Trace:
    """Its first LONGEST seconds, if there are more."""
    if trace.seconds <= LONGEST:
        return trace
    count = int(trace.at.searchsorted(LONGEST))
    at, service, prefill = (one[:count] for one in (trace.at, trace.service, trace.prefill))
    return replace(trace, at=at, service=service, prefill=prefill, seconds=LONGEST)


def played(scaled: Scaled) -> tuple[Scaled, float]:
    """The service after its whole trace, and the requests that were late, %."""
    most = scaled.trace.max_replicas
    return scaled, judge(scaled.trace, scaled.policy, start=MODES[scaled.mode], most=most).late_percent


def compared(label: str, scaled: Scaled, usual: tuple[Scaled, float]) -> Found:
    """A run with a fault beside the one without."""
    most, (reference, usually) = scaled.trace.max_replicas, usual
    scaled, late = played(scaled)
    looks = [(before, after, reference.looks[at][1]) for at, (before, after) in scaled.looks.items() if in_fault(at)]
    falls = sum(after < before and after < ours for before, after, ours in looks)
    jumps = sum(before < most <= after and ours < most for before, after, ours in looks)
    return Found(scaled.mode, scaled.trace.name, label, falls, jumps, len(looks), late, usually)


def _of(job: tuple[Trace, str]) -> list[Found]:
    """One trace in one mode: without faults, and with each."""
    trace, mode = job
    usual = played(Scaled(trace, mode, None))
    return [compared(label, Scaled(trace, mode, fault, label != ALL_GONE), usual) for label, fault in FAULTS.items()]


def _told(found: Sequence[Found]) -> Iterable[str]:
    by: dict[tuple[str, str], list[Found]] = defaultdict(list)
    for one in sorted(found, key=lambda one: (one.mode, list(FAULTS).index(one.fault), one.trace)):
        by[one.mode, one.fault].append(one)
    for (mode, fault), some in by.items():
        worst = max(some, key=lambda one: one.late - one.usual)
        yield (
            f"{mode}, {fault}: {sum(one.falls for one in some)} unsafe falls in {sum(one.looks for one in some)} looks "
            f"at {len(some)} traces; late at most {max(one.late for one in some):.3f} % ({worst.trace} "
            f"{worst.late:.3f} %, without {worst.usual:.3f} %)"
        )
