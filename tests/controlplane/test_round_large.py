"""What `round` and `round-large` measure with: the load, the cluster without pods, and the figures of small runs."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from controlplane.benchmarks.harness.figure import BenchmarkError, Options
from controlplane.benchmarks.harness.registry import BENCHMARKS
from controlplane.benchmarks.large import again, load, measure
from controlplane.benchmarks.scheduling import roundload
from controlplane.benchmarks.scheduling.podless import Podless
from controlplane.benchmarks.scheduling.roundload import Load
from controlplane.cluster.port import PodPhase, PodSpec
from controlplane.models import PolicyVersion, Workload
from controlplane.services.scheduling import policy
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Node
from scheduler.state import passes

SIZE = {"nodes": 40, "count": 2, "seed": 0}


def spec(uid: str, rank: int = 0) -> PodSpec:
    return PodSpec(uid, 1, rank, 1, "a", (rank,), 1000, 0, 1, 1, "team", {})


@pytest.fixture
def cluster() -> Iterator[Podless]:
    made = Podless([Node("a", "p", "A100", 8, 1, 1, 1)])
    made.start([spec("x"), spec("x", 1), spec("y")])
    yield made


def seen(cluster: Podless, cursor: str | None) -> tuple[str, dict[tuple[str, int], PodPhase]]:
    observation = cluster.observe(cursor)
    return observation.cursor, {(pod.workload, pod.rank): pod.phase for pod in observation.pods}


def test_a_cluster_without_pods_tells_each_change_once_and_everything_that_runs_when_asked(cluster: Podless) -> None:
    cursor, first = seen(cluster, None)
    assert first == {("x", 0): PodPhase.RUNNING, ("x", 1): PodPhase.RUNNING, ("y", 0): PodPhase.RUNNING}
    cluster.finish({"x"})
    cursor, changes = seen(cluster, cursor)
    assert changes == {("x", 0): PodPhase.SUCCEEDED, ("x", 1): PodPhase.SUCCEEDED}
    assert seen(cluster, cursor) == (cursor, {})
    assert seen(cluster, None)[1] == {("y", 0): PodPhase.RUNNING}


def test_what_ended_since_it_was_asked_last_is_in_a_full_observation_too(cluster: Podless) -> None:
    seen(cluster, None)
    cluster.stop("y", 1, [0], 0.0)
    assert seen(cluster, None)[1]["y", 0] is PodPhase.GONE
    cluster.finish({"y"})
    assert ("y", 0) not in seen(cluster, None)[1]


def test_what_another_process_started_runs_on_and_can_end(cluster: Podless) -> None:
    other = Podless([])
    other.resume(cluster.observe(None).pods)
    other.start([spec("y")])  # commanded once more
    cursor, first = seen(other, None)
    assert len(first) == 3
    other.finish({"y"})
    assert seen(other, cursor)[1] == {("y", 0): PodPhase.SUCCEEDED}


def test_the_large_load_is_that_of_round_but_for_the_models_it_names() -> None:
    plain, named = Load(3), load.Models(3)
    pairs = [(plain.job(), named.job()) for _ in range(100)]
    models = [two.resources.models for _, two in pairs]
    for one, two in pairs:
        assert (one.team, one.priority_class, one.workers) == (two.team, two.priority_class, two.workers)
        assert one.resources == replace(two.resources, models=())
    assert 20 < models.count(("A100",)) < 60
    assert 20 < models.count(("H100",)) < 60
    assert 5 < models.count(()) < 40


def test_without_shares_the_load_is_the_same_but_for_whole_gpus_in_their_place() -> None:
    mixed, whole = Load(3), Load(3, is_whole=True)
    pairs = [(mixed.job(), whole.job()) for _ in range(100)]
    assert sum(one.resources.share is not None for one, _ in pairs) > 5
    for one, two in pairs:
        assert (one.team, one.priority_class, one.workers) == (two.team, two.priority_class, two.workers)
        assert two.resources == (one.resources if one.resources.share is None else replace(two.resources, gpus=1))
        assert two.resources.share is None


@pytest.mark.django_db(transaction=True)
def test_rounds_without_shares_are_timed_as_those_with_them() -> None:
    found = roundload.measure_whole({"nodes": 40, "count": 2, "seed": 0})
    assert len(found["cpu"]) == 2
    assert min(found["cpu"]) > 0
    assert not Workload.objects.exclude(gpus__gte=1).exists()


def test_every_team_owns_a_part_of_both_pools_and_all_of_them_together_no_more_than_there_is() -> None:
    made = load.preset(1250)
    for pool in load.POOLS:
        there = sum(node.gpus for node in made.nodes if node.pool == pool.name) * 1000
        quotas = [quota for quota in made.quotas if quota.pool == pool.name]
        assert len(quotas) == 200
        assert there * 0.99 < sum(quota.nominal for quota in quotas) <= there
        assert all(quota.borrowing == quota.nominal > 0 for quota in quotas)


@pytest.mark.django_db(transaction=True)
def test_one_process_fills_the_cluster_and_another_takes_over_and_decides() -> None:
    filled = load.fill(SIZE)
    assert filled["running"] > 100
    assert filled["waiting"] > 0
    assert policy.current()[0].scheduling == Settings()
    assert PolicyVersion.objects.count() == 2
    found = load.decide(SIZE)
    assert abs(found["running"] - filled["running"]) < 20
    assert found["takeover"]["changes"] >= 1
    for name in ("rounds", "slow", "events"):
        assert len(found[name]["seconds"]) == SIZE["count"]
        assert all(cpu > 0 for cpu in found[name]["cpu_seconds"])
    assert sum(found["events"]["placed"]) > 0
    decided_again = again.decide_again({})
    passes.load()
    assert decided_again["rounds"] >= 4
    assert decided_again["decisions"] > 0
    assert (decided_again["different"], decided_again["other_inputs"]) == (0, 0)
    found["again"] = decided_again
    result = measure.result(measure.LARGE, found, found)
    ratio = next(figure for figure in result.figures if figure.name == "round.cpu_ratio_large_to_small")
    assert (ratio.value, ratio.goal) == (1.0, 5.0)
    assert any("events: 2 rounds" in note for note in result.notes)


@pytest.mark.parametrize("name", ["round", "round-large"])
def test_a_size_at_which_teams_own_next_to_nothing_is_refused(name: str) -> None:
    with pytest.raises(BenchmarkError, match="a multiple of 40, 5000 or more"):
        BENCHMARKS[name](Options(load.__file__, gpus=4000), lambda part, text: None)  # type: ignore[arg-type]


def test_figures_at_another_size_have_no_goal() -> None:
    took = {"seconds": [1.0], "cpu_seconds": [0.5], "changes": [3], "placed": [1]}
    found = {"running": 1, "waiting": 1, "mib": 1.0, "rounds": took, "slow": took, "events": took} | {
        "takeover": {"seconds": 1.0, "cpu_seconds": 1.0, "changes": 1, "placed": 1},
        "again": {"rounds": 1, "different": 0, "other_inputs": 0, "decisions": 1, "seconds": 1.0},
    }
    assert {figure.goal for figure in measure.result(20_000, found, found).figures} == {None}
