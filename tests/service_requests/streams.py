"""Services for the tests of the request-level simulator: a constant rate, and what became of each request."""

import json
from typing import Any

import numpy as np

from autoscaler.latency import Within
from controlplane.cluster.serving.run import Replica, Run, Setup, State
from controlplane.cluster.serving.traffic import Drawn, Floats, Ints, Rate, Sizes, Traffic

FOR_EVER = Setup(patience=None)


def constant(per_second: float, sizes: Sizes | None = None, group: int = 1, key: str = "k") -> Drawn:
    """Poisson arrivals at a rate that does not change."""
    rate = Rate(key, per_second, amplitude=0.0, burst_part=0.0, noise=0.0)
    return Drawn(rate, sizes or Sizes(), group=group)


def running(traffic: Traffic, slots: int, seconds: float = 0.05, setup: Setup = FOR_EVER) -> Run:
    """One replica from time 0 on."""
    run = Run(traffic, setup, State.begin(0.0))
    run.change(0.0, [Replica("a", slots, seconds)])
    return run


def latencies(run: Run, requests: float, warm: float = 600.0) -> tuple[Floats, Ints]:
    """(latency, requests) of so many requests at least, after a time to warm up."""
    run.to(warm)
    found, counts, total = [], [], 0
    while total < requests:
        run.to(run.state.at + 120.0)
        outcomes = run.outcomes
        found.append(outcomes.latency)
        counts.append(outcomes.count)
        total += int(outcomes.count.sum())
    return np.concatenate(found), np.concatenate(counts)


def p95_and_error(found: Floats, parts: int = 20) -> tuple[float, float]:
    """The 95th percentile, and half of its 95 % confidence interval by batch means."""
    each = [float(np.quantile(part, 0.95)) for part in np.array_split(found, parts)]
    return float(np.quantile(found, 0.95)), 2.09 * float(np.std(each, ddof=1)) / parts**0.5


RATE = Rate("key", 60.0, amplitude=0.3, period=600.0, burst=2.0, burst_part=0.3)
BUSY = Drawn(RATE, Sizes("lognormal"))
CHANGES = (
    (0.0, (("a", 0.05),), ()),
    (100.0, (("a", 0.05), ("b", 0.08)), ()),
    (200.0, (("b", 0.08),), ("a",)),
    (260.0, (), ("b",)),
    (300.0, (("c", 0.05),), ()),
)


def played(cuts: list[float], setup: Setup, is_kept: bool = False) -> Run:
    """The service up to 400 s, moved on in these steps; is_kept: through its state's JSON at each."""
    run = Run(BUSY, setup, State.begin(0.0))
    stops = sorted({*cuts, *(at for at, _, _ in CHANGES), 400.0})
    changes = {at: (replicas, lost) for at, replicas, lost in CHANGES}
    for stop in stops:
        run.to(stop)
        if is_kept:
            run = Run(BUSY, setup, State.of(json.loads(json.dumps(run.state.plain()))))
        if stop in changes:
            replicas, lost = changes[stop]
            run.change(stop, [Replica(name, 2, seconds) for name, seconds in replicas], lost)
    return run


SETUPS = [Setup(objective=Within(0.2), patience=3.0), Setup(batch=4, growth=0.2, patience=3.0, holds=True)]


def told() -> list[Any]:
    """What another process must find as well: requests, and what became of them."""
    block = BUSY.block(7)
    return [block.at.tolist(), block.size.tolist(), played([], SETUPS[0]).state.plain()]
