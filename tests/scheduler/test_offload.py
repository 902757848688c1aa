"""Weights of sleeping replicas wait in host memory while a gang needs the whole device: when, where, and back again."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Offload, Place
from scheduler.model.partial_cycle import PartialCycle
from scheduler.model.settings import Settings
from scheduler.model.snapshot import FUTURE_IDLE, IDLE, MEMORY, Snapshot
from scheduler.model.workload import Phase, Weights
from tests.strategies import worlds_with_standby
from tests.worlds import moves, parse

RULES = Settings()
# Two replicas on standby whose model takes half of each device; the worker needs more than the other half.
WORLD = """
    node a 4 gpus memory 40000 ram 100000
    team red nominal 4
    s1 red inference share 1 smem 20000 ram 1000 x 1..3..3 standby 2 awake 1 asleep 1,2 offloads running a:0 a:1 a:2
"""
GANG = "g1 red training 1 gpumem 36000 ram 8000 x 1..1..3 running a:3"
WAITS = "g1 red training 1 gpumem 36000 ram 8000 saves 600 x 2..2..4 pending   f1 red training 1 running a:3"


def seen(world: Snapshot, weights: Weights, *ranks: int) -> Snapshot:
    """The world once the weights of these replicas of s1 were seen there."""
    service = world.workloads["s1"]
    placement = tuple(replace(a, weights=weights) if a.rank in ranks else a for a in service.placement)
    return world.replace(changed=[replace(service, placement=placement)])


def test_a_gang_that_needs_the_whole_device_gets_it_once_the_weights_are_in_host_memory() -> None:
    world = parse(WORLD + GANG)
    (moved,) = schedule(world, RULES)
    assert isinstance(moved, Offload)
    assert (moved.workload, moved.ranks, moved.to, moved.by) == ("s1", (1, 2), Weights.TO_HOST, "g1")
    assert moved.message == (
        "The weights of 2 of its replicas on standby go to host memory: [[w:g1]] needs all of the GPU."
    )
    moving = world.after([moved])
    assert schedule(moving, RULES) == (), "nothing more is decided while they move"
    assert schedule(seen(moving, Weights.HOST, 1), RULES) == (), "the gang waits for both, as it rests after a change"
    (lent,) = schedule(seen(moving, Weights.HOST, 1, 2), RULES)
    assert isinstance(lent, Place)
    assert [(w.gpus, w.lender) for w in lent.workers] == [((1,), "s1"), ((2,), "s1")]


def test_weights_take_both_memories_while_they_move_and_then_the_node_s_alone() -> None:
    world = parse(WORLD + GANG)
    moving = world.after(schedule(world, RULES))
    there = seen(moving, Weights.HOST, 1, 2)
    back = seen(moving, Weights.TO_DEVICE, 1, 2)
    for now, on_device, on_node in (
        (world, 20000, 11000), (moving, 20000, 51000), (there, 0, 51000), (back, 20000, 51000),
    ):  # fmt: skip
        for when in (IDLE, FUTURE_IDLE):
            assert now.columns.gpu[when, MEMORY].tolist() == [20000, on_device, on_device, 0]
            assert now.columns.node[when, MEMORY].tolist() == [on_node]


def test_a_gang_that_waits_starts_so_too() -> None:
    world = parse(WORLD + WAITS)
    (moved,) = [d for d in schedule(world, RULES) if isinstance(d, Offload)]
    assert (moved.ranks, moved.by) == ((1, 2), "g1")
    moving = world.after([moved])
    assert moves(schedule(moving, RULES)) == []
    (lent,) = [d for d in schedule(seen(moving, Weights.HOST, 1, 2), RULES) if isinstance(d, Place)]
    assert [(w.gpus, w.lender) for w in lent.workers] == [((1,), "s1"), ((2,), "s1")]


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (" offloads", "", "its server cannot do it"),
        ("gpumem 36000", "gpumem 44000", "the device alone is too small"),
        ("ram 100000", "ram 30000", "the node has no memory for weights and worker"),
        ("asleep 1,2 offloads", "asleep 1,2 offloads todevice 1,2", "they are on their way back"),
        ("", "", ""),
    ],
)
def test_weights_move_only_where_that_makes_room(before: str, after: str, why: str) -> None:
    world = parse((WORLD + GANG).replace(before, after))
    assert bool([d for d in schedule(world, RULES) if isinstance(d, Offload)]) == (not why)


def test_the_node_has_memory_for_one_of_them_only() -> None:
    (moved,) = schedule(parse((WORLD + GANG).replace("ram 100000", "ram 45000")), RULES)
    assert isinstance(moved, Offload)
    assert moved.ranks == (1,)


def test_where_a_worker_fits_beside_the_model_no_weights_move() -> None:
    (lent,) = schedule(parse(WORLD + GANG.replace("36000", "16000")), RULES)
    assert isinstance(lent, Place)


def test_weights_return_when_no_gang_has_a_use_for_the_device() -> None:
    alone = parse(WORLD.replace("offloads", "offloads host 1,2"))
    (back,) = schedule(alone, RULES)
    assert isinstance(back, Offload)
    assert (back.ranks, back.to, back.by) == ((1, 2), Weights.TO_DEVICE, "")
    assert back.message == "The weights of 2 replicas return to the GPU: nothing borrows it any more."
    assert schedule(alone.after([back]), RULES) == ()


LENT = WORLD.replace("offloads", "offloads host 1,2") + (
    "g1 red training 1 gpumem 36000 ram 8000 x 1..1..3 lent s1 1,2 running a:3 a:1 a:2\n"
)


def test_they_stay_there_as_long_as_a_worker_is_on_the_device() -> None:
    assert schedule(parse(LENT), RULES) == ()
    woken = parse(LENT.replace("awake 1 asleep 1,2", "awake 2 asleep 2").replace("x 1..1..3", "x 1..1..3 leaves 1"))
    assert schedule(woken, RULES) == (), "the borrower has been told to leave, and is still there"


def test_they_return_for_a_replica_that_is_to_serve_once_the_borrower_has_left_in_a_partial_cycle_too() -> None:
    woken = parse(LENT.replace("awake 1 asleep 1,2", "awake 2 asleep 2").replace("a:3 a:1 a:2", "a:3"))
    gang = woken.workloads["g1"]
    there = (*gang.placement, replace(parse(LENT).workloads["g1"].placement[2], gpus=(2,)))
    woken = woken.replace(changed=[replace(gang, placement=there[:1] + there[-1:])])
    for world in (woken, replace(woken, scope=PartialCycle(("red",)))):
        back = [d for d in schedule(world, RULES) if isinstance(d, Offload)]
        assert [(d.ranks, d.to) for d in back] == [((1,), Weights.TO_DEVICE)]


def test_no_memory_is_given_twice_however_weights_move() -> None:
    has_moved: list[bool] = []

    @given(worlds_with_standby())
    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    def holds(world: Snapshot) -> None:
        most = int(world.inventory.gpu_capacity[MEMORY].max())
        services = [replace(w, offloads=True) for w in world.workloads.values() if w.standby]
        large = [w for w in world.workloads.values() if w.ask.gpu_memory and not w.placement]
        gangs = [replace(w, ask=replace(w.ask, gpu_memory=most * 9 // 10)) for w in large]
        rules = Settings(lend_after_seconds=0.0)
        world = world.replace(changed=[*services, *gangs])
        for _ in range(4):
            decisions = schedule(world, rules)
            moved = [d for d in decisions if isinstance(d, Offload)]
            has_moved.append(bool(moved))
            assert len({d.workload for d in moved}) == len(moved)
            world = _settled(world.after(decisions))
            for taken, has in (
                (world.columns.gpu[:, MEMORY], world.inventory.gpu_capacity[MEMORY]),
                (world.columns.node[:, MEMORY], world.inventory.node_capacity[MEMORY]),
            ):
                assert ((taken <= has) & (taken >= 0)).all()

    holds()
    assert sum(has_moved) >= 0.03 * len(has_moved), f"weights moved in {sum(has_moved)} of {len(has_moved)} rounds"


def _settled(world: Snapshot) -> Snapshot:
    """What has been told to move is there; what was placed runs; what was to leave is gone."""
    arrived = {Weights.TO_HOST: Weights.HOST, Weights.TO_DEVICE: Weights.DEVICE}
    changed = []
    for w in world.workloads.values():
        stay = tuple(
            replace(a, weights=arrived.get(a.weights, a.weights), reserved=False) for a in w.placement if not a.leaving
        )
        phase = Phase.RUNNING if w.phase in (Phase.ADMITTED, Phase.SCALING, Phase.STARTING) else w.phase
        if w.phase is Phase.CHECKPOINTING:
            phase = Phase.QUEUED
        changed.append(replace(w, placement=stay, phase=phase, scaled_at=None, started_at=w.started_at or world.at))
    return world.replace(at=world.at + 600, changed=changed)
