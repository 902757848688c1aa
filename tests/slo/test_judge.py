"""The judge of services: whose requests are late, what is held, what is onset, on loads counted by hand."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from controlplane.benchmarks.slo import policies
from controlplane.benchmarks.slo.batching import BatchingService
from controlplane.benchmarks.slo.judge import Judged, Policy, Seen, Service, judge
from controlplane.benchmarks.slo.onset import is_attained, onset
from controlplane.benchmarks.slo.traces import Trace, noise


def load(
    at: Sequence[float], seconds: float = 1.0, *, slots: int = 1, objective: float = 2.0, until: float = 60.0
) -> Trace:
    """Requests that all take as long."""
    return Trace("made", np.array(at, float), np.full(len(at), seconds), slots, objective, until)


def always(replicas: int) -> Policy:
    return Policy(lambda _: replicas)


def test_a_request_is_late_when_it_waited_longer_than_the_objective_leaves() -> None:
    told = judge(load([0.0, 0.1, 0.2]), always(1), start=30.0, most=1)
    # They end after 1.0, 2.0 and 3.0 s; the last took 2.8 s.
    assert (told.late.tolist(), told.arrivals.tolist()) == ([1], [3])
    assert told.late_percent == pytest.approx(100 / 3)
    assert told.bad_windows == (0,)


def test_a_replica_serves_when_it_has_started_and_holds_from_the_moment_it_was_asked_for() -> None:
    told = judge(load([16.0, 16.0], 20.0, objective=40.0), always(2), start=30.0, most=2)
    assert told.hours * 3600 == pytest.approx(60 + 45)  # the second was asked for at the first look, at 15 s
    assert told.starts == 1
    assert told.late.sum() == 0  # one at 36 s, by the first; the second begins at 36 too, before the new one is there


def test_one_that_is_let_go_holds_until_its_last_request_has_ended() -> None:
    wants = iter((2, 2, 1, 1))
    told = judge(load([31.0, 31.0], 20.0, objective=99.0), Policy(lambda _: next(wants)), start=0.0, most=2)
    assert told.hours * 3600 == pytest.approx(60 + (51 - 15))  # let go at 45 s, busy until 51 s


def test_one_that_was_let_go_and_still_works_comes_back_without_a_start() -> None:
    wants = iter((2, 1, 2, 2))
    told = judge(load([16.0, 16.0], 40.0, objective=99.0), Policy(lambda _: next(wants)), start=0.0, most=2)
    assert told.starts == 1
    assert told.hours * 3600 == pytest.approx(60 + 45)


def test_the_gateway_is_asked_in_each_second_in_which_a_request_waits() -> None:
    asked: list[tuple[float, int]] = []

    def signal(seen: Any) -> None:
        asked.append((seen.at, seen.waiting))

    judge(load([0.0, 0.0, 0.0], 2.0), Policy(lambda _: 1, signal), start=1.0, most=1)
    assert asked == [(1.0, 2), (2.0, 2), (3.0, 1), (4.0, 1)]


def test_what_the_gateway_asks_for_is_there_a_start_later() -> None:
    told = judge(
        load([0.5] * 9, 1.0, objective=3.6), Policy(lambda scrape: scrape.on, lambda seen: 9), start=2.0, most=9
    )
    assert told.late.sum() == 0  # asked for at 1 s, there at 3 s, all answered by 4 s
    assert told.starts == 8


def test_a_scrape_counts_each_request_once() -> None:
    service = Service(load([0.0, 1.0, 20.0], 3.0, slots=2, until=60.0), 0.0)
    service.resize(1, 0.0)
    seen: list[Seen] = []
    for now in (15.0, 30.0):
        service.serve(now)
        seen.append(service.scrape(now))
    assert [(s.answered, s.running, s.waiting) for s in seen] == [(2, 0, 0), (3, 0, 0)]
    assert [(s.scrape.arrived, s.scrape.answered, s.scrape.widest) for s in seen] == [(2, 2.0, 0), (1, 1.0, 0)]
    assert [s.scrape.answered_seconds for s in seen] == pytest.approx([6.0, 3.0])
    assert seen[1].busy == pytest.approx(9.0)


def test_what_runs_counts_as_busy_before_it_is_answered() -> None:
    service = Service(load([10.0], 99.0, until=60.0), 0.0)
    service.resize(1, 0.0)
    service.serve(15.0)
    seen = service.scrape(15.0)
    assert (seen.running, seen.scrape.widest, seen.scrape.answered_seconds) == (1, 1, 0.0)
    assert seen.busy == pytest.approx(5.0)


def test_onset_is_the_first_minutes_and_those_after_a_jump() -> None:
    arrivals = np.array([10] * 12 + [16] + [16] * 20)
    assert np.flatnonzero(onset(arrivals, 30.0)).tolist() == [0, 1, 12, 13, 14]
    assert np.flatnonzero(onset(arrivals, 90.0)).tolist() == [0, 1, 2, 12, 13, 14, 15]
    assert not onset(np.array([10] * 12 + [15] * 3), 30.0)[2:].any()  # half as many again is no jump


def test_a_bad_minute_counts_unless_it_is_onset() -> None:
    def told(bad: int) -> Judged:
        late = np.zeros(30, dtype=np.int64)
        late[bad] = 1
        return Judged(np.full(30, 10), late, 1.0, 0, 0, ())

    assert is_attained(told(1), 30.0)
    assert not is_attained(told(2), 30.0)


@pytest.mark.parametrize("make", [policies.standby, policies.alone, *policies.BASELINES.values()])
def test_no_policy_goes_beyond_what_the_operator_allows(make: policies.Make) -> None:
    rng = np.random.default_rng(1)
    trace = load(np.sort(rng.uniform(0, 900, 4000)).tolist(), 1.0, slots=2, until=900.0)
    told = judge(trace, make(trace, 30.0), start=30.0, most=5)
    assert 1 <= min(n for _, n in told.series) <= max(n for _, n in told.series) <= 5
    assert told.hours <= 5 * 900 / 3600 + 1e-9
    assert told.arrivals.sum() == 4000


def test_noise_has_the_variation_that_its_figure_is_named_after() -> None:
    trace = noise(3)
    quarters = np.bincount((trace.at // 15).astype(np.int64))[:-1]
    assert quarters.std() / quarters.mean() == pytest.approx(0.3, abs=0.02)
    halves = np.array_split(quarters, 2)
    assert halves[0].mean() == pytest.approx(halves[1].mean(), rel=0.06)


def test_hours_are_at_least_the_work() -> None:
    rng = np.random.default_rng(2)
    trace = load(np.sort(rng.uniform(0, 900, 900)).tolist(), 1.0, slots=2, until=960.0)
    told = judge(trace, policies.standby(trace, 2.0), start=2.0, most=5)
    assert told.hours * 3600 >= trace.work_gpu_seconds
    assert math.isclose(trace.work_gpu_seconds, 450.0)


def test_one_that_is_let_go_while_it_has_nothing_to_do_has_held_until_then() -> None:
    wants = iter((2, 2, 1, 1))
    told = judge(load([1.0, 31.0], 2.0, objective=99.0), Policy(lambda _: next(wants)), start=0.0, most=2)
    assert told.hours * 3600 == pytest.approx(60 + (45 - 15))  # let go at 45 s, idle since 33 s at the latest


def test_the_first_replica_is_ready_from_the_beginning() -> None:
    seen: list[int] = []

    def look(told: Seen) -> int:
        seen.append(told.ready)
        return 2

    judge(load([0.0], until=60.0), Policy(look), start=30.0, most=2)
    assert seen == [1, 1, 2, 2]  # the second was asked for at 15 s


@pytest.mark.parametrize("kind", [Service, BatchingService])
def test_what_waits_for_one_that_comes_back_begins_no_sooner_than_that(kind: type[Service]) -> None:
    trace = Trace("made", np.array([0.0, 0.0, 10.0]), np.array([90.0, 20.0, 1.0]), 1, 99.0, 99.0, np.zeros(3))
    service = kind(trace, 0.0)
    for now, number in ((0.0, 2), (9.0, 1), (25.0, 2)):  # the second is idle from 20 s on
        service.serve(now)
        service.resize(number, now)
    service.serve(math.inf)
    assert service.began.tolist() == [0.0, 0.0, 25.0]
