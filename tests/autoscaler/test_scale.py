"""What one round of scaling decides for one service."""

from dataclasses import replace

from autoscaler.metrics import Metrics
from autoscaler.scale import resized, scale
from autoscaler.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import Assignment, Gang, Kind, Phase
from tests.autoscaler.services import AT, SERVICE, decide, sample, steady


def test_a_service_within_its_objective_keeps_its_replicas() -> None:
    assert decide(steady(110.0)) is None


def test_more_load_gets_more_replicas_before_latency_suffers() -> None:
    samples = (*steady(40.0, until=AT - 15), sample(AT, 151.5, p95=0.21))  # no emergency yet
    decision = decide(samples)
    assert decision is not None
    assert decision.workers == 3
    assert decision.message == "2 to 3 replicas: 151.5 requests/s expected need 3 replicas."
    assert dict(decision.terms)["expected_requests_per_second"] == 151.5


def test_latency_near_the_objective_adds_half_as_many_at_once() -> None:
    samples = (*steady(60.0, until=AT - 15, replicas=4), sample(AT, 60.0, replicas=4, p95=0.24))
    decision = decide(samples, current=4)
    assert decision is not None
    assert decision.workers == 6
    assert decision.message == "4 to 6 replicas: p95 is 240 ms, the objective 250 ms."


def test_a_queue_longer_than_the_objective_adds_replicas_though_latency_is_not_known() -> None:
    samples = (*steady(60.0, until=AT - 15), sample(AT, 60.0, p95=None, queue=40))
    decision = decide(samples)
    assert decision is not None
    assert decision.workers == 3
    assert "40 requests wait" in decision.message


def test_an_emergency_waits_for_the_replicas_it_has_asked_for() -> None:
    slow = (sample(AT - 15, 60.0, p95=0.24), sample(AT, 60.0, p95=0.24))
    assert decide(slow, current=2) is not None
    assert decide(slow, current=3) is None  # two of the three answer as yet
    assert decide(slow, current=2, scaled_at=AT - 30) is None  # they have only just started


def test_little_load_for_five_minutes_frees_replicas() -> None:
    decision = decide(steady(30.0, replicas=4), current=4)
    assert decision is not None
    assert decision.workers < 4
    assert "at most 30.0 requests/s for 5 minutes" in decision.message


def test_a_service_that_was_slow_at_a_rate_of_next_to_nothing_keeps_its_replicas() -> None:
    samples = (sample(AT - 700, 1e-308, p95=1.0), *steady(30.0, replicas=4))
    assert decide(samples, current=4) is None


def test_the_replicas_that_leave_are_the_newest_of_those_that_stay() -> None:
    places = tuple(Assignment(rank, "a", (rank,), leaving=rank == 7) for rank in (0, 2, 3, 5, 7))
    service = replace(SERVICE, placement=places, gang=Gang(4, 1, 8), version=3)
    fewer = resized(service, 2, "less load")
    assert (fewer.workload, fewer.version, fewer.workers, fewer.leaving) == ("s", 3, 2, (3, 5))
    assert resized(service, 4, "").leaving == resized(service, 6, "").leaving == ()


def test_less_load_names_the_replicas_that_leave() -> None:
    places = tuple(Assignment(rank, "a", (rank,)) for rank in range(4))
    decision = decide(steady(30.0, replicas=4), current=4, placement=places)
    assert decision is not None
    assert decision.leaving == tuple(range(decision.workers, 4)) != ()


def test_a_short_lull_frees_nothing() -> None:
    samples = (*steady(250.0, replicas=4, until=AT - 120), *steady(30.0, 120.0, replicas=4))
    assert decide(samples, current=4) is None


def test_nothing_is_freed_within_five_minutes_of_a_change() -> None:
    assert decide(steady(30.0, replicas=4), current=4, scaled_at=AT - 299) is None
    assert decide(steady(30.0, replicas=4), current=4, scaled_at=AT - 300) is not None


def test_nothing_is_freed_when_much_of_the_window_was_not_measured() -> None:
    samples = [s for i, s in enumerate(steady(30.0, replicas=4)) if i % 2]
    assert decide(samples, current=4) is None


def test_without_metrics_a_service_keeps_its_replicas() -> None:
    assert decide(()) is None
    assert decide(steady(None, replicas=4), current=4) is None
    assert decide(steady(30.0, replicas=4, until=AT - 61), current=4) is None  # too old


def test_one_unknown_sample_keeps_the_replicas() -> None:
    samples = list(steady(30.0, replicas=4))
    samples[-3] = replace(samples[-3], requests_per_second=None)
    assert decide(samples, current=4) is None


def test_the_bounds_hold_without_metrics() -> None:
    for current, workers in ((0, 1), (9, 8)):
        decision = decide((), current=current)
        assert decision is not None
        assert decision.workers == workers


def test_one_decision_at_most_doubles_or_adds_four() -> None:
    samples = (*steady(60.0, until=AT - 15, replicas=1), sample(AT, 2000.0, replicas=1))
    decision = decide(samples, current=1, gang=Gang(1, 1, 50))
    assert decision is not None
    assert decision.workers == 5


def test_a_clear_rise_is_followed_ahead_of_time() -> None:
    rising = [sample(AT - 15.0 * (20 - i), 40.0 + 5 * i) for i in range(21)]  # 20 more each minute
    flat = steady(140.0)
    ahead, now = decide(rising), decide(flat)
    assert now is None
    assert ahead is not None
    assert ahead.workers == 3


def test_only_running_services_are_scaled() -> None:
    others = (
        replace(SERVICE, id="t", kind=Kind.TRAINING, gang=Gang(9, 1, 8)),
        replace(SERVICE, id="q", phase=Phase.QUEUED, gang=Gang(9, 1, 8)),
        replace(SERVICE, id="s", gang=Gang(9, 1, 8), version=7),
    )
    decisions = scale(Snapshot.build(AT, (), (), (), others), Metrics(), Settings())
    assert [(d.workload, d.version, d.workers) for d in decisions] == [("s", 7, 8)]
