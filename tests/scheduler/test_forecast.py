"""Expected ends: from users' estimates and history, given how long something runs already."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.history import LEVELS, UNKNOWN, Run, at_levels, learn
from scheduler.model.settings import Settings
from scheduler.model.workload import Gang, Kind, ResourceRequest, Workload
from scheduler.predict.run_times import RunTime, age, expected_end, planned_total, run_time

JOB = Workload("j", "j", "red", Kind.TRAINING, ResourceRequest(gpus=2), Gang(2, 2, 2), started_at=1000.0)
RULES = Settings()


def runs(*seconds: float, **known: object) -> list[Run]:
    return [Run(Kind.TRAINING, "red", 4000, s, **known) for s in seconds]  # type: ignore[arg-type]


def test_what_the_user_said_is_believed_until_it_has_passed() -> None:
    told = replace(JOB, expected_seconds=600.0)
    end = expected_end(told, 1100.0, UNKNOWN, RULES)
    assert 1100 < end.low < end.median < end.high
    run = run_time(told, UNKNOWN, RULES)
    assert {planned_total(run, ran) for ran in (0.0, 300.0, 599.0)} == {600.0}
    assert planned_total(run, 601.0) > 601.0


def test_history_tells_by_how_much_users_are_off() -> None:
    history = learn(runs(*[300.0] * 30, expected_seconds=600.0))
    told = replace(JOB, expected_seconds=1000.0, team="blue", ask=ResourceRequest(gpus=8))
    assert run_time(told, history, RULES).median == 300.0  # half of it would be 500, and nothing ever ran that long
    assert run_time(replace(told, kind=Kind.NOTEBOOK), history, RULES).median == 500.0


def test_without_an_estimate_its_team_and_size_tell_then_the_size_then_the_kind() -> None:
    small = [Run(Kind.TRAINING, "blue", 1000, 50.0) for _ in range(30)]
    history = learn([*runs(*range(100, 200)), *small])
    assert run_time(JOB, history, RULES).median == pytest.approx(149.5)
    assert run_time(replace(JOB, ask=ResourceRequest(gpus=1), gang=Gang(), team="green"), history, RULES).median == 50.0
    assert run_time(replace(JOB, ask=ResourceRequest(gpus=8)), history, RULES).median > 50.0
    assert run_time(replace(JOB, kind=Kind.NOTEBOOK), history, RULES).median == RULES.run_seconds


def test_a_service_never_ends() -> None:
    assert expected_end(replace(JOB, kind=Kind.INFERENCE), 2000.0, UNKNOWN, RULES).low == inf


def test_earlier_attempts_count() -> None:
    assert age(replace(JOB, attained=4000 * 500), 1100.0) == 600.0


@given(
    st.lists(st.floats(0, 1e6), min_size=20, max_size=40),
    st.floats(0, 1e7),
    st.floats(0, 1),
    st.floats(1, 1e4),
)
def test_what_is_expected_is_never_in_the_past_and_grows_with_age(
    found: list[float], ran: float, level: float, more: float
) -> None:
    run = RunTime(1.0, at_levels(found))
    assert run.given(ran, level) >= ran
    assert run.given(ran + more, level) >= run.given(ran, level) * (1 - 1e-9)
    assert planned_total(run, ran) > ran


def test_levels_are_those_of_the_sample() -> None:
    values = at_levels([float(i) for i in range(101)])
    assert values == tuple(pytest.approx(100 * level) for level in LEVELS)


def test_who_ran_longer_than_half_is_compared_with_those_that_did_too() -> None:
    run = RunTime(1.0, at_levels([float(i) for i in range(101)]))
    assert run.given(50.0, 0.5) == pytest.approx(75.0)
    assert run.given(200.0, 0.5) == 400.0  # longer than any: as long again
