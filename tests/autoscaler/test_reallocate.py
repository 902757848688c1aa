"""What else a training could have: within its budgets and its nodes' room, the best first, each tried once."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.bottleneck.window import Bottleneck, Window, Worker
from autoscaler.experiment.experiment import Decision, Limits
from autoscaler.experiment.verdict import Terms
from autoscaler.reallocate.budgets import Budget, Level, Resources, needs
from autoscaler.reallocate.candidates import Freedom, Room, candidates, fits
from autoscaler.reallocate.choice import Considered, Guard, Past, Training, chosen, consider, told
from autoscaler.reallocate.constants import DEFAULT
from autoscaler.reallocate.course import Course, Seen, again, follow, of_reports
from autoscaler.reallocate.rows import restored, written
from autoscaler.throughput.allocation import Allocation
from autoscaler.throughput.fit import Fitted, fit
from autoscaler.throughput.observation import Observation
from tests.autoscaler.allocations import allocation, allocations, rooms, words

FREE = Freedom(cpu=16.0, servers=(1, 8), workers=(1, 8), batch=(1, 512))
CLUSTER = Resources(32, 128, 512)
BUDGETS = (Budget(Level.TRAINING, CLUSTER), Budget(Level.TEAM, CLUSTER), Budget(Level.CLUSTER, CLUSTER))


def training(**changed: object) -> Training:
    usual = Training(Freedom(), rooms("4 4 4 4"), BUDGETS, 1e6, 60.0)
    return replace(usual, **changed)  # type: ignore[arg-type]


def model(now: Allocation, exchange: float | None = 0.5, wait: float | None = None) -> Fitted:
    return fit([Observation(now, 1.0, exchange, wait, 0.02)])


@pytest.mark.parametrize(
    ("now", "free", "nodes", "found"),
    [
        ("1+1+1+1", Freedom(), "4 4 4 4", "4 | 2+2"),
        ("1+1+1+1", Freedom(), "3 2 1 1", "3+1 | 2+2"),
        ("1+1+1+1", Freedom(can_move=False), "4 4 4 4", ""),
        ("4", Freedom(), "4 1", ""),
        ("4", Freedom(), "4 4", "2+2"),
        ("2+2 w2", Freedom(), "8 4", "4 w2"),  # a worker with two GPUs stays whole
        ("2 c4", Freedom(cpu=12.0), "2/16", "2 c6 | 2 c8"),
        ("2 c4", Freedom(cpu=12.0), "2/100", "2 c6 | 2 c8 | 2 c12"),
        ("2", Freedom(cpu=12.0), "2/100", ""),  # what it has is not known
        ("2 s2", Freedom(can_move=False, servers=(1, 4)), "2/100", "2 s3 | 2 s1 | 2 s4"),
        ("2 c4 s2", Freedom(can_move=False, servers=(1, 8)), "2/20", "2 c4 s3 | 2 c4 s1"),  # cores for three servers
        ("2", Freedom(can_move=False, workers=(1, 4)), "2 1", "2+1 | 1"),
        ("2 b8", Freedom(can_move=False, batch=(4, 8)), "2", "2 b4"),
    ],
)
def test_the_candidates_are_those_that_have_room(now: str, free: Freedom, nodes: str, found: str) -> None:
    told = candidates(allocation(now), free, rooms(nodes))
    assert {words(one.allocation) for one in told} == set(found.split(" | ")) - {""}


shares = st.floats(0.05, 1.0)
amounts = st.builds(Resources, st.integers(0, 40), st.integers(0, 80), st.integers(0, 200))
budgets = st.tuples(*[st.builds(Budget, st.just(level), amounts, shares, amounts) for level in Level])
nodes = st.lists(st.builds(Room, st.integers(0, 8), st.none() | st.integers(0, 64)), min_size=1, max_size=5)


@settings(deadline=None, max_examples=60)
@given(allocations(), budgets, nodes, st.sampled_from((None, *Bottleneck)), st.integers(0, 6))
def test_what_is_chosen_keeps_each_budget_and_has_room(
    now: Allocation, kept: tuple[Budget, ...], there: list[Room], named: Bottleneck | None, moves: int
) -> None:
    past = Past(frozenset({replace(now, batch=now.batch * 2)}), moves)
    known = training(freedom=FREE, rooms=tuple(there), budgets=kept, bottleneck=named)
    one = chosen(consider(now, model(now), known, past))
    if one is None:
        return
    then = one.candidate.allocation
    assert then != now
    assert then not in past.tabu
    assert moves < DEFAULT.moves
    assert fits(then, there)
    assert one.gain.part >= DEFAULT.least_gain
    more, less = needs(then), needs(now)
    if more.gpus <= less.gpus and more.cores <= less.cores and more.memory <= less.memory:
        return  # a re-cut of what it has
    for budget in kept:
        total = budget.others + needs(then)
        for need, capacity in (
            (total.gpus, budget.capacity.gpus),
            (total.cores, budget.capacity.cores),
            (total.memory, budget.capacity.memory),
        ):
            assert need <= budget.share * capacity + 1e-6


@settings(deadline=None, max_examples=40)
@given(allocations(), nodes)
def test_the_best_comes_first_and_nothing_is_offered_twice(now: Allocation, there: list[Room]) -> None:
    found = consider(now, model(now), training(freedom=FREE, rooms=tuple(there)), Past())
    assert [one.gain.value for one in found] == sorted((one.gain.value for one in found), reverse=True)
    offered = [one.candidate.allocation for one in found]
    assert len(set(offered)) == len(offered)
    assert now not in offered


def guards(now: Allocation, known: Training, past: Past | None = None) -> dict[str, Guard]:
    found = consider(now, model(now), known, past or Past())
    return {words(one.candidate.allocation): one.guard for one in found}


def test_each_guard_speaks_for_itself() -> None:
    now = allocation("1+1+1+1")
    assert guards(now, training())["4"] is Guard.NONE
    assert guards(now, training(), Past(frozenset({allocation("4")})))["4"] is Guard.TABU
    assert guards(now, training(), Past(moves=5))["4"] is Guard.MOVES
    assert guards(now, training(bottleneck=Bottleneck.NETWORK))["4"] is Guard.NONE
    assert guards(now, training(bottleneck=Bottleneck.STORAGE))["4"] is Guard.BOTTLENECK
    assert guards(now, training(remaining=7000.0))["4"] is Guard.NONE
    assert guards(now, training(remaining=5000.0))["4"] is Guard.PAYBACK  # 2 x 60 s are more than 2 % of it
    assert guards(now, training(budgets=(Budget(Level.TEAM, CLUSTER, 0.1),)))["4"] is Guard.NONE  # it takes no more
    quick = consider(now, model(now, exchange=0.01), training(), Past())
    assert {one.guard for one in quick} == {Guard.GAIN}


def test_a_nodes_cpus_come_with_its_gpus_as_far_as_the_dominant_share_goes() -> None:
    """A fourth of the cluster's GPUs may have a fourth of its cores."""
    now = allocation("8 c2")
    known = training(
        freedom=Freedom(can_move=False, cpu=16.0), rooms=rooms("8/64"), budgets=(Budget(Level.TRAINING, CLUSTER, 0.25),)
    )
    found = {words(one.candidate.allocation): one.guard for one in consider(now, model(now, 0.02, 0.6), known, Past())}
    assert found == {"8 c3": Guard.NONE, "8 c4": Guard.NONE, "8 c8": Guard.BUDGET}


def test_more_cpu_in_place_costs_no_restart() -> None:
    now = allocation("2 c2")
    known = training(freedom=Freedom(can_move=False, cpu=8.0), rooms=rooms("2/64"), remaining=1000.0)
    restarting, in_place = (
        chosen(consider(now, model(now, 0.02, 0.6), replace(known, cpu_in_place=one), Past())) for one in (False, True)
    )
    assert restarting is None
    assert in_place is not None


def test_a_change_is_told_with_what_is_expected_of_it_and_what_speaks_against_it() -> None:
    now = allocation("1+1+1+1")
    best, other = consider(now, model(now), training(), Past())
    assert told(best, now).startswith("its 4 GPUs on 1 node instead of 4: expected +")
    assert told(other, now).startswith("its 4 GPUs on 2 nodes instead of 4: expected ")
    now = allocation("8 c2")
    poor = (Budget(Level.TEAM, CLUSTER, 0.1),)
    known = training(freedom=Freedom(can_move=False, cpu=4.0), rooms=rooms("8/64"), budgets=poor)
    (best, *_) = consider(now, model(now, 0.02, 0.6), known, Past())
    assert told(best, now).startswith("4 cores for each worker instead of 2: expected +")
    assert told(best, now).endswith("; it does not keep the budget of the team")


# --- the course of one training ---------------------------------------------------------------

SHORT = Limits(Terms(before=4, fewest=2, most=6), settle=1, start=3)
TRUTH = {"1+1+1+1": 1.0, "4": 0.5, "2+2": 0.7}


def lived(truth: dict[str, float], known: Training, lent: tuple[Observation, ...] = ()) -> tuple[Course, list[str]]:
    """Follow it until it rests; it has what is wanted in the next window. What was decided beside waiting."""
    course, had, said = Course(allocation("1+1+1+1")), allocation("1+1+1+1"), list[str]()
    for at in range(200):
        course, decision = follow(course, Seen(had, truth[words(had)] * (1 + 0.02 * math.sin(at))), known, lent, SHORT)
        had = course.wanted
        if decision is not Decision.WAIT:
            said.append(f"{decision} {words(had)}")
        if course.is_resting:
            return course, said
    raise AssertionError("it never rests")


def test_fewer_workers_are_judged_by_the_examples_they_do_not_by_how_short_their_steps_are() -> None:
    """Half of them take .7 of the time for a step: less is done."""
    few = training(freedom=Freedom(can_move=False, workers=(2, 4)))
    for step, kept in ((0.7, False), (0.35, True)):
        course, now = Course(allocation("2+2 w4")), allocation("2+2 w4")
        for at in range(60):
            took = (1.0 if course.wanted.workers == 4 else step) * (1 + 0.02 * math.sin(at))
            exchange = 0.6 if course.wanted.workers == 4 else 0.05
            course, decision = follow(course, Seen(course.wanted, took, exchange), few, (), SHORT)
            if decision in (Decision.KEEP, Decision.ROLL_BACK):
                break
        assert (course.now.workers < now.workers) is kept, step


def test_a_training_gets_what_makes_it_faster_and_then_rests() -> None:
    course, said = lived(TRUTH, training())
    assert said == ["change 4", "keep 4"]
    assert (words(course.now), course.past.moves) == ("4", 1)


def test_what_does_not_help_is_rolled_back_and_not_tried_again() -> None:
    course, said = lived({"1+1+1+1": 1.0, "4": 1.2, "2+2": 1.1}, training())
    assert said[:2] == ["change 4", "roll_back 1+1+1+1"]
    assert words(course.now) == "1+1+1+1"
    assert len([one for one in said if one.startswith("change 4")]) == 1


def test_what_a_training_of_the_same_template_tried_in_vain_is_not_tried() -> None:
    lent = tuple(
        Observation(allocation(text), step, error=0.02, is_lent=True) for text, step in (("1+1+1+1", 1.0), ("4", 1.02))
    )
    course, said = lived({"1+1+1+1": 1.0, "4": 1.02, "2+2": 1.1}, training(), lent)
    assert (said, course.past.moves) == ([], 0)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.none() | st.floats(0.1, 10.0), min_size=450, max_size=450), st.lists(st.booleans(), min_size=20))
def test_a_course_comes_to_rest_within_its_moves(steps: list[float | None], fails: list[bool]) -> None:
    known = training(freedom=replace(FREE, cpu=None))
    course, had = Course(allocation("1+1+1+1")), allocation("1+1+1+1")
    limit = SHORT.longest * (DEFAULT.moves + 1)
    for at, one in enumerate(steps[:limit]):
        course, _ = follow(course, Seen(had, one, has_failed=fails[at % len(fails)]), known, (), SHORT)
        had = course.wanted
    assert course.is_resting
    assert course.past.moves <= DEFAULT.moves
    assert course.wanted == course.now


def test_of_changes_about_as_good_the_one_that_takes_least_is_tried() -> None:
    """Its input takes a fifth longer than its computation: twice the cores are enough."""
    now = allocation("2 c4")
    known = training(freedom=Freedom(can_move=False, cpu=16.0), rooms=rooms("2/64"))
    one = chosen(consider(now, model(now, 0.02, 0.17), known, Past()))
    assert one is not None
    assert words(one.candidate.allocation) == "2 c8"
    assert words(consider(now, model(now, 0.02, 0.17), known, Past())[0].candidate.allocation) == "2 c16"


def test_a_training_that_rests_measures_again_when_it_is_told_to() -> None:
    course, _ = lived(TRUTH, training(rooms=rooms("1 1 1 1")))
    assert (words(course.now), course.past.moves) == ("1+1+1+1", 0)
    woken, had = again(course), course.now
    for at in range(60):
        woken, _ = follow(woken, Seen(had, TRUTH[words(had)] * (1 + 0.02 * math.sin(at))), training(), (), SHORT)
        had = woken.wanted
    assert words(woken.now) == "4"


def test_windows_with_an_allocation_that_it_was_not_to_have_judge_nothing() -> None:
    """It was evicted, and runs elsewhere: neither what it had nor the change."""
    course, said = Course(allocation("1+1+1+1")), list[Decision]()
    for at in range(SHORT.longest + 1):
        had = course.now if course.wanted == course.now else allocation("3+1")
        course, decision = follow(course, Seen(had, 1.0 if had == course.now else 0.1), training(), (), SHORT)
        said.append(decision)
        if decision is Decision.ROLL_BACK:
            assert at == SHORT.terms.before - 1 + SHORT.start
            return
    raise AssertionError(said)


@settings(deadline=None, max_examples=15)
@given(st.lists(st.none() | st.floats(0.1, 10.0), min_size=60, max_size=60), st.integers(0, 59))
def test_a_course_goes_on_from_what_was_written_of_it(steps: list[float | None], at: int) -> None:
    known = training(freedom=FREE)
    whole = again_read = Course(allocation("1+1+1+1 c4"))
    for place, one in enumerate(steps):
        if place == at:
            again_read = restored(json.loads(json.dumps(written(again_read), allow_nan=False)))
        whole, said = follow(whole, Seen(whole.wanted, one), known, (), SHORT)
        again_read, said_again = follow(again_read, Seen(again_read.wanted, one), known, (), SHORT)
        assert said == said_again
    assert again_read == whole


def test_the_reports_of_a_window_are_the_mean_step_with_the_exchange_itself_and_the_wait() -> None:
    """The worker that waits least for the others tells the exchange itself."""
    now = allocation("1+1")
    reports = Window((Worker(1.0, 0.1, 0.4), Worker(1.0, 0.3, 0.2)))
    assert of_reports(reports, now) == Seen(now, 1.0, 0.2, pytest.approx(0.2))
    assert of_reports(Window(), now) == Seen(now, None)


def test_nothing_is_worth_a_try_without_a_candidate() -> None:
    nothing: tuple[Considered, ...] = ()
    assert chosen(nothing) is None
