"""Long runs of core and simulated cluster with faults: no invariant breaks, and everything that can happen does."""

import secrets
from collections import Counter
from dataclasses import replace

import pytest

from controlplane.simulator.chaos.__main__ import main
from controlplane.simulator.chaos.run import InvariantBroken, Parts, Runner, World
from controlplane.simulator.worlds.mix import nodes
from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Decision, Place
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from tests.invariants.runs import SMALL
from tests.thoroughness import at_least

MOST_SEEDS = 8
CI_SEEDS = 4  # all eight, 10^5 events, in `make nightly`: four more would take a sixth of CI's time
SEEDS = tuple(range(101, 101 + at_least(CI_SEEDS, 2)))
AT_NIGHT = tuple(range(101 + CI_SEEDS, 101 + MOST_SEEDS))
EVENTS = 12_500  # of each seed
KINDS = (
    "Place",
    "Place after",
    "Evict Preempted",
    "Evict Reclaimed",
    "Shrink",
    "Wait",
    "Scale",
    "Wake",
    "Sleep",
)
# What a seed may have once or ten times: counted over all seeds, and once at least in fewer.
RARE = {"Lend": 20, "taken back": 15, "Start on lent": 5, "Offload": 20}


@pytest.fixture(scope="module")
def counts() -> dict[int, Counter[str]]:
    """What happened in each run, for the test that counts over all of them."""
    return {}


def happened(seed: int, counts: dict[int, Counter[str]]) -> Counter[str]:
    """What happens in a world of 512 GPUs with this seed; run once."""
    if seed not in counts:
        runner = Runner(seed)
        snapshot = runner.store.snapshot
        assert (len(snapshot.inventory.nodes), int(snapshot.inventory.offset[-1])) == (64, 512)
        counts[seed] = runner.run(EVENTS)
        assert runner.events == EVENTS
        # A start on a device that is lost counts too.
        assert runner.cluster.overcommits <= counts[seed]["gpu_is_lost"] * 8
    return counts[seed]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_no_invariant_breaks_in_a_world_of_512_gpus(seed: int, counts: dict[int, Counter[str]]):
    assert happened(seed, counts)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", AT_NIGHT)
def test_no_invariant_breaks_in_more_such_worlds(seed: int):
    assert happened(seed, {})


@pytest.mark.slow
@pytest.mark.timeout(1800)  # by itself it makes all of the runs
def test_every_kind_of_decision_and_fault_happened_a_hundred_times(counts: dict[int, Counter[str]]):
    """Of eight seeds together; of fewer, in proportion, and once where it is rare."""
    total = sum((happened(seed, counts) for seed in SEEDS), Counter[str]())
    times = len(SEEDS) / MOST_SEEDS
    assert {kind: total[kind] for kind in KINDS if total[kind] < 100 * times} == {}
    few = {kind: total[kind] for kind, least in RARE.items() if total[kind] < (least if times == 1 else 1)}
    assert few == {}
    assert total["node_is_lost"] >= 50 * times
    assert total["gpu_is_lost"] >= 50 * times
    assert total["leader_changes"] >= 100 * times


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(8))
def test_a_million_events_of_fresh_seeds_break_nothing(part: int):
    seed = secrets.randbits(31)  # a failure names it, and `python -m controlplane.simulator.chaos` replays it
    runner = Runner(seed)
    runner.run(125_000)
    assert runner.events == 125_000


def test_a_seed_gives_the_same_run_however_it_is_cut():
    whole, parts = Runner(5, World(**SMALL)), Runner(5, World(**SMALL))
    whole.run(600)
    for _ in range(6):
        parts.run(100)
    assert whole.counts == parts.counts
    assert whole.store.snapshot.workloads == parts.store.snapshot.workloads


def test_a_failure_names_its_seed_and_replays():
    def impatient(snapshot: Snapshot, settings: Settings) -> tuple[Decision, ...]:
        """Places gangs without their last worker."""
        return tuple(
            replace(d, workers=d.workers[:-1]) if isinstance(d, Place) and len(d.workers) > 1 else d
            for d in schedule(snapshot, settings)
        )

    told = []
    for _ in range(2):
        with pytest.raises(InvariantBroken) as broken:
            Runner(9, World(**SMALL), Parts(schedule=impatient)).run(5000)
        told.append(str(broken.value))
    assert told[0] == told[1]
    assert told[0].startswith("seed 9, event ")
    assert "decide: Place" in told[0]


def test_the_night_run_is_one_command(capsys: pytest.CaptureFixture[str]):
    assert main(["--seed", "3", "--events", "200", "--nodes", "8", "--gpus", "4"]) == 0
    assert "seed 3: 200 events" in capsys.readouterr().out


def test_worlds_have_the_size_asked_for():
    assert sum(n.gpus for n in nodes(6, 2)) == 12
