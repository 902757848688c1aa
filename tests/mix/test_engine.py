"""The mix in small worlds: what each policy does there, as text, and what must hold under all of them."""

from dataclasses import replace

import numpy as np
import pytest

from controlplane.benchmarks.mix import jobs
from controlplane.benchmarks.mix.engine import play
from controlplane.benchmarks.mix.policies import OURS, POLICIES, make_way
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import Assignment, Gang, Kind, Phase, Workload
from tests.mix.made import Watched, told, training, world


def test_under_native_kubernetes_two_halves_of_trainings_block_each_other_until_the_younger_is_killed() -> None:
    text, outcome = told("native", world([training("t0"), training("t1")], notebooks=10))
    assert outcome.kills == 1
    assert text == "t0 5-11, t1 11-17"


def test_with_coscheduling_the_first_starts_at_once_and_nothing_is_killed() -> None:
    text, outcome = told("gang", world([training("t0"), training("t1")], notebooks=10))
    assert outcome.kills == 0
    assert text == "t0 0-6, t1 6-12"


def test_kube_scheduler_spreads_what_binpack_puts_on_one_node() -> None:
    spread = told("gang", world([training("t0", work=900.0)], notebooks=8))[1]
    packed = told("binpack", world([training("t0", work=900.0)], notebooks=8))[1]
    assert spread.makespan - packed.makespan == pytest.approx(900.0 * (1 / 0.888 - 1), abs=30.0)


def test_one_that_does_not_fit_is_skipped_by_a_smaller_one() -> None:
    mix = world([training("t0", work=900.0), training("t1"), training("t2", workers=1)], notebooks=9)
    outcome = told("binpack", mix)[1]
    assert outcome.waited["t2"] < 120.0
    assert outcome.waited["t1"] > 600.0


@pytest.mark.parametrize("name", ["dragon", "ours"])
def test_an_elastic_training_gives_workers_to_one_that_waits(name: str) -> None:
    mix = world([training("t0", work=1500.0), training("t1", at=700.0)], notebooks=10)
    outcome = told(name, mix)[1]
    assert outcome.waited["t1"] < 200.0
    assert told("gang", mix)[1].waited["t1"] > 900.0


def test_notebooks_that_share_leave_four_gpus_more_to_trainings() -> None:
    mix = world([training(f"t{n}", work=600.0) for n in range(4)], notebooks=8)
    alone, shared = told("binpack", mix)[1], told("binpack, pool", mix)[1]
    assert (len(set(alone.places.values())), len(set(shared.places.values()))) == (8, 4)
    assert shared.makespan < 0.7 * alone.makespan


def test_the_newest_training_leaves_whole_for_a_replica_without_room_and_notebooks_that_share_count_once() -> None:
    nodes, teams, quotas = jobs.cluster()

    def held(uid: str, kind: Kind, places: list[tuple[str, int]], count: int, started: float = 0.0) -> Workload:
        placement = tuple(Assignment(rank, node, (gpu,)) for rank, (node, gpu) in enumerate(places))
        return Workload(
            uid, uid, "lab", kind, jobs.ASK_TRAINING, Gang(count, 1, count), phase=Phase.RUNNING, placement=placement,
            started_at=started, attempt=1,
        )  # fmt: skip

    service = held("service", Kind.INFERENCE, [("n0", n) for n in range(4)], 5)
    old = held("old", Kind.TRAINING, [("n1", n) for n in range(4)], 4, 10.0)
    new = held("new", Kind.TRAINING, [("n2", n) for n in range(4)], 4, 20.0)
    others = [held(f"notebook-{n}", Kind.NOTEBOOK, [("n3", n // 2)], 1) for n in range(4)]
    seen = Snapshot.build(100.0, nodes, teams, quotas, [service, old, new, *others])
    assert make_way(seen, ()) == []  # two GPUs of n3 are free
    full = held("full", Kind.NOTEBOOK, [("n3", 2), ("n3", 3)], 2)
    seen = Snapshot.build(100.0, nodes, teams, quotas, [service, old, new, *others, full])
    assert [decision.workload for decision in make_way(seen, ())] == ["new"]


@pytest.mark.parametrize("name", [name for name in POLICIES if "partial" not in name])
def test_no_gpu_is_held_twice_and_all_work_is_done(name: str) -> None:
    mix = world([training(f"t{n}", at=300.0 + 60 * (n // 2), work=400.0) for n in range(5)], notebooks=8)
    outcome = told(name, mix)[1]
    assert len(outcome.jct) == 5
    assert all(0 < seconds < 1e5 for seconds in outcome.jct.values())


def test_the_check_says_what_is_held_twice() -> None:
    nodes, teams, quotas = jobs.cluster()
    twice = [
        Workload(
            uid,
            uid,
            "lab",
            Kind.TRAINING,
            jobs.ASK_TRAINING,
            phase=Phase.RUNNING,
            placement=(Assignment(0, "n0", (1,)),),
        )
        for uid in ("a", "b")
    ]
    with pytest.raises(AssertionError, match="held twice at 7 s"):
        jobs.check(Snapshot.build(7.0, nodes, teams, quotas, twice))


@pytest.mark.parametrize("name", ["native", "ours", "ours, planner"])
def test_the_same_seed_gives_the_same_result(name: str) -> None:
    mix = world([training("t0"), training("t1", work=500.0)], notebooks=8, seed=3)
    assert told(name, mix)[1] == told(name, mix)[1]


@pytest.mark.parametrize("name", ["ours", "ours, harvest", "ours, planner", "edragon", "native"])
def test_what_decides_never_reads_how_fast_a_training_is(name: str) -> None:
    outcome = told(name, world([training(f"t{n}", speed=Watched()) for n in range(3)], notebooks=8))[1]
    assert set(outcome.waited) == {"t0", "t1", "t2"}, "to its end, with a table that fails whoever decides and asks it"


def test_trainings_end_sooner_where_they_compute_beside_notebooks_and_no_cell_pays_for_it() -> None:
    mix = world([training(f"t{n}", work=2000.0) for n in range(12)], notebooks=8, seed=3)
    plain, harvest = told("ours, on demand", mix)[1], told("ours, harvest", mix)[1]
    assert harvest.makespan < 0.95 * plain.makespan
    assert harvest.cells is not None
    assert plain.cells is not None
    assert np.mean(harvest.cells.slowed) < 1.05 * np.mean(plain.cells.slowed)


def test_a_policy_that_reads_it_fails() -> None:
    mix = world([training("t0", speed=Watched())], notebooks=8)

    class Cheat:
        """Ours, with the truth in place of what is told."""

    cheat = replace(OURS, is_planned=True)
    one = mix.trainings[0]
    estimate = _Reads(one.speed)
    with pytest.raises(AssertionError, match="read how fast"):
        play(replace(mix, trainings=(replace(one, estimate=estimate),)), cheat)


class _Reads(dict[tuple[int, int], float]):
    """What is told of a training, read from the truth each time."""

    def __init__(self, speed: object) -> None:
        super().__init__({(1, 2): 1.0, (2, 3): 1.0})
        self.speed = speed

    def get(self, key: tuple[int, int], default: object = None) -> float:  # type: ignore[override]
        del default
        return float(self.speed.of((key[1],)))  # type: ignore[attr-defined]

    def __getitem__(self, key: tuple[int, int]) -> float:
        return 1.0
