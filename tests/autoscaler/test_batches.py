"""Another batch is chosen, tried and judged by goodput: what is learned in a second, not how many examples pass."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.experiment.experiment import Decision, Limits
from autoscaler.experiment.verdict import Terms
from autoscaler.reallocate.candidates import Axis, Freedom, candidates
from autoscaler.reallocate.choice import Training, told
from autoscaler.reallocate.course import Course, Seen, follow
from autoscaler.reallocate.rows import restored, written
from autoscaler.throughput import batchcurve
from autoscaler.throughput.allocation import Allocation
from autoscaler.throughput.curve import packed
from autoscaler.throughput.goodput import Gradients
from autoscaler.throughput.observation import Observation
from tests.autoscaler.allocations import allocation, allocations, rooms
from tests.autoscaler.test_reallocate import BUDGETS

SHORT = Limits(Terms(before=6, most=12), start=4)
NOW = allocation("2+2 b16")  # 64 examples
BIG = Gradients(1e6, 64)  # each example counts alike


def free(noise: Gradients | None, bounds: tuple[int, int] = (8, 32)) -> Training:
    freedom = Freedom(can_move=False, batch=bounds)
    return Training(freedom, rooms("4 4"), BUDGETS, 1e6, 60.0, noise)


def step(one: Allocation, part: float) -> float:
    """s, where this part of a step of 64 examples goes with the batch."""
    return 1 - part + part * one.batch / 16


def lived(part: float, noise: Gradients | None, *, late: Gradients | None = None) -> tuple[Course, list[str]]:
    """Until it rests: what was decided. late: the noise once a change is on trial."""
    course, said = Course(NOW), list[str]()
    for at in range(200):
        known = free(late if late is not None and course.change is not None else noise)
        seen = Seen(course.wanted, step(course.wanted, part) * (1 + 0.02 * math.sin(at)), 0.05)
        course, decision = follow(course, seen, known, (), SHORT)
        if decision is not Decision.WAIT:
            said.append(f"{decision} {course.wanted.examples}")
        if course.is_resting:
            return course, said
    raise AssertionError("it never rests")


def test_a_larger_one_is_kept_where_a_step_hardly_takes_longer() -> None:
    course, said = lived(0.2, BIG)
    assert said == ["change 128", "keep 128"]
    assert (course.now.batch, course.noise) == (32, None)


def test_one_whose_steps_are_as_much_longer_is_rolled_back() -> None:
    course, said = lived(1.0, BIG)
    assert said == ["change 128", "roll_back 64"]
    assert course.now == NOW


def test_more_examples_a_second_are_not_enough_where_each_teaches_less() -> None:
    """Twice the examples in 1.5 of the time are a third more; by this noise they teach 7 % less than before."""
    noise = Gradients(80.0, 64)
    assert lived(0.5, BIG)[1] == ["change 128", "keep 128"]
    course, said = lived(0.5, noise)
    assert "keep 128" not in said
    assert course.now == NOW


def test_by_examples_alone_such_a_change_would_have_been_kept() -> None:
    """The same windows as above, once the change is on trial: what decides is the noise that the course has kept."""
    noise, change = Gradients(80.0, 64), NOW.examples_of(128)
    trial, _ = follow_to_trial()
    for kept, has in ((noise, Decision.ROLL_BACK), (None, Decision.KEEP)):
        course, ends = replace(trial, noise=kept), list[Decision]()
        for at in range(40):
            seen = Seen(change, step(change, 0.5) * (1 + 0.02 * math.sin(at)), 0.05)
            course, decision = follow(course, seen, free(kept), (), SHORT)
            if course.ended is not None:
                ends.append(decision)
                break
        assert ends == [has]


def follow_to_trial() -> tuple[Course, Decision]:
    course, decision = Course(NOW), Decision.WAIT
    for at in range(SHORT.terms.before):
        course, decision = follow(course, Seen(NOW, 1 + 0.02 * math.sin(at), 0.05), free(BIG), (), SHORT)
    assert (decision, course.wanted.examples, course.noise) == (Decision.CHANGE, 128, BIG)
    return course, decision


def test_what_the_noise_becomes_while_a_change_is_on_trial_judges_nothing() -> None:
    assert lived(0.2, BIG, late=Gradients(1.0, 128))[1][:2] == ["change 128", "keep 128"]


def test_a_trial_goes_on_from_its_row_with_its_noise() -> None:
    course, _ = follow_to_trial()
    assert restored(written(course)) == course
    assert "noise" not in written(Course(NOW))


def test_where_nothing_is_known_of_the_noise_each_example_counts_alike() -> None:
    """So what asks has to leave the batch as it is (services/training/allocations.py)."""
    assert lived(0.2, None)[1] == ["change 128", "keep 128"]


@pytest.mark.parametrize(
    ("bounds", "offered"),
    [((8, 32), [8, 32]), ((1, 512), [8, 32]), ((16, 20), [20]), ((12, 16), [12]), ((16, 16), []), ((20, 64), [32])],
)
def test_it_is_halved_and_doubled_as_far_as_is_allowed(bounds: tuple[int, int], offered: list[int]) -> None:
    found = candidates(NOW, Freedom(can_move=False, batch=bounds), rooms("4 4"))
    assert sorted(one.allocation.batch for one in found) == offered
    assert {one.axis for one in found} <= {Axis.BATCH}


def test_it_is_told_in_examples_of_all_gpus() -> None:
    course, _ = follow_to_trial()
    assert course.change is not None
    assert told(course.change, NOW).startswith("128 examples in a step instead of 64: expected +")


@settings(deadline=None, max_examples=60)
@given(allocations(), st.integers(1, 100_000))
def test_examples_of_all_gpus_stay_exactly_what_they_were(now: Allocation, total: int) -> None:
    then = now.examples_of(total)
    assert then.examples == max(total, now.total)
    assert then.examples_of(then.examples) == then
    few = packed(then, 1, 8, then.examples)
    assert few.examples == then.examples
    assert packed(few, now.workers, 8, few.examples).examples == then.examples


def test_an_elastic_training_has_the_same_examples_with_other_workers() -> None:
    freedom = Freedom(can_move=False, workers=(1, 4), examples=66)
    now = allocation("2+2").examples_of(66)
    found = [one.allocation for one in candidates(now, freedom, rooms("4 4"))]
    assert {(one.workers, one.examples) for one in found} == {(3, 66), (2, 66)}
    assert {one.batch for one in found} == {22, 33}


# --- what is shown -----------------------------------------------------------------------------


def seen(*examples: int, part: float = 0.3) -> tuple[Observation, ...]:
    found = [NOW.examples_of(one) for one in examples]
    return tuple(Observation(one, step(one, part), 0.05, error=0.02) for one in found)


def test_the_curve_of_batches_is_goodput_with_what_was_measured_beside() -> None:
    noise = Gradients(512.0, 64)
    found = batchcurve.curve(seen(64, 128), NOW, (32, 64, 128, 256), noise)
    assert [one.examples for one in found] == [32, 64, 128, 256]
    now, double = found[1], found[2]
    assert (now.goodput, now.low, now.high, now.speed, now.measured) == (1.0, 1.0, 1.0, 1.0, 1.0)
    truth = 2 / 1.3 * (512 + 64) / (512 + 128)
    assert double.measured == pytest.approx(truth)
    assert double.low * 0.97 <= truth <= double.high * 1.03
    assert double.speed == pytest.approx(double.goodput * (512 + 128) / (512 + 64))
    assert found[3].measured is None
    assert found[3].high / found[3].low > double.high / double.low


def test_before_a_step_was_seen_with_what_it_has_there_is_no_curve() -> None:
    assert batchcurve.curve((), NOW, (32,), BIG) == ()
    assert batchcurve.curve(seen(128), NOW, (32,), BIG) == ()
    assert batchcurve.curve(tuple(replace(one, is_lent=True) for one in seen(64)), NOW, (32,), BIG) == ()


@settings(deadline=None, max_examples=30)
@given(st.floats(1.0, 1e6), st.floats(1.0, 1e6), st.floats(1.0, 1e6))
def test_what_a_batch_is_worth_over_another_is_undone_by_the_way_back(noise: float, one: float, other: float) -> None:
    known = Gradients(noise, 1.0)
    assert known.advantage(one, other) * known.advantage(other, one) == pytest.approx(1.0)
    assert (known.advantage(one, other) <= 1.0) is (other >= one)
    assert known.advantage(one, other) == pytest.approx(known.efficiency(other) / known.efficiency(one))
