"""What is learnt of one replica from rates and latencies."""

import pytest

from autoscaler.queueing import Replica, learn, slow_rate
from tests.autoscaler.services import sample

TRUTH = Replica(seconds=0.05, at_once=4)


def test_nothing_is_learnt_from_nothing() -> None:
    assert learn((), 0.25) is None
    assert learn((sample(0.0, None), sample(15.0, 10.0, p95=None), sample(30.0, 10.0, queue=5)), 0.25) is None


def test_a_replica_is_never_believed_to_do_more_than_it_can() -> None:
    for rates in ((10.0,), (10.0, 60.0), (20.0, 100.0, 140.0)):
        found = learn((sample(15.0 * i, rate) for i, rate in enumerate(rates)), 0.25)
        assert found is not None
        assert found.seconds == pytest.approx(TRUTH.seconds)
        assert found.most(2, 0.2) <= 1.05 * TRUTH.most(2, 0.2)


def test_more_load_seen_teaches_more() -> None:
    little, much = learn([sample(0.0, 20.0)], 0.25), learn([sample(0.0, 20.0), sample(15.0, 140.0)], 0.25)
    assert little is not None
    assert much is not None
    assert little.most(1, 0.2) < much.most(1, 0.2)
    assert much.most(1, 0.2) == pytest.approx(TRUTH.most(1, 0.2), rel=0.3)


def test_what_was_seen_to_work_is_believed() -> None:
    found = learn([sample(0.0, 120.0), sample(15.0, 900.0)], 0.25)  # overrun by the second
    assert found is not None
    assert found.needed(120.0, 0.2, most=10) <= 2


def test_beyond_capacity_latency_has_no_bound() -> None:
    assert TRUTH.p95_seconds(80.0, 1) == float("inf")
    assert TRUTH.p95_seconds(1.0, 0) == float("inf")
    assert TRUTH.most(0, 0.2) == TRUTH.most(1, 0.01) == 0.0
    assert TRUTH.needed(1e6, 0.2, most=7) == 7


def test_the_least_rate_that_was_slow_is_remembered() -> None:
    samples = (sample(0.0, 100.0), sample(15.0, 180.0, queue=300), sample(30.0, 170.0, queue=350))
    recovering = (sample(45.0, 60.0, p95=0.6, queue=100),)
    assert slow_rate((*samples, *recovering), 0.2) == 85.0
    assert slow_rate(samples[:1], 0.2) is None
