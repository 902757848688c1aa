"""What a round decides where schedulers of others went wrong in the field. The halls are listed in the package."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from scheduler.cycle.schedule import schedule
from scheduler.model.decision import EvictReason, Place, Reason, Wait
from scheduler.model.settings import Settings
from scheduler.model.snapshot import FUTURE_IDLE, IDLE, Snapshot
from scheduler.model.workload import ACTIVE, Phase, Workload
from scheduler.state.plan import Plan
from tests.scheduler.test_liveness import obeyed
from tests.worlds import evict, moves, parse, place, reasons

RULES = Settings()


def goes_on(world: Snapshot, seconds: float = 61.0, rounds: int = 30) -> Iterator[Snapshot]:
    """The world after each round, with a cluster that obeys in between."""
    for _ in range(rounds):
        world = obeyed(world.after(schedule(world, RULES)))
        yield world
        world = world.replace(at=world.at + seconds)


def last(world: Snapshot, seconds: float = 61.0, rounds: int = 30) -> Snapshot:
    """The world after so many rounds, in the last ten of which nothing started or left."""
    seen = list(goes_on(world, seconds, rounds))
    assert len({tuple(running(w)) for w in seen[-10:]}) == 1, [running(w) for w in seen[-10:]]
    return seen[-1]


def running(world: Snapshot) -> list[str]:
    return sorted(w.id for w in world.workloads.values() if w.phase in ACTIVE)


def preemptions(world: Snapshot) -> dict[str, int]:
    return {w.id: len(w.preempted_at) for w in world.workloads.values() if w.preempted_at}


def is_within_devices(world: Snapshot) -> bool:
    return all((world.columns.gpu[when] <= world.inventory.gpu_capacity).all() for when in (IDLE, FUTURE_IDLE))


# --- decided on a half-loaded cache ------------------------------------------------------------


def test_hami_2812_a_worker_that_is_terminating_still_holds_its_gpus() -> None:
    world = parse("node a 2 gpus   team red nominal 4   x red training 2 leaving a   w red training 1 pending")
    assert moves(schedule(world, RULES)) == [place("w", "a", after=("x",))]


# --- assumed is not bound ----------------------------------------------------------------------


def test_kueue_804_two_teams_that_reclaim_at_once_do_not_share_a_victim() -> None:
    world = parse("""
        node n 4 gpus   team a nominal 0   team b nominal 2   team c nominal 2
        x1 a training 2 running n   x2 a training 2 running n
        b1 b training 2 pending   c1 c training 2 pending
    """)
    decided = schedule(world, RULES)
    assert sorted(f[4] for f in moves(decided) if f[0] == "place") == ["x1", "x2"]
    assert is_within_devices(world.after(decided))


def test_kueue_804_three_teams_of_equal_quota_are_not_admitted_beyond_what_there_is() -> None:
    world = parse("""
        node n 6 gpus   team a nominal 2   team b nominal 2   team c nominal 2
        x1 a training 3 running n   x2 a training 3 running n
        b1 b training 2 pending   c1 c training 2 pending
    """)
    for now in goes_on(world, rounds=10):
        assert is_within_devices(now)


def test_k8s_102339_a_place_that_is_promised_to_one_that_is_gone_is_nobodys() -> None:
    world = parse("""
        node a 2 gpus   team red nominal 4
        x red training 2 leaving a   high red training 2 priority 100 reserved a:0,1 after x
        w red training 2 pending
    """)
    assert moves(schedule(world, RULES)) == []
    assert moves(schedule(world.replace(gone=("high", "x")), RULES)) == [place("w", "a")]


def test_volcano_1383_what_is_placed_and_not_yet_bound_is_taken_in_the_next_round() -> None:
    world = parse("node a 2 gpus   team red nominal 4   x red training 2 pending   w red training 1 pending")
    placed = world.after(schedule(world, RULES))
    assert placed.workloads["x"].phase is Phase.ADMITTED
    assert moves(schedule(placed, RULES)) == []


# --- stuck terminating -------------------------------------------------------------------------


def test_kueue_1450_a_node_that_does_not_answer_frees_nothing_and_takes_nothing() -> None:
    world = parse("""
        node a 2 gpus down   node b 1 gpus   team red nominal 3 borrowing 0
        x red training 2 leaving a   v red training 1 running b   w red training 1 pending
    """)
    assert moves(schedule(world, RULES)) == []
    assert Plan(world).usage.available("red", "gpu", IDLE) == 0  # its quota is charged until it has left


# --- quota freed too soon or never -------------------------------------------------------------


def test_kueue_14609_a_gang_that_starts_again_is_charged_for_all_its_workers() -> None:
    world = parse("""
        node a 4 gpus   team red nominal 3 borrowing 0
        gang red training 1 x 3 finishing running a   w red training 1 pending
    """)
    gang = world.workloads["gang"]
    one_left = world.replace(changed=[replace(gang, placement=gang.placement[:1])], gone=("w",))
    assert Plan(one_left).usage.available("red", "gpu", IDLE) == 2000
    again = one_left.replace(changed=[replace(gang, phase=Phase.QUEUED, placement=(), started_at=None)])
    again = again.after(schedule(again, RULES)).replace(changed=[world.workloads["w"]])
    assert len(again.workloads["gang"].placement) == 3
    assert reasons(schedule(again, RULES)) == {"w": Reason.WAITING_FOR_QUOTA}


def test_k8s_24494_two_of_one_round_do_not_both_get_the_last_of_the_quota() -> None:
    world = parse("""
        node a 4 gpus   team red nominal 1 borrowing 0
        v red training 1 cpu 1 pending   w red training 1 cpu 2 pending
    """)
    decided = schedule(world, RULES)
    assert (moves(decided), reasons(decided)) == ([place("v", "a")], {"w": Reason.WAITING_FOR_QUOTA})


# --- livelock and thrash -----------------------------------------------------------------------


def test_kueue_6947_one_that_can_never_start_makes_nobody_leave_and_blocks_nobody() -> None:
    world = parse("""
        node n 3 gpus   team a nominal 3   team b nominal 0
        w1 b training 1 since 99000 running n
        w4 a training 4 since 99100 pending   w3 a training 3 since 99200 pending
    """)
    assert moves(schedule(world, RULES)) == [
        evict("w1", EvictReason.RECLAIMED, "w3"),
        place("w3", "n", after=("w1",)),
    ]
    end = last(world)
    assert (running(end), preemptions(end)) == (["w3"], {"w1": 1})


def test_kueue_3779_a_guaranteed_team_takes_its_own_back_once_and_the_others_stay_out() -> None:
    world = parse("""
        node n 6 gpus   team guaranteed nominal 4   team ta nominal 1   team tb nominal 1
        a1 ta training 1 running n   a2 ta training 1 running n   a3 ta training 1 running n
        b1 tb training 1 running n   b2 tb training 1 running n   b3 tb training 1 running n
        g1 guaranteed training 2 priority 100 pending   g2 guaranteed training 2 priority 100 pending
    """)
    end = last(world)
    assert {"g1", "g2"} <= set(running(end))
    assert max(preemptions(end).values()) == 1


def test_kueue_2821_a_higher_priority_that_borrows_does_not_push_out_another_teams_work() -> None:
    world = parse("""
        node n 4 gpus   team a nominal 1   team b nominal 1
        b1 b training 1 priority 200 running n   a1 a training 3 running n
        b2 b training 1 priority 200 pending
    """)
    end = last(world)
    assert preemptions(end) == {}
    assert running(end) == ["a1", "b1"]


def test_kueue_14543_victims_of_its_own_team_and_of_another_start_no_circle() -> None:
    world = parse("""
        node n 8 gpus   team p nominal 1   team t nominal 1
        p1 p training 2 running n   p2 p training 2 running n   t1 t training 4 running n
        hero p training 5 priority 100 pending   small p training 1 pending   t2 t training 3 priority 100 pending
    """)
    seen = list(goes_on(world, seconds=3661.0, rounds=40))
    assert max(preemptions(seen[-1]).values(), default=0) <= 1
    assert len({tuple(running(w)) for w in seen[-10:]}) == 1


def test_kai_848_nothing_more_is_assigned_to_a_full_node_however_often_it_is_asked() -> None:
    world = parse("""
        node a 1 gpus   team red nominal 4
        x red inference 1 running a   v red training 1 pending   w red notebook share 0.5 pending
    """)
    told = world.after(schedule(world, RULES))
    assert all(schedule(told.replace(at=told.at + i), RULES) == () for i in range(100))


def test_kai_2074_work_that_failed_lets_others_of_its_kind_go_first() -> None:
    world = parse("""
        node a 1 gpus   team red nominal 1
        doomed red training 1 failures 3 since 99000 pending   w red training 1 since 99990 pending
    """)
    assert moves(schedule(world, RULES)) == [place("w", "a")]


# --- starvation --------------------------------------------------------------------------------


def test_kueue_8309_a_gang_starts_though_small_jobs_never_stop_coming() -> None:
    """Each job runs 600 s, as its user said; one comes each minute, and the gang wants the whole cluster."""
    world = parse("""
        at 100000   node a 4 gpus   team red nominal 4
        j0 red training 1 since 99400 started 99450 running a   j1 red training 1 since 99400 started 99600 running a
        j2 red training 1 since 99400 started 99750 running a   j3 red training 1 since 99400 started 99900 running a
        gang red training 1 x 4 pending
    """)
    small = world.workloads["j0"]
    world = world.replace(changed=[_of_600(w) for w in world.workloads.values()])
    for minute in range(1, 30):
        at = world.at + 60
        ended = [w.id for w in world.workloads.values() if w.started_at is not None and at - w.started_at >= 600]
        coming = replace(
            small, id=f"s{minute}", name=f"s{minute}", seq=100 + minute, phase=Phase.QUEUED, placement=(),
            attempt=0, started_at=None, submitted_at=at, queued_at=at, expected_seconds=600.0,
        )  # fmt: skip
        world = world.replace(at=at, changed=[coming], gone=ended)
        world = obeyed(world.after(schedule(world, RULES)))
        if world.workloads["gang"].phase is Phase.RUNNING:
            break
    # The longest job there is, and the time until the gang is promised its place.
    assert world.at - 100_000 <= 1.1 * (600 + RULES.reservation_after_max_seconds)


def _of_600(workload: Workload) -> Workload:
    return replace(workload, expected_seconds=600.0)


def test_volcano_748_low_priority_is_not_placed_while_a_higher_one_that_asks_no_more_waits() -> None:
    world = parse("""
        node a 2 gpus   team red nominal 4
        x red training 1 firm running a   high red training 2 priority 200 pending
        low red training 2 pending   other red training 2 cpu 1 pending
    """)
    assert moves(schedule(world, RULES)) == []
    free = world.replace(gone=("x",))
    assert moves(schedule(free, RULES)) == [place("high", "a")]


def test_volcano_3869_of_two_that_compete_for_what_can_be_reclaimed_one_gets_it_whole() -> None:
    world = parse("""
        node n 4 gpus   team a nominal 0   team b nominal 2   team c nominal 2
        x1 a training 1 running n   x2 a training 1 running n   y c training 2 firm running n
        b1 b training 1 x 2 pending   b2 b training 1 x 2 cpu 1 pending
    """)
    end = last(world)
    assert running(end) == ["b1", "y"]
    assert preemptions(end) == {"x1": 1, "x2": 1}


# --- sharing that leaks or lies ----------------------------------------------------------------


def test_hami_404_and_kai_416_memory_of_a_gpu_is_not_promised_twice() -> None:
    world = parse("""
        node a 1 gpus memory 16000   team red nominal 4
        x red notebook share 0.1 smem 9000 running a   w red notebook share 0.1 smem 8000 pending
    """)
    assert moves(schedule(world, RULES)) == []


def test_hami_1491_a_new_worker_gets_the_devices_that_were_freed_and_no_others() -> None:
    world = parse("""
        node a 8 gpus   team red nominal 8
        p0 red training 2 running a:0,1   p1 red training 2 running a:2,3
        p2 red training 2 running a:4,5   p3 red training 2 running a:6,7
    """)
    again = replace(world.workloads["p1"], id="p4", phase=Phase.QUEUED, placement=(), seq=9, attempt=0, started_at=None)
    (placed,) = schedule(world.replace(changed=[again], gone=("p1",)), RULES)
    assert isinstance(placed, Place)
    assert placed.workers[0].gpus == (2, 3)


def test_kai_464_a_third_half_goes_to_the_second_gpu() -> None:
    world = parse("""
        node a 2 gpus   team red nominal 2   w red inference share 0.5 pending
        x red inference share 0.5 running a:0   y red inference share 0.5 running a:0
    """)
    (placed,) = schedule(world, RULES)
    assert isinstance(placed, Place)
    assert placed.workers[0].gpus == (1,)


def test_tensor_fusion_478_what_a_share_took_is_given_back_to_the_unit() -> None:
    world = parse("""
        node a 2 gpus   team red nominal 2
        w red notebook share 0.333 smem 5001 cpu 3 ram 7 pending   v red training 1 cpu 1 pending
    """)
    placed = world.after(schedule(world, RULES))
    assert placed.columns.gpu.any()
    ended = placed.replace(gone=("w", "v"))
    assert not np.any(ended.columns.gpu)
    assert not np.any(ended.columns.node)
    assert Plan(ended).usage.available("red", "gpu", IDLE) == 2000


# --- lost GPUs ---------------------------------------------------------------------------------


def test_volcano_1818_a_node_that_lost_gpus_takes_nothing_while_more_is_held_than_is_left() -> None:
    world = parse("""
        node a 8 gpus lost 6,7   team red nominal 16
        pod0 red training 8 firm running a:0,1,2,3,4,5,6,7   pod1 red training 6 pending
    """)
    assert moves(schedule(world, RULES)) == []
    (placed,) = schedule(world.replace(gone=("pod0",)), RULES)
    assert isinstance(placed, Place)
    assert placed.workers[0].gpus == (0, 1, 2, 3, 4, 5)


# --- wall clock --------------------------------------------------------------------------------


def test_openpbs_218_ties_within_a_second_go_by_the_number_of_submission() -> None:
    world = parse("""
        node a 1 gpus   team red nominal 1
        z red training 1 cpu 1 since 99000 pending   b red training 1 cpu 1 since 99000 pending
    """)
    assert moves(schedule(world, RULES)) == [place("z", "a")]


def test_celery_4041_a_clock_that_jumps_decides_nothing_twice() -> None:
    world = parse("""
        node a 2 gpus   team red nominal 2
        x red training 2 running a   w red training 1 pending   v red training 1 priority 100 cpu 1 pending
    """)
    settled = obeyed(world.after(schedule(world, RULES)))
    for _ in range(3):
        settled = obeyed(settled.after(schedule(settled, RULES)))
    for jump in (-3600.0, 3600.0, -100_000.0, 0.0):
        decided = schedule(settled.replace(at=settled.at + jump), RULES)
        assert all(isinstance(d, Wait) for d in decided), (jump, decided)
