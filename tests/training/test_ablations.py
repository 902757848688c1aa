"""Our policy with a part left out: that part, and nothing else."""

from dataclasses import replace

import numpy as np

from autoscaler.elasticity.constants import LIKE
from autoscaler.elasticity.knapsack import Problem
from controlplane.benchmarks.baselines import ablations
from controlplane.benchmarks.baselines.ablations import Retold, Reworked, Scattered, TicksOnly
from controlplane.benchmarks.baselines.measure import mean, ratios
from controlplane.benchmarks.training.cluster16 import GPU_TYPE, Outcome, Policy, Rules, simulate
from controlplane.benchmarks.training.elasticpolicy import Elastic
from controlplane.benchmarks.training.nearchuscluster import Summary
from controlplane.benchmarks.training.trainings import Asked
from tests.controlplane.smallcluster import application, jobs_of, submitted


def played(policy: Policy, every: float = 25.0) -> Outcome:
    """60 trainings that ask for two GPUs, one each so many s; every third is long, so that what is left counts."""
    one, apps = submitted("a", gpus=2), {"cifar10": application(), "bert": application(epochs=15)}
    asked = [
        Asked(replace(one, name=f"a-{number}", at=number * every, model="cifar10" if number % 3 else "bert"), True)
        for number in range(60)
    ]
    return simulate(asked, apps, policy, Rules(is_lent=True))


def test_what_is_reworked_by_nothing_is_our_planner() -> None:
    assert played(Reworked(lambda asked, _: asked), 8.0) == played(Elastic(), 8.0)


def test_what_is_told_as_it_is_is_our_policy() -> None:
    assert played(Retold(lambda job: job)) == played(Elastic())


def test_without_the_weight_by_remaining_work_and_without_a_gpu_for_all_first_plans_are_others() -> None:
    asked = Problem(
        np.array([[0.0, 3.0], [0.0, 1.5]]),
        np.array([-104.0, -102.0]),
        np.array([1, 2]),
        np.zeros(2, int),
        np.array([9]),
    )
    weight = np.array([2.0, 1.0])
    alike = ablations.unweighted(asked, weight)

    np.testing.assert_allclose(alike.utility, [[0.0, 1.5], [0.0, 1.5]])
    np.testing.assert_allclose(alike.unserved, [-102.0, -102.0])
    np.testing.assert_allclose(ablations.greedy(asked, weight).unserved, [-4.0, -2.0])
    assert LIKE.served_first == 100.0


def test_within_the_request_nobody_has_more_and_our_policy_would_give_it() -> None:
    (job,), held = jobs_of("a 2"), {"a": [((GPU_TYPE, 0), 2)]}
    sizes = []
    for policy in (Retold(ablations.within_request), Elastic()):
        policy.plan(0.0, [job], held)
        plan = policy.plan(100.0, [job], held)  # it does not grow soon after a change
        sizes.append(sum(gpus for _, gpus in plan["a"]))

    assert sizes[0] == 2 < sizes[1]


def test_restarts_that_count_as_free_still_take_their_time() -> None:
    (job,) = jobs_of("a 2")

    assert ablations.without_restarts(job) == {**job, "restart_cost_s": 0.0}
    told = played(Retold(ablations.without_restarts))
    assert min(told.jct.values()) > application().restart_seconds


def test_without_starts_between_plans_what_comes_waits_for_the_next_one() -> None:
    assert set(played(TicksOnly()).queued.values()) == {
        0.0,
        35.0,
        10.0,
        45.0,
        20.0,
        55.0,
        30.0,
        5.0,
        40.0,
        15.0,
        50.0,
        25.0,
    }
    assert set(played(Elastic()).queued.values()) == {0.0}


def test_without_locality_sizes_are_ours_and_each_worker_is_on_the_emptiest_node() -> None:
    jobs = jobs_of("a 4\nb 4")
    new = [{**job, "goodput": {GPU_TYPE: None}} for job in jobs]
    scattered, ours = Scattered(), Elastic()
    plan = scattered.plan(100.0, jobs, scattered.plan(0.0, new, {}))
    meant = ours.plan(100.0, jobs, ours.plan(0.0, new, {}))
    sizes = [{name: sum(gpus for _, gpus in parts) for name, parts in one.items()} for one in (plan, meant)]

    assert sizes[0] == sizes[1] == {"a": 4, "b": 4}
    assert {gpus for parts in plan.values() for _, gpus in parts} == {1}
    assert {gpus for parts in meant.values() for _, gpus in parts} == {4}
    assert scattered.event(110.0, jobs, plan) == plan


def test_means_are_of_seeds_and_ratios_of_workloads() -> None:
    one, two = Summary(100.0, 10.0, 12.0, 1.0, 1), Summary(300.0, 30.0, 36.0, 3.0, 2)

    assert mean([one, two]) == Summary(200.0, 20.0, 24.0, 2.0, 3)
    told = {("a", ("philly", 1)): two, ("b", ("philly", 1)): one}
    assert ratios(told, [("philly", 1)], "a", "b") == [3.0]
