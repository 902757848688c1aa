"""What it costs when a workload has to leave."""

from scheduler.cycle.schedule import schedule
from scheduler.model.decision import EvictReason
from scheduler.model.settings import Settings
from scheduler.preemption.cost import cost
from tests.worlds import evict, moves, parse

RULES = Settings(restart_seconds=60, rejoin_seconds=10, outage_seconds=7200)


def gpu_seconds(line: str) -> float:
    """The cost of one running workload, in seconds of a GPU."""
    world = parse(f"at 10000\n node a 8 gpus   team red nominal 8\n{line}")
    (workload,) = world.workloads.values()
    return cost(workload, world.at, RULES) / 1000


def test_the_work_since_the_last_checkpoint_and_the_restart_count_for_each_gpu() -> None:
    assert gpu_seconds("w red training 2 running a started 1000 checkpointed 9900") == 2 * (100 + 60)
    assert gpu_seconds("w red training 2 running a started 1000") == 2 * (9000 + 60)


def test_a_share_loses_only_its_part() -> None:
    assert gpu_seconds("w red notebook share 0.5 running a started 9000") == 0.5 * (1000 + 60)


def test_a_gang_loses_all_its_gpus_and_waits_for_its_last_worker() -> None:
    assert gpu_seconds("w red training 1 x 4 running a started 9900") == 4 * (100 + 60 + 3 * 10)


def test_a_service_loses_availability_which_is_dearer_than_work() -> None:
    assert gpu_seconds("w red inference 1 running a started 9900") == 7200 + 60


def test_of_equal_victims_the_one_that_saved_last_leaves_and_a_service_last_of_all() -> None:
    world = parse("""
        node a 3 gpus   team red nominal 3
        service red inference 1 running a started 99000
        unsaved red training 1 running a started 90000
        saved red training 1 running a started 90000 checkpointed 99990
        high red training 1 priority 100 pending
    """)
    assert moves(schedule(world, RULES))[0] == evict("saved", EvictReason.PREEMPTED, "high")
    two = parse("""
        node a 2 gpus   team red nominal 2
        service red inference 1 running a started 99000   unsaved red training 1 running a started 95000
        high red training 1 priority 100 pending
    """)
    assert moves(schedule(two, RULES))[0] == evict("unsaved", EvictReason.PREEMPTED, "high")


def test_two_small_ones_leave_rather_than_a_gang_that_loses_more() -> None:
    world = parse("""
        node a 4 gpus   node b 2 gpus   team red nominal 6
        gang red training 1 x 4 running a started 99900
        s1 red training 1 running b started 99900   s2 red training 1 running b started 99900
        high red training 2 priority 100 pending
    """)
    assert sorted(fact[1] for fact in moves(schedule(world, RULES)) if fact[0] == "evict") == ["s1", "s2"]
