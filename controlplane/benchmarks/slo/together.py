"""Ten services with one load, which share GPUs: those that no service uses are lent, and any of them may call one back.

Each service is a copy of one trace. With one load all copies come within a quarter of a minute of each other, so all
call at once; apart, each begins somewhere else in the trace. Both have the same requests, so what differs is what one
load costs. A call that finds no GPU is made again at the next look; of several the service with fewest replicas has it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from controlplane.benchmarks.slo import policies, traces
from controlplane.benchmarks.slo.judge import SCRAPE_SECONDS, Judged, Run, Service

COPIES = 10
NAMES = ("azure", "mooncake", "ramp", "step", "spike")  # the short ones
PARTS = (1.0, 0.8, 0.6, 0.5)  # GPUs, of the most that all ten may have
WAKE = 2.0
SPREAD = 15.0  # s within which copies with one load begin


@dataclass(frozen=True, slots=True)
class Shared:
    """Ten services with so large a part of the GPUs. late_percent: of all requests; bad_windows: of all together."""

    trace: str
    is_one_load: bool
    part: float
    late_percent: float
    bad_windows: int
    hours: float


def measured(name: str, data: Path, seed: int, parts: Sequence[float] = PARTS) -> list[Shared]:
    """One trace, ten times over, with each number of GPUs, with one load and apart."""
    trace = traces.load(name, data, seed)
    found: list[Shared] = []
    for is_one_load in (True, False):
        copied = copies(trace, np.random.default_rng([seed, COPIES]), is_one_load=is_one_load)
        for part in parts:
            gpus = max(COPIES, round(part * COPIES * trace.max_replicas))
            told = judge_together(copied, policies.standby, start=WAKE, most=trace.max_replicas, gpus=gpus)
            late, came = sum(int(one.late.sum()) for one in told), sum(int(one.arrivals.sum()) for one in told)
            bad, hours = sum(len(one.bad_windows) for one in told), sum(one.hours for one in told)
            found.append(Shared(name, is_one_load, part, 100.0 * late / came, bad, hours))
    return found


def told(found: Sequence[Shared]) -> Iterator[str]:
    """A line for each trace."""
    for name in dict.fromkeys(one.trace for one in found):
        for is_one_load, text in ((True, "with one load"), (False, "apart")):
            some = [one for one in found if one.trace == name and one.is_one_load is is_one_load]
            parts = "; ".join(
                f"{one.part:.0%} of the GPUs: late {one.late_percent:.3f} %, {one.bad_windows} bad" for one in some
            )
            yield f"ten copies of {name} {text}: {parts}"


def copies(trace: traces.Trace, rng: np.random.Generator, *, is_one_load: bool) -> list[traces.Trace]:
    """The trace ten times over."""
    out: list[traces.Trace] = []
    for begins in rng.uniform(0.0, SPREAD if is_one_load else trace.seconds, COPIES):
        if is_one_load:
            out.append(replace(trace, at=trace.at + begins, seconds=trace.seconds + SPREAD))
            continue
        at = (trace.at + begins) % trace.seconds
        order = np.argsort(at, kind="stable")
        out.append(replace(trace, at=at[order], service=trace.service[order], seconds=trace.seconds + SPREAD))
    return out


def judge_together(
    copied: Sequence[traces.Trace], make: policies.Make, *, start: float, most: int, gpus: int
) -> list[Judged]:
    """Run all services at once; together they hold no more than `gpus`, which is at least one for each."""
    runs = [Run(Service(trace, start), make(trace, start), most) for trace in copied]
    end, now = max(trace.seconds for trace in copied), 0.0
    while now < end:
        for _ in range(SCRAPE_SECONDS):
            now += 1.0
            for run in runs:
                run.service.serve(now)
            is_look = now % SCRAPE_SECONDS == 0
            asked = [run.look(now) if is_look else run.alarm(now) for run in runs]
            grant(runs, {at: wanted for at, wanted in enumerate(asked) if wanted is not None}, now, gpus)
    return [run.judged(now) for run in runs]


def grant(runs: Sequence[Run], wants: Mapping[int, int], now: float, gpus: int) -> None:
    """Give each service what it wants, as far as there are GPUs: one at a time to the service with fewest replicas."""
    for at, wanted in wants.items():
        if wanted < len(runs[at].service.on):
            runs[at].decide(wanted, now)
    room = gpus - sum(len(run.service.on) + len(run.service.draining) for run in runs)
    has = {at: len(runs[at].service.on) for at in wants}
    limits = {at: min(wanted, runs[at].most) for at, wanted in wants.items()}
    returning = {at: len(runs[at].service.draining) for at in wants}
    while rising := [at for at in wants if has[at] < limits[at] and (room > 0 or returning[at] > 0)]:
        at = min(rising, key=lambda one: (has[one], one))
        if returning[at] > 0:
            returning[at] -= 1  # it holds its GPU still
        else:
            room -= 1
        has[at] += 1
    for at, number in has.items():
        runs[at].decide(number, now)
