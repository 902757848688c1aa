"""The plan: what is free now, what later, and how tentative decisions are undone."""

from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Evict, EvictReason, Place
from scheduler.model.settings import Settings
from scheduler.model.snapshot import COMPUTE, FUTURE_IDLE, IDLE
from scheduler.model.workload import Assignment
from scheduler.state.plan import Plan
from tests.worlds import moves, parse, place


def idle(plan: Plan) -> tuple[list[int], list[int]]:
    return plan.free[IDLE].idle.tolist(), plan.free[FUTURE_IDLE].idle.tolist()


def test_what_leaves_is_free_later_only() -> None:
    plan = Plan(parse("node a 4 gpus   team red nominal 4   x red training 1 leaving a   y red training 1 running a"))
    assert idle(plan) == ([2], [3])


def test_what_is_reserved_is_free_neither_now_nor_later() -> None:
    plan = Plan(
        parse(
            "node a 4 gpus   team red nominal 4   x red training 1 leaving a   w red training 2 reserved a:0,1 after x"
        )
    )
    assert idle(plan) == ([2], [2])


def test_placing_and_evicting_change_the_view_and_rolling_back_restores_it() -> None:
    world = parse("node a 2 gpus   team red nominal 4   x red training 2 running a   w red training 1 pending")
    plan = Plan(world)
    mark = plan.mark()
    plan.evict(world.workloads["x"], EvictReason.PREEMPTED, "w")
    plan.place(world.workloads["w"], (Assignment(0, "a", (0,)),), after=("x",))
    assert idle(plan) == ([0], [1])
    assert plan.workload("w").phase == "Reserved"
    assert plan.workload("w").placement[0].reserved
    assert [type(d) for d in plan.decisions] == [Evict, Place]
    plan.rollback(mark)
    assert idle(plan) == ([0], [0])
    assert plan.workload("x") is world.workloads["x"]
    assert plan.decisions == ()


def test_the_snapshot_is_never_changed() -> None:
    world = parse(
        "node a 2 gpus   team red nominal 4   x red training 2 running a   w red training 1 priority 9 pending"
    )
    before = world.columns.gpu.copy()
    schedule(world, Settings())
    assert (world.columns.gpu == before).all()
    assert world.workloads["x"].phase == "Running"


def test_room_is_not_given_to_one_who_would_start_beside_a_leaver_that_a_reserved_one_does_not_wait_for() -> None:
    # big waits for v only; y began to leave later. Were w placed now, y, big and w could meet on the GPU.
    world = parse("""
        node a 1 gpus   team red nominal 4
        v red notebook share 0.5 leaving a   y red notebook share 0.3 leaving a
        big red notebook share 0.6 reserved a:0 after v
        w red notebook share 0.2 pending
    """)
    assert Plan(world).free[IDLE].gpu[COMPUTE].tolist() == [100]
    assert moves(schedule(world, Settings())) == [place("w", "a", after=("v", "y"))]


def test_a_claimant_on_room_of_leavers_waits_only_for_those_in_its_way() -> None:
    world = parse("""
        node a 2 gpus   node b 2 gpus   team red nominal 8
        x red training 1 leaving a   y red training 1 leaving a   z red training 2 leaving b
        w red training 2 pending
    """)
    assert moves(schedule(world, Settings())) in (
        [place("w", "a", after=("x", "y"))],
        [place("w", "b", after=("z",))],
    )


def test_cores_of_a_leaver_are_waited_for_as_well() -> None:
    world = parse("""
        node a 2 gpus cpu 8   team red nominal 8
        x red training 1 cpu 6 leaving a:0   w red training 1 cpu 4 pending
    """)
    assert moves(schedule(world, Settings())) == [place("w", "a", after=("x",))]
