"""Gangs with several roles: pod sets beside the workers, all or nothing, each counted by its own ask."""

from dataclasses import replace

import pytest

from controlplane.invariants.footprint import Footprints, recount
from scheduler.cycle.ordering import asks_no_more
from scheduler.cycle.schedule import schedule
from scheduler.explain.explanation import explain
from scheduler.model.decision import Place, Reason, Shrink
from scheduler.model.settings import Settings
from scheduler.model.snapshot import FUTURE_IDLE, Snapshot
from scheduler.model.workload import ResourceRequest, Role
from scheduler.state.pending import equivalence_of
from scheduler.state.plan import Plan
from tests.worlds import facts, messages, moves, parse, place, reasons

RULES = Settings()


def placed(world: Snapshot, uid: str) -> dict[str, list[str]]:
    """The nodes of each role of a workload that a round places."""
    found = next(d for d in schedule(world, RULES) if isinstance(d, Place) and d.workload == uid)
    out: dict[str, list[str]] = {}
    for worker in found.workers:
        out.setdefault(world.workloads[uid].role_of(worker.rank)[0], []).append(worker.node)
    return out


def test_role_members_have_the_first_ranks_and_each_rank_its_own_ask() -> None:
    world = parse("team red   j red training 1 x 2..4 role ps*2/cpu=4 role chief/gpus=2 pending")
    job = world.workloads["j"]
    assert [job.role_of(rank) for rank in range(5)] == [
        ("ps", 0), ("ps", 1), ("chief", 0), ("worker", 0), ("worker", 1),
    ]  # fmt: skip
    assert [job.ask_of(rank).gpus for rank in range(5)] == [0, 0, 2, 1, 1]
    assert (job.role_members, job.whole_milli, job.need_milli(2)) == (3, 6000, 4000)


def test_all_roles_are_placed_together_and_those_without_gpus_strand_none() -> None:
    world = parse("""
        node a,b 4 gpus
        cpu-node c cpu 16
        team red nominal 8
        j red training 4 x 1 role ps*2/cpu=4 pending
    """)
    assert placed(world, "j") == {"ps": ["c", "c"], "worker": ["a"]}


def test_a_gang_waits_whole_when_one_role_has_no_room() -> None:
    world = parse("""
        node a 4 gpus cpu 8
        team red nominal 8
        j red training 1 cpu 1 x 2 role ps*2/cpu=4 pending
    """)
    assert moves(schedule(world, RULES)) == []
    assert reasons(schedule(world, RULES)) == {"j": Reason.NO_MATCHING_FLAVOR}
    assert "2 x ps (4 cores and 0 MiB) and 2 x worker (1 GPU)" in messages(schedule(world, RULES))["j"]


def test_a_role_without_room_is_named_with_what_would_fit() -> None:
    world = parse("""
        node a 4 gpus cpu 8
        team red nominal 8
        b red training 1 cpu 4 running a
        j red training 1 x 2 role ps*2/cpu=4 pending
    """)
    assert reasons(schedule(world, RULES)) == {"j": Reason.GANG_INCOMPLETE}
    assert messages(schedule(world, RULES))["j"] == (
        "Needs 2 x ps (4 cores and 0 MiB) and 2 x worker (1 GPU) at once; 1 of the 2 x ps would fit now."
    )


def test_cores_that_both_roles_want_are_divided() -> None:
    """The workers alone would fill the fullest node; the server then has no cores but there."""
    world = parse("""
        node a 4 gpus cpu 8
        node b 4 gpus cpu 2
        team red nominal 8
        j red training 1 cpu 2 x 2 role ps/cpu=6 pending
    """)
    assert placed(world, "j")["ps"] == ["a"]


def test_roles_with_gpus_are_on_one_model() -> None:
    world = parse("""
        node a 2 gpus model t4 pool p
        node b 2 gpus model h100 pool p
        team red nominal 8
        j red training 1 x 2 role chief/gpus=1 pending
    """)
    assert reasons(schedule(world, RULES)) == {"j": Reason.NO_MATCHING_FLAVOR}
    wider = parse("""
        node a 2 gpus model t4 pool p
        node b 3 gpus model h100 pool p
        team red nominal 8
        j red training 1 x 2 role chief/gpus=1 pending
    """)
    assert placed(wider, "j") == {"chief": ["b"], "worker": ["b", "b"]}


def test_roles_whose_models_differ_are_told_so() -> None:
    world = parse("""
        node a 2 gpus model t4
        node b 2 gpus model h100
        team red nominal 8
        j red training 1 models t4 role chief/gpus=1/models=h100 pending
    """)
    assert reasons(schedule(world, RULES)) == {"j": Reason.NO_MATCHING_FLAVOR}
    assert "no model in the cluster is allowed for all of them" in messages(schedule(world, RULES))["j"]


@pytest.mark.parametrize("level", ["rack", "node"])
def test_a_required_level_holds_for_all_members(level: str) -> None:
    world = parse(f"""
        node a 4 gpus rack r1 cpu 2
        node b,c 4 gpus rack r2 cpu 8
        team red nominal 8
        j red training 1 cpu 1 x 2 role ps/cpu=4 require {level} pending
    """)
    nodes = {node for where in placed(world, "j").values() for node in where}
    assert nodes <= ({"b", "c"} if level == "rack" else {"b"})


def test_an_nvlink_domain_holds_all_members_with_gpus() -> None:
    world = parse("""
        node a 8 gpus nvlink 4
        team red nominal 8
        b red training 2 running a:0,1
        j red training 1 x 3 role chief/gpus=1 require nvlink pending
    """)
    found = next(d for d in schedule(world, RULES) if isinstance(d, Place))
    assert sorted(index for worker in found.workers for index in worker.gpus) == [4, 5, 6, 7]


def test_quota_counts_all_roles() -> None:
    world = parse("""
        node a 8 gpus
        team red nominal 3 borrowing 0
        j red training 1 x 2 role chief/gpus=2 pending
    """)
    assert reasons(schedule(world, RULES)) == {"j": Reason.EXCEEDS_MAX_QUOTA}
    held = parse("""
        node a 8 gpus
        team red nominal 4
        j red training 1 x 2 role chief/gpus=2 running a
    """)
    assert held.workloads["j"].held_milli == 4000
    assert Plan(held).usage.total[FUTURE_IDLE]["red", "gpu"] == 4000


def test_columns_count_each_member_by_its_own_ask() -> None:
    world = parse("""
        node a 8 gpus
        team red nominal 8
        j red training 1 cpu 2 x 2 role ps*2/cpu=4/ram=1000 role eval/share=0.5/smem=2000 running a a a a a
    """)
    held = Footprints().of_workloads(world.inventory, world.workloads)
    counted = recount(world.inventory, [rows for _, rows in held])
    assert (counted.gpu == world.columns.gpu).all()
    assert (counted.node == world.columns.node).all()
    assert world.columns.node[FUTURE_IDLE, :, 0].tolist() == [2 * 4000 + 2 * 2000, 2000]
    assert world.columns.gpu[FUTURE_IDLE, :, 0:3].tolist() == [[500, 1000, 1000], [2000, 0, 0]]


def test_an_elastic_gang_starts_with_its_least_workers_and_all_role_members() -> None:
    world = parse("""
        node a 4 gpus
        team red nominal 4
        j red training 1 x 1..4 role chief/gpus=1 pending
    """)
    assert facts(schedule(world, RULES)) == [place("j", "a", "a", "a", "a")]
    narrow = world.replace(
        changed=[
            *parse("""
        node a 4 gpus
        team red nominal 4
        b red training 1 running a:0
    """).workloads.values()
        ]
    )
    assert placed(narrow, "j") == {"chief": ["a"], "worker": ["a", "a"]}


def test_only_workers_are_taken_from_an_elastic_gang() -> None:
    world = parse("""
        node a 4 gpus
        team red nominal 4
        j red training 1 x 1..3 priority 0 role chief/gpus=1 running a
        k red training 2 priority 100 pending
    """)
    shrunk = next(d for d in schedule(world, RULES) if isinstance(d, Shrink))
    assert shrunk.ranks == (2, 3)  # the chief has rank 0, the first worker rank 1


def test_a_gang_that_grew_beside_its_role_members_gets_the_next_ranks() -> None:
    world = parse("""
        node a,b 4 gpus
        team red nominal 8
        j red training 1 x 1..3 role ps/cpu=1 role chief/gpus=1 running a a a since 0 started 1
    """)
    running = replace(world.workloads["j"], next_rank=3)
    found = next(d for d in schedule(world.replace(changed=[running]), RULES) if isinstance(d, Place))
    assert [worker.rank for worker in found.workers] == [3, 4]
    assert [len(worker.gpus) for worker in found.workers] == [1, 1]


def test_victims_leave_for_a_gang_whose_role_member_needs_their_cores() -> None:
    world = parse("""
        node a 4 gpus cpu 4
        cpu-node c cpu 8
        team red nominal 8
        low red training cpu 8 running c started 99000
        j red training 4 cpu 1 priority 100 role ps/cpu=6 pending
    """)
    assert [fact[:2] for fact in moves(schedule(world, RULES))] == [("evict", "low"), ("place", "j")]


def test_a_victim_with_roles_frees_what_all_its_members_hold() -> None:
    world = parse("""
        node a 4 gpus
        team red nominal 4
        low red training 1 role chief/gpus=3 running a started 99000
        j red training 4 priority 100 pending
    """)
    assert [fact[:2] for fact in moves(schedule(world, RULES))] == [("evict", "low"), ("place", "j")]


def test_work_without_roles_keeps_its_shape_and_is_not_compared_with_gangs_that_have_some() -> None:
    world = parse("team red   j red training 1 pending   k red training 1 role ps/cpu=1 pending")
    plain, other = world.workloads.values()
    assert equivalence_of(plain) != equivalence_of(other)
    assert not asks_no_more(plain, other)
    assert not asks_no_more(other, plain)
    assert asks_no_more(other, replace(other, id="l"))


@pytest.mark.parametrize(
    ("roles", "said"),
    [
        ((Role("ps", ResourceRequest(cpu_milli=1), 0),), "has 0 members"),
        ((Role("ps", ResourceRequest()), Role("ps", ResourceRequest())), "the name ps is used twice"),
        ((Role("worker", ResourceRequest()),), "the name worker is used twice"),
    ],
)
def test_roles_that_cannot_be_are_named(roles: tuple[Role, ...], said: str) -> None:
    world = parse("node a 4 gpus   team red nominal 4   j red training 1 pending")
    world = world.replace(changed=[replace(world.workloads["j"], roles=roles)])
    assert reasons(schedule(world, RULES)) == {"j": Reason.MISCONFIGURED}
    assert said in messages(schedule(world, RULES))["j"]


def test_an_explanation_says_the_roles() -> None:
    world = parse("""
        node a 4 gpus cpu 8 rack r1
        node b 4 gpus cpu 2 rack r2
        team red nominal 8
        b1 red training 3 cpu 1 running a
        j red training 1 cpu 1 x 2 role ps/cpu=4 require node pending
    """)
    found = explain(world, "j", RULES)
    assert found.reason is Reason.TOPOLOGY_PLACEMENT_FAILED
    assert "1 x ps (4 cores and 0 MiB) and 2 x worker (1 GPU)" in found.message
