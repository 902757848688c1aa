"""The request-level simulator against queues whose answer is known exactly."""

from collections.abc import Callable

import numpy as np
import pytest

from controlplane.cluster.serving.outcomes import percentile
from controlplane.cluster.serving.traffic import Sizes, group
from tests.service_requests import exact
from tests.service_requests.streams import constant, latencies, p95_and_error, running

Beyond = Callable[[float, float, int], Callable[[float], float]]
SECONDS, SERVERS = 0.05, 32
# So many that half of the 95 % confidence interval (batch means) is 1.5 % at most: at 95 % load millions, as neighbours
# wait in the same queue.
REQUESTS = {("exponential", 0.95): 12e6, ("fixed", 0.95): 12e6}


@pytest.mark.parametrize("load", [0.5, 0.8, 0.95])
@pytest.mark.parametrize(("kind", "beyond"), [("exponential", exact.mmc_beyond), ("fixed", exact.mdc_beyond)])
def test_time_in_the_system_is_the_exact_queues_within_two_percent(kind: str, beyond: Beyond, load: float) -> None:
    rate = load * SERVERS / SECONDS
    right = exact.percentile(beyond(rate, SECONDS, SERVERS), 0.95, 100 * SECONDS)
    found, _ = latencies(running(constant(rate, Sizes(kind)), SERVERS, SECONDS), REQUESTS.get((kind, load), 6e5))
    p95, error = p95_and_error(found)
    print(f"{kind} {load:.0%}: p95 {p95 * 1000:.3f} ms, exact {right * 1000:.3f} ms, +- {error / right:.2%}")
    assert p95 == pytest.approx(right, rel=0.02)
    assert error < 0.015 * right


@pytest.mark.parametrize("kind", ["fixed", "exponential", "lognormal"])
@pytest.mark.parametrize("load", [0.8, 0.95])
def test_groups_have_the_p95_of_single_requests_within_five_percent(kind: str, load: float) -> None:
    rate, seconds = 8000.0, 0.02
    together = group(rate, seconds)
    assert together == 4
    servers = round(rate * seconds / load)
    single, _ = latencies(running(constant(rate, Sizes(kind)), servers, seconds), 1e6, warm=30.0)
    grouped, counts = latencies(running(constant(rate, Sizes(kind), together), servers, seconds), 1e6, warm=30.0)
    assert int(counts.sum()) == pytest.approx(len(single), rel=0.01)
    right = percentile(single, np.ones(len(single), dtype=np.int64), 0.95)
    assert percentile(grouped, counts, 0.95) == pytest.approx(right, rel=0.05)
