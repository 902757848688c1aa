"""Replicas that batch: whose tokens come when, counted by hand, and what holds of any load."""

import csv
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.benchmarks.harness.figure import BenchmarkError
from controlplane.benchmarks.slo import policies, traces
from controlplane.benchmarks.slo.batching import BatchingService, engine_seconds, max_replicas
from controlplane.benchmarks.slo.judge import Policy, judge
from controlplane.benchmarks.slo.traces import Trace

Request = tuple[float, float, float]  # when it comes, s until its first token, s from there to its last, alone


def load(*requests: Request, slots: int = 4, objective: float = 10.0, until: float = 60.0) -> Trace:
    at, prefill, decode = (np.array(column, float) for column in zip(*requests, strict=True))
    return Trace("made", at, prefill + decode, slots, objective, until, prefill)


def ends(trace: Trace, replicas: int = 1) -> list[float]:
    service = BatchingService(trace, 0.0)
    service.resize(replicas, 0.0)
    service.serve(math.inf)
    found: list[float] = np.round(service.ended, 6).tolist()
    return found


def test_alone_a_request_takes_its_own_time() -> None:
    assert ends(load((1.0, 0.5, 2.0), (10.0, 0.0, 3.0))) == [3.5, 13.0]


def test_prompts_go_one_by_one_and_then_all_get_tokens_in_longer_steps() -> None:
    # Prompts until 1 and 2; then steps that take 1.05 times as long.
    assert ends(load((0.0, 1.0, 2.0), (0.0, 1.0, 2.0))) == [4.1, 4.1]


def test_while_a_prompt_is_worked_on_no_other_request_gets_tokens() -> None:
    # The first has 2 s left when the second comes; both get tokens from 3 to 4.05, then the first alone.
    assert ends(load((0.0, 1.0, 3.0), (2.0, 1.0, 1.0))) == [5.05, 4.05]


def test_with_one_at_once_the_next_waits_for_the_end() -> None:
    assert ends(load((0.0, 1.0, 3.0), (2.0, 1.0, 1.0), slots=1)) == [4.0, 6.0]


def test_no_more_are_taken_than_there_are_seats_first_come_first_served() -> None:
    # Two have the seats until 2.1; the third and the fourth then share.
    assert ends(load(*[(0.0, 0.0, 2.0)] * 4, slots=2)) == [2.1, 2.1, 4.2, 4.2]


def test_a_request_goes_to_the_replica_with_fewest() -> None:
    assert ends(load((0.0, 0.0, 4.0), (1.0, 0.0, 1.0)), 2) == [4.0, 2.0]
    assert ends(load((0.0, 0.0, 4.0), (1.0, 0.0, 9.0), (5.0, 0.0, 1.0)), 2) == [4.0, 10.0, 6.0]


def test_one_that_is_let_go_ends_what_it_has_and_takes_no_more() -> None:
    wants = iter((2, 1, 1, 1))
    trace = load((16.0, 0.0, 20.0), (16.0, 0.0, 20.0), (31.0, 0.0, 4.0), slots=1, objective=99.0)
    told = judge(trace, Policy(lambda _: next(wants)), start=0.0, most=2, kind=BatchingService)
    # Let go at 30 s, busy until 36 s; the third waits for the other, also until 36 s.
    assert told.hours * 3600 == pytest.approx(60 + (36 - 15))


def test_late_for_its_own_length_or_only_because_it_waited_is_told_apart() -> None:
    trace = load((0.0, 0.0, 12.0), (0.0, 0.0, 2.0), slots=1, objective=10.0)
    told = judge(trace, Policy(lambda _: 1), start=0.0, most=1, kind=BatchingService)
    assert (told.late.sum(), told.waited) == (2, 1)


def test_what_it_may_have_at_most_follows_from_the_work_of_full_batches() -> None:
    trace = load(*[(0.0, 1.0, 4.0)] * 60)
    assert engine_seconds(trace)[0] == pytest.approx(1.0 + 4.0 * 1.15 / 4)
    assert max_replicas(trace) == math.ceil(1.5 * 2.15)


def test_what_was_tried_and_taken_back_has_not_ended() -> None:
    service = BatchingService(load((0.0, 0.0, 4.0), (1.0, 0.0, 9.0), (3.0, 0.0, 1.0), slots=2), 0.0)
    service.resize(1, 0.0)
    service.serve(2.0)
    saved = service.saved()
    service.serve(30.0)
    assert np.isfinite(service.ended).all()
    service.restore(saved)
    assert np.isinf(service.ended).all()


@st.composite
def loads(draw: st.DrawFn) -> Trace:
    times = st.floats(0.0, 5.0, allow_nan=False)
    requests = draw(st.lists(st.tuples(st.floats(0.0, 40.0), times, times), min_size=1, max_size=25))
    some = sorted((at, prefill, 0.01 + decode) for at, prefill, decode in requests)
    return load(*some, slots=draw(st.integers(1, 4)), until=75.0)


def changed(kind: type[BatchingService], trace: Trace, numbers: Sequence[int]) -> BatchingService:
    """The service once it had these numbers of replicas for 10 s each."""
    service = kind(trace, 3.0)
    for at, number in enumerate(numbers):
        service.serve(10.0 * at)
        service.let_go(10.0 * at)
        service.resize(number, 10.0 * at)
    service.serve(math.inf)
    return service


@settings(max_examples=60, deadline=None)
@given(loads(), st.lists(st.integers(1, 4), min_size=1, max_size=6))
def test_all_are_served_in_order_none_faster_than_alone_and_no_seat_twice(trace: Trace, numbers: list[int]) -> None:
    service = changed(BatchingService, trace, numbers)
    assert np.isfinite(service.ended).all()
    assert (np.diff(service.began) >= 0).all()
    assert (service.began >= trace.at).all()
    assert (service.ended - service.began >= trace.service - 1e-6).all()
    for moment in service.began:
        inside = (service.began <= moment) & (service.ended > moment + 1e-6)
        assert np.bincount(service.by[inside], minlength=1).max() <= trace.slots


@settings(max_examples=60, deadline=None)
@given(loads(), st.lists(st.integers(1, 4), min_size=1, max_size=6))
def test_it_makes_no_difference_how_often_it_is_looked_at_or_what_was_tried(trace: Trace, numbers: list[int]) -> None:
    class Looked(BatchingService):
        def serve(self, until: float) -> None:
            for moment in np.arange(0.5, min(until, 80.0), 0.5):
                saved = self.saved()
                super().serve(float(moment) + 7.0)
                self.restore(saved)
                super().serve(float(moment))
            super().serve(until)

    once, often = (changed(kind, trace, numbers) for kind in (BatchingService, Looked))
    assert np.allclose(once.ended, often.ended, atol=1e-6)
    assert np.allclose(once.began, often.began, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(loads())
def test_with_one_at_once_both_judges_say_the_same(trace: Trace) -> None:
    one = Trace("made", trace.at, trace.service, 1, 6.0, trace.seconds, trace.prefill)
    slots = judge(one, policies.standby(one, 2.0), start=2.0, most=4)
    batches = judge(one, policies.standby(one, 2.0), start=2.0, most=4, kind=BatchingService)
    assert slots.late.tolist() == batches.late.tolist()
    assert slots.hours == pytest.approx(batches.hours, abs=1e-6)


def azure(folder: Path, rows: Sequence[tuple[float, int, int]]) -> None:
    (folder / "inference").mkdir()
    with (folder / "inference" / "azure_llm_2023_conv.csv").open("w", newline="") as out:
        csv.writer(out).writerows([("arrival_s", "context_tokens", "generated_tokens"), *rows])


def test_tokens_of_a_trace_that_has_them_are_its_own_and_the_others_draw_the_mix_of_azures(tmp_path: Path) -> None:
    azure(tmp_path, [(0.0, 10_000, 50), (1.0, 5_000, 75)])  # half of 2 s for the prompt, and a quarter of 2 s
    told = traces.with_tokens(traces.load("azure", tmp_path, 1), tmp_path, 1)
    assert told.prefill.tolist() == [1.0, 0.5]
    bare = traces.load("spike", tmp_path, 1)
    drawn = traces.with_tokens(bare, tmp_path, 1)
    assert drawn.service.tolist() == bare.service.tolist()
    parts = np.round(drawn.prefill / drawn.service, 9)
    assert set(parts.tolist()) == {0.5, 0.25}
    assert parts.mean() == pytest.approx(0.375, abs=0.005)


def test_without_azures_file_there_are_no_tokens_to_draw(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="azure_llm_2023_conv.csv is missing. Set WEFT_DATA"):
        traces.with_tokens(traces.load("spike", tmp_path, 1), tmp_path, 1)
