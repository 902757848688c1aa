"""The simulated cluster of like GPUs, and the policies that the planner is compared with there."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from controlplane.benchmarks.harness.figure import BenchmarkError
from controlplane.benchmarks.training import nearchuscluster, published
from controlplane.benchmarks.training.classics import Fifo, Optimus, Sized, Tiresias, emptiest, packed, spread
from controlplane.benchmarks.training.cluster16 import GPU_TYPE, Outcome, Policy, Rules, simulate
from controlplane.benchmarks.training.elasticpolicy import Elastic
from controlplane.benchmarks.training.nearchuscluster import FIXED, FORGETFUL, FREE, HALF, SETTINGS, TIRESIAS, Summary
from controlplane.benchmarks.training.rounds import Plan
from controlplane.benchmarks.training.trainings import Asked, Library, Seen, Training
from tests.controlplane.smallcluster import Guarded, Stopwatch, application, guarded, jobs_of, submitted


def played(policy: Policy, count: int = 50, rules: Rules | None = None, seed: int = 0, **more: Any) -> Outcome:
    """So many trainings of two GPUs, one each half minute."""
    asked = [Asked(submitted(f"a-{number}", at=number * 30.0, gpus=2), **more) for number in range(count)]
    return simulate(asked, {"cifar10": application()}, policy, rules, seed)


@pytest.mark.parametrize("name", SETTINGS)
def test_all_work_that_was_asked_is_done_and_no_plan_asks_for_what_is_not_there(name: str) -> None:
    setting = SETTINGS[name]
    told = played(setting.policy(), rules=setting.rules, is_free=setting.free > 0)

    assert told.done == told.asked
    assert set(told.jct) == {f"a-{number}" for number in range(50)}
    assert told.infeasible == 0


@pytest.mark.parametrize("name", SETTINGS)
def test_the_same_seed_gives_the_same_course(name: str) -> None:
    setting = SETTINGS[name]
    first, again = (played(setting.policy(), 20, setting.rules, 3, is_free=setting.free > 0) for _ in range(2))

    assert first == again


def test_another_seed_is_another_course_for_those_who_ask_how_fast_it_would_be() -> None:
    first, other = (played(SETTINGS[FREE].policy(), 20, SETTINGS[FREE].rules, seed, is_free=True) for seed in (3, 4))

    assert first.jct != other.jct


@pytest.mark.parametrize("name", SETTINGS)
def test_no_policy_reads_a_table(name: str) -> None:
    told, guard = guarded(SETTINGS[name])

    assert len(told.jct) == 20
    assert guard.plans > 0
    assert guard.reads == 0


def test_a_policy_that_read_a_table_would_be_found() -> None:
    guard = Guarded.watch()

    class Cheat:
        """Asks the table how fast a training would be."""

        def plan(self, now: float, jobs: Sequence[Mapping[str, Any]], current: Plan) -> Plan:
            guard.application.times_of((1,), 8)
            return {job["id"]: [((GPU_TYPE, 0), 1)] for job in jobs[:1]}

        event = plan

    simulate([Asked(submitted("a"))], {"cifar10": guard.application}, guard.of(Cheat()))
    assert guard.reads > 0


def test_spread_gives_each_worker_to_the_emptiest_node() -> None:
    assert spread(4, [4, 4, 4, 4]) == [(0, 1), (1, 1), (2, 1), (3, 1)]
    assert spread(3, [1, 4, 3]) == [(1, 2), (2, 1)]  # of two that are as empty the first


def test_packed_takes_the_fullest_node_that_holds_it_and_else_few_nodes() -> None:
    assert packed(2, [4, 2, 3]) == [(1, 2)]
    assert packed(6, [1, 4, 3]) == emptiest(6, [1, 4, 3]) == [(1, 4), (2, 2)]


def test_fifo_passes_over_what_does_not_fit_and_stops_nobody() -> None:
    jobs = jobs_of("""
        a 60
        b 8
        c 4
    """)

    assert Fifo().sizes(jobs, {}) == {"a": 60, "c": 4}
    assert Fifo().sizes(jobs, {"c": 4}) == {"c": 4, "a": 60}
    assert Fifo().sizes(jobs, {"b": 8, "c": 4}) == {"b": 8, "c": 4}


def test_tiresias_stops_what_held_much_for_what_held_less() -> None:
    jobs = jobs_of("""
        a 60 held 57600
        b 8  held 57599
        c 4
    """)

    assert Tiresias().sizes(jobs, {"a": 60, "c": 4}) == {"b": 8, "c": 4}


def test_tiresias_keeps_the_order_in_which_trainings_came_to_its_second_queue() -> None:
    tiresias = Tiresias()
    tiresias.sizes(jobs_of("a 40\nb 40 held 60000"), {})

    assert tiresias.sizes(jobs_of("a 40 held 90000\nb 40 held 60000"), {}) == {"b": 40}


def test_optimus_gives_each_a_gpu_and_the_rest_where_most_time_is_saved() -> None:
    jobs = jobs_of("""
        long  1 remaining 1000
        short 1 remaining 1
    """)

    assert Optimus(is_spread=False).sizes(jobs, {}) == {"short": 2, "long": 62}


def test_optimus_acts_at_its_interval_only() -> None:
    told = played(Sized(Optimus(is_spread=False), spread), 10, Rules(tick=600.0, is_profiled=True))

    # The first came at 0, when it acts, the others 30 s after each other.
    assert list(told.queued.values()) == [0.0, *(600.0 - 30 * number for number in range(1, 10))]


def test_a_move_to_other_nodes_is_a_start() -> None:
    class Mover:
        """From node to node."""

        def plan(self, now: float, jobs: Sequence[Mapping[str, Any]], current: Plan) -> Plan:
            return {job["id"]: [((GPU_TYPE, int(now // 60) % 2), 1)] for job in jobs}

        def event(self, now: float, jobs: Sequence[Mapping[str, Any]], current: Plan) -> Plan:
            return current

    told = simulate([Asked(submitted("a"))], {"cifar10": application(restart=1.0)}, Mover())
    assert told.restarts["a"] == int(told.jct["a"] // 60)


def test_a_start_takes_its_time_and_a_wait_is_counted() -> None:
    told = simulate([Asked(submitted("a"))], {"cifar10": application(restart=50.0)}, Stopwatch(120.0))

    assert told.queued["a"] == told.idle["a"] == 120.0
    # 64 examples a step of 1 s count in full: 8 steps of the least batch. Two passes, as it is one GPU.
    assert told.jct["a"] == pytest.approx(120 + 50 + 600 / 8 * 2, abs=1e-3)


def test_what_is_told_of_step_times_has_an_error_and_the_truth_has_none() -> None:
    errors = []
    for seed in range(200):
        seen = Seen(8, 64, (8, 64), 64, False, np.random.default_rng(seed))
        seen.step((1, 1, 8), 2.0, 0.5)
        errors.append(np.log(seen.points[1, 1, 8][0] / 2.0))

    assert np.std(errors) == pytest.approx(0.1, rel=0.2)


def test_trainings_of_a_model_lend_each_other_what_they_saw() -> None:
    library = Library()
    first = Seen(8, 64, (8, 64), 64, False, np.random.default_rng(0), 0.0, library=library)
    first.step((1, 1, 8), 1.0, 0.0)
    first.gradients(1.0, 10.0)
    second = Seen(8, 64, (8, 64), 64, False, np.random.default_rng(1), 0.0, library=library)

    assert second.expected() is None
    second.borrow()
    assert second.expected() is not None


def test_the_planner_starts_what_comes_on_free_gpus_and_touches_nobody_before_its_tick() -> None:
    elastic = Elastic()
    (old,) = jobs_of("old 1")
    held: Plan = {"old": [((GPU_TYPE, 0), 4)]}
    found = elastic.event(10.0, [old, *jobs_of("new 1")], held)

    assert found["old"] == held["old"]
    assert sum(gpus for _, gpus in found["new"]) >= 1


def test_the_simulator_has_to_be_that_of_pollux() -> None:
    assert published.compared("tiresias", 1, 2600.0, 2474.0) == "tiresias 2600 s, published 2474 s"
    with pytest.raises(BenchmarkError, match="The simulator is not Pollux': .* tiresias on workload 1 is 2474 s there"):
        published.compared("tiresias", 1, 2900.0, 2474.0)


def summaries(ours: float) -> dict[tuple[str, nearchuscluster.Case], Summary]:
    """All others need 1000 s and make wait for 100 s; ours so long, and a tenth of the wait."""
    return {
        (name, case): Summary(ours, 10.0, 10.0, 2.0, 0)
        if name in (FREE, FORGETFUL, HALF, FIXED)
        else Summary(1000.0, 100.0, 20.0, 0.0, 0)
        for name in SETTINGS
        for case in nearchuscluster.CASES
    }


def test_figures_are_low_ends_over_the_workloads() -> None:
    found = {
        one.name.removeprefix("nearchus."): one
        for one in nearchuscluster.judged(summaries(600.0), nearchuscluster.CASES).figures
    }

    assert found["jct_tiresias_percent_ci_low"].value == pytest.approx(40.0, abs=0.11)
    assert found["jct_tiresias_percent_ci_low"].met
    assert not found["jct_optimus_percent_ci_low"].met
    assert found["jct_batch_fixed_percent"].value == pytest.approx(40.0, abs=0.11)
    assert found["queue_percent_ci_low"].value == pytest.approx(90.0, abs=0.11)  # all without GPUs: too short to count
    assert found["restarts_per_job"].value == 2.0


def test_a_short_wait_is_not_compared_with() -> None:
    told = summaries(600.0)

    assert len(nearchuscluster.waits(told, nearchuscluster.CASES, FREE, TIRESIAS, is_idle=True)) == 0
    assert len(nearchuscluster.waits(told, nearchuscluster.CASES, FREE, TIRESIAS, is_idle=False)) == 25


def test_a_training_that_is_placed_is_played_only_to_where_something_happens() -> None:
    app = application()
    seen = Seen(8, 64, (8, 64), 64, False, np.random.default_rng(0), 0.0)
    job = Training(Asked(submitted("a")), app, seen, 50.0, 0.0)
    job.place(0.0, (1,))

    assert job.due == 50.0 + 15.0  # its first report
    job.look()
    assert seen.points
    assert job.due == pytest.approx(50.0 + 200 / 8 * 2)  # the end of its first epoch
