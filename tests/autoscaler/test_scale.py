"""What the autoscaler decides for a service, case by case."""

from dataclasses import replace

import pytest

from autoscaler.metrics import Metrics
from autoscaler.observed import Signal
from autoscaler.scale import resized, scale
from autoscaler.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import Assignment, Gang, Kind, Phase
from tests.autoscaler.services import AT, SERVICE, decided, followed, look, looks, told


def test_more_load_than_the_replicas_can_do_brings_more_and_says_why() -> None:
    state, counts = followed(looks(80.0, 20, AT - 15), current=3)
    assert counts[-1] == 3
    decision = decided(told(look(AT, 400.0), state, 3))
    assert decision is not None
    assert decision.workers > 3
    terms = dict(decision.terms)
    assert terms["slots_per_replica"] == 4
    assert terms["request_seconds"] == pytest.approx(0.05, rel=0.05)
    assert decision.message == (
        f"3 to {decision.workers} replicas: {terms['expected_requests_per_second']:.1f} requests/s of 0.05 s expected: "
        f"{decision.workers} replicas of 4 at once."
    )


def test_a_queue_brings_replicas_at_once_and_is_named() -> None:
    state, _ = followed(looks(80.0, 20, AT - 15), current=3)
    decision = decided(told(look(AT, 80.0, waiting=9000), state, 3))
    assert decision is not None
    assert decision.workers > 3
    assert "9000 requests wait" in decision.message


def test_little_load_frees_replicas_after_three_starts() -> None:
    busy, calm = [*looks(250.0, 40, AT)], [look(AT + 15.0 * n, 10.0) for n in range(1, 40)]
    _, counts = followed([*busy, *calm], current=4)
    before, after = counts[39], counts[40:]
    fell = next(number for number, count in enumerate(after, 1) if count < before)
    assert 15 * fell >= 3 * Settings().start_seconds
    assert after[-1] < before


def test_the_replicas_that_leave_are_the_newest_of_those_that_stay() -> None:
    places = tuple(Assignment(rank, "a", (rank,), leaving=rank == 7) for rank in (0, 2, 3, 5, 7))
    service = replace(SERVICE, placement=places, gang=Gang(4, 1, 8), version=3)
    fewer = resized(service, 2, "less load")
    assert (fewer.workload, fewer.version, fewer.workers, fewer.leaving) == ("s", 3, 2, (3, 5))
    assert resized(service, 4, "").leaving == resized(service, 6, "").leaving == ()


def test_less_load_names_the_replicas_that_leave() -> None:
    state, _ = followed(looks(80.0, 60, AT - 15), current=6, gang=Gang(6, 6, 8))
    places = tuple(Assignment(rank, "a", (rank,)) for rank in range(6))
    decision = decided(told(look(AT, 80.0), state, 6, placement=places))
    assert decision is not None
    assert decision.leaving == tuple(range(decision.workers, 6)) != ()
    assert "no more than" in decision.message


def test_without_a_fresh_scrape_a_service_keeps_its_replicas() -> None:
    state, _ = followed(looks(10.0, 60, AT), current=4, gang=Gang(4, 4, 8))
    assert not told(None, state, 4).decisions
    assert not told(look(AT, 10.0), state, 4, at=AT + 61).decisions
    assert not told(look(AT + 15, 10.0), state, 4, at=AT).decisions  # of the future


def test_a_scrape_that_comes_late_may_ask_for_more_and_makes_no_service_smaller() -> None:
    state, _ = followed(looks(80.0, 60, AT - 15), current=6, gang=Gang(6, 6, 8))
    assert decided(told(look(AT, 80.0), state, 6, at=AT + 29)) is not None
    assert decided(told(look(AT, 80.0), state, 6, at=AT + 30)) is None
    more = decided(told(look(AT, 900.0), state, 6, at=AT + 30))
    assert more is not None
    assert more.workers > 6


def test_a_queue_at_the_gateway_brings_replicas_before_the_first_scrape() -> None:
    found = told(None, None, 2, signal=Signal(5, 3.0))
    decision = decided(found)
    assert decision is not None
    assert decision.workers > 2
    assert found.states["s"].wanted[-1] == (AT, decision.workers)
    assert not told(None, None, 2, signal=Signal(0, 3.0)).states  # nothing waits: nothing to remember


def test_a_service_of_which_no_request_was_answered_keeps_its_replicas() -> None:
    silent = replace(look(AT, 40.0), counts=(0.0,) * 90, answered_seconds=0.0, running=None, widest=None, waiting=None)
    assert not told(silent, None, 4).decisions


def test_what_waits_at_a_gateway_never_makes_a_service_smaller_and_says_nothing_untrue() -> None:
    state, _ = followed(looks(80.0, 60, AT), current=4, gang=Gang(4, 4, 8))
    for signal in (Signal(0, 0.0), Signal(1, 1.0), Signal(-5, 9.0), Signal(10**15, 1.0), Signal(5, float("nan"))):
        assert not told(None, state, 4, signal=signal).decisions
    more = decided(told(None, state, 4, signal=Signal(500, 200.0)))
    assert more is not None
    assert more.workers > 4
    assert more.message.startswith(f"4 to {more.workers} replicas: 500 requests wait, 200.0 requests/s come")


def test_the_bounds_hold_without_metrics() -> None:
    for current, workers in ((0, 1), (9, 8)):
        decision = decided(told(None, None, current))
        assert decision is not None
        assert decision.workers == workers
        assert decision.message == f"{current} to {workers} replicas: the bounds changed."


def test_only_running_services_are_scaled() -> None:
    others = (
        replace(SERVICE, id="t", kind=Kind.TRAINING, gang=Gang(9, 1, 8)),
        replace(SERVICE, id="q", phase=Phase.QUEUED, gang=Gang(9, 1, 8)),
        replace(SERVICE, id="s", gang=Gang(9, 1, 8), version=7),
    )
    found = scale(Snapshot.build(AT, (), (), (), others), Metrics(), Settings())
    assert [(d.workload, d.version, d.workers) for d in found.decisions] == [("s", 7, 8)]
    assert not found.states
