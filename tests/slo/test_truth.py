"""The law sees what a product sees: its objective, and what metrics give; nothing of the trace that judges it."""

from typing import Any, cast

import numpy as np
import pytest

from autoscaler.law import Terms
from autoscaler.observed import Scrape
from controlplane.benchmarks.slo import policies
from controlplane.benchmarks.slo.judge import Policy, judge
from controlplane.benchmarks.slo.traces import Trace

START = 30.0


class Known:
    """Of a trace, what a service's job file says; anything else is the truth, and reading it fails."""

    def __init__(self, trace: Trace) -> None:
        self.objective = trace.objective

    def __getattr__(self, name: str) -> Any:
        raise LookupError(f"{name} of the trace is the truth")


def bursts() -> Trace:
    """Half an hour of a load that doubles and falls, on replicas of four slots."""
    rates = np.repeat([2.0, 6.0, 12.0, 4.0, 20.0, 1.0], 300)
    counts = np.random.default_rng(3).poisson(rates)
    at = np.concatenate([second + np.linspace(0.0, 1.0, n, endpoint=False) for second, n in enumerate(counts)])
    service = np.random.default_rng(4).gamma(4.0, 0.25, len(at))
    return Trace("made", at, service, 4, 4.0, float(len(rates)))


def of_known(make: policies.Make, trace: Trace) -> Policy:
    return make(cast("Trace", Known(trace)), START)


@pytest.mark.parametrize("make", [policies.standby, policies.alone])
def test_the_law_decides_alike_with_and_without_the_trace(make: policies.Make) -> None:
    trace = bursts()
    told, blind = (
        judge(trace, policy, start=START, most=trace.max_replicas)
        for policy in (make(trace, START), of_known(make, trace))
    )
    assert len(told.series) > 5  # it has something to decide
    assert (told.series, told.hours, told.late.tolist()) == (blind.series, blind.hours, blind.late.tolist())


@pytest.mark.parametrize("cheats", [policies.hpa_requests(0.7, 60.0), policies.hpa_cpu(0.7, 60.0)])
def test_a_policy_that_is_given_the_truth_is_found_out(cheats: policies.Make) -> None:
    trace = bursts()
    with pytest.raises(LookupError, match="of the trace is the truth"):
        judge(trace, of_known(cheats, trace), start=START, most=trace.max_replicas)


def test_a_scrape_and_the_terms_have_room_for_nothing_else() -> None:
    """What Prometheus gives, and a job file: no service time of a request, no load to come."""
    given = {"at", "seconds", "arrived", "answered_seconds", "counts", "waiting", "running", "widest", "first"}
    given |= {"is_partial"}
    assert set(Scrape.__dataclass_fields__) == given
    assert set(Terms.__dataclass_fields__) == {"objective", "start", "constants", "availability", "of"}
