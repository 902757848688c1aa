"""The benchmarks of the elastic planner: what they compare with, when they refuse, and their simulated training."""

import sys
from typing import Any

import numpy as np
import pytest

from controlplane.benchmarks.harness.figure import BenchmarkError
from controlplane.benchmarks.training import againstsia, elasticity
from controlplane.benchmarks.training.clusters import nodes_of
from controlplane.benchmarks.training.jobs import Job
from controlplane.benchmarks.training.rounds import NODES, Told, is_feasible
from controlplane.benchmarks.training.tables import Application, Convergence, Submitted


def test_the_planner_is_near_the_best_plan_of_a_cluster_too_large_to_be_solved_exactly() -> None:
    ratio, from_one_gpu, is_proved = elasticity.compared(elasticity.drawn_problem(1))

    assert is_proved
    assert 0.99 <= from_one_gpu <= ratio <= 1.0


def test_the_drawn_instances_are_those_of_the_promise() -> None:
    asked = elasticity.drawn_problem(2)

    assert len(asked.utility) == 200
    assert (asked.room.sum(), len(asked.room)) == (512, 3)
    assert np.isfinite(asked.utility).sum(axis=1).max() <= 20
    assert np.isfinite(asked.utility).sum(axis=1).min() >= 1


def test_without_scipy_the_benchmark_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)

    with pytest.raises(BenchmarkError, match="scipy is missing, .* install the extra dev"):
        elasticity.highs(elasticity.drawn_problem(1))


@pytest.mark.parametrize(
    ("plan", "is_sound"),
    [
        ({"a": [(("aws", 0), 4)]}, True),
        ({"a": [(("aws", 0), 5)]}, False),  # a node has 4
        ({"a": [(("aws", 0), 4), (("aws", 1), 4)]}, False),  # its limit is 4
        ({"a": [(("aws", 0), 2), (("rtx", 0), 2)]}, False),  # of two types
        ({"a": [(("aws", 0), 3)], "b": [(("aws", 0), 2)]}, False),  # too many together
        ({"c": [(("aws", 0), 1)]}, False),  # there is no such job
        ({"a": [(("aws", 6), 1)]}, False),  # there is no such node
    ],
)
def test_a_plan_that_asks_for_what_is_not_there_is_counted(plan: dict[str, Any], *, is_sound: bool) -> None:
    room = {row["id"]: row["gpus"] for row in nodes_of(NODES)}
    jobs = [{"id": name, "max_gpus": dict.fromkeys(NODES, 4)} for name in ("a", "b")]

    assert is_feasible(plan, jobs, room) is is_sound


def training(epochs: int = 3) -> Job:
    """One that gains by large batches: a step takes 1 s whatever its batch, and noise makes examples count in full."""
    batches = np.array([8.0, 64.0])
    times = np.array([[1.0, 0.0], [1.0, 0.0]])
    empty = np.zeros((0, 3))
    ones = np.ones((2, epochs))
    convergence = Convergence((8, 64), np.arange(1.0, epochs + 1) * 2000, ones * 1e-6, ones * 1e3, epochs)
    application = Application(
        "cifar10", convergence, 50.0, {(1,): (batches, times)}, empty, np.zeros((0, 2)), empty, 64
    )
    return Job(Submitted("cifar10-0", "cifar10", 0.0, 1, 64), {"aws": application})


def test_a_simulated_training_chooses_its_batch_anew_after_each_round() -> None:
    job = training()
    job.place("aws", (1,))
    before = job.local * (job.passes + 1)
    job.run(0.0, 60.0)

    assert job.epoch == 0  # its first epoch goes on
    assert job.local * (job.passes + 1) > before


def test_a_start_takes_its_time_and_only_later_ones_count_as_restarts() -> None:
    job = training()
    job.place("aws", (1,))
    job.run(0.0, 50.0)

    assert (job.progress, job.restarts, job.restarting) == (0.0, 0, 0.0)
    job.run(50.0, 10.0)
    assert job.progress > 0
    assert not job.place("aws", (1,))  # another node of the same shape costs nothing
    assert job.place(None, ()) is False
    assert job.place("aws", (1,))
    assert job.restarts == 1


def told(mean_hours: float) -> Told:
    return Told({"a": mean_hours * 3600}, {"a": 2}, {"a": 3600.0}, makespan=mean_hours * 3600)


def simulations(sia_off: float) -> dict[tuple[str, str, int], Told]:
    """As if we were a tenth quicker than Sia's own simulator, and Sia slower in ours by so much."""
    found: dict[tuple[str, str, int], Told] = {}
    for case, (mean, _, _) in againstsia.PUBLISHED.items():
        found["sia", *case] = told(mean * (1 + sia_off))
        found["ours", *case] = found["no history", *case] = told(mean * 0.9)
    return found


def test_figures_against_sia_are_taken_to_the_better_of_its_two() -> None:
    slower, quicker = (againstsia.judged(simulations(off), ()).figures[0].value for off in (0.02, -0.02))

    assert slower == pytest.approx(0.9, abs=0.0011)
    assert quicker == pytest.approx(0.9 / 0.98, abs=0.0011)


def test_there_are_no_figures_while_the_simulated_sia_is_not_sia() -> None:
    with pytest.raises(BenchmarkError, match=r"The simulator is not Sia's: .* philly 1 is 0\.532 h, here 0\.55"):
        againstsia.judged(simulations(0.04), ())
