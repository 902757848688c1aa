"""Services that share GPUs: none is held twice, and what there is goes to the service with fewest replicas."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from controlplane.benchmarks.slo import policies, together
from controlplane.benchmarks.slo.judge import Policy, Run, Service, judge
from controlplane.benchmarks.slo.together import Shared, copies, grant, judge_together
from controlplane.benchmarks.slo.traces import Trace


def busy(seed: int, rate: float = 3.0, until: float = 600.0) -> Trace:
    """Requests of 1 s on average, three times as many in the middle third."""
    rng = np.random.default_rng(seed)
    at = np.sort(np.concatenate([rng.uniform(0, until, int(rate * until)), rng.uniform(200, 400, int(rate * until))]))
    service = np.minimum(rng.exponential(1.0, len(at)), 7.0)
    return Trace("made", at, service, 2, 9.0, until)


def waiting(*numbers: int, most: int = 9) -> list[Run]:
    """Services with nothing to do that have so many replicas."""
    trace = Trace("made", np.array([90.0]), np.ones(1), 1, 3.0, 99.0)
    return [Run(Service(trace, 2.0), Policy(lambda _: 1), most, first=number) for number in numbers]


def on(runs: Sequence[Run]) -> list[int]:
    return [len(run.service.on) for run in runs]


def test_with_enough_gpus_each_is_judged_as_it_is_alone() -> None:
    traces = [busy(1), busy(2)]
    told = judge_together(traces, policies.standby, start=2.0, most=9, gpus=18)
    for trace, one in zip(traces, told, strict=True):
        alone = judge(trace, policies.standby(trace, 2.0), start=2.0, most=9)
        assert (one.late.tolist(), one.hours, one.starts) == (alone.late.tolist(), alone.hours, alone.starts)


def test_what_there_is_goes_one_by_one_to_the_service_with_fewest() -> None:
    runs = waiting(1, 3, 1)
    grant(runs, {0: 5, 1: 5, 2: 5}, 0.0, 8)
    assert on(runs) == [3, 3, 2]


def test_no_service_gets_more_than_it_asked_for_or_may_have() -> None:
    runs = waiting(1, 1, most=4)
    grant(runs, {0: 2, 1: 9}, 0.0, 20)
    assert on(runs) == [2, 4]


def test_a_gpu_is_free_for_others_once_the_last_request_there_has_ended() -> None:
    trace = Trace("made", np.array([0.0]), np.array([20.0]), 1, 60.0, 99.0)
    first, second = (Run(Service(trace, 0.0), Policy(lambda _: 1), 9, first=n) for n in (2, 1))
    first.service.serve(5.0)
    newest = max(first.service.on)
    first.service.free[:] = [5.0, 20.0]
    first.service.owner[:] = [0, newest]
    grant([first, second], {0: 1, 1: 2}, 5.0, 3)
    assert on([first, second]) == [1, 1]  # it works on until 20 s
    first.service.let_go(15.0)
    grant([first, second], {1: 2}, 15.0, 3)
    assert on([first, second]) == [1, 1]
    first.service.let_go(30.0)
    grant([first, second], {1: 2}, 30.0, 3)
    assert on([first, second]) == [1, 2]


def test_one_that_is_ending_its_requests_comes_back_where_no_gpu_is_free() -> None:
    (run,) = waiting(2)
    run.service.free[:] = 50.0
    run.decide(1, 10.0)
    grant([run], {0: 2}, 12.0, 2)
    assert (on([run]), run.service.draining) == ([2], {})


def test_together_they_never_hold_more_than_there_are() -> None:
    traces = [busy(seed) for seed in range(4)]
    told = judge_together(traces, policies.standby, start=2.0, most=9, gpus=14)
    moments = sorted({at for one in told for at, _ in one.series})
    held = [sum([n for at, n in one.series if at <= moment][-1] for one in told) for moment in moments]
    assert max(held) == 14  # all of them are used
    assert all(
        one.late.sum() >= 0 and one.arrivals.sum() == len(trace.at) for one, trace in zip(told, traces, strict=True)
    )


def test_fewer_gpus_make_more_late() -> None:
    traces = [busy(seed) for seed in range(4)]
    late = [
        sum(int(one.late.sum()) for one in judge_together(traces, policies.standby, start=2.0, most=9, gpus=gpus))
        for gpus in (36, 12, 8)
    ]
    assert late == sorted(late)
    assert late[0] < late[-1]


def test_copies_with_one_load_come_within_a_quarter_of_a_minute_and_apart_anywhere() -> None:
    trace = busy(3)
    for is_one_load, spread in ((True, 15.0), (False, 600.0)):
        found = copies(trace, np.random.default_rng(1), is_one_load=is_one_load)
        assert len(found) == together.COPIES
        peaks = [float(np.median(one.at)) for one in found]
        assert max(peaks) - min(peaks) <= spread
        assert (max(peaks) - min(peaks) > 15.0) is not is_one_load
        for one in found:
            assert sorted(one.service.tolist()) == sorted(trace.service.tolist())
            assert (np.diff(one.at) >= 0).all()
            assert one.at.max() <= one.seconds


def test_each_trace_has_a_line_for_one_load_and_one_for_apart() -> None:
    found = [Shared("x", one, part, 0.5, 3, 1.0) for one in (True, False) for part in (1.0, 0.6)]
    assert list(together.told(found)) == [
        "ten copies of x with one load: 100% of the GPUs: late 0.500 %, 3 bad; 60% of the GPUs: late 0.500 %, 3 bad",
        "ten copies of x apart: 100% of the GPUs: late 0.500 %, 3 bad; 60% of the GPUs: late 0.500 %, 3 bad",
    ]


def test_one_load_needs_more_gpus_than_loads_apart(tmp_path: Path) -> None:
    one, apart = together.measured("spike", tmp_path, 1, parts=(0.5,))
    assert (one.is_one_load, apart.is_one_load, one.part) == (True, False, 0.5)
    assert one.late_percent > 3 * apart.late_percent
    assert one.bad_windows > apart.bad_windows
