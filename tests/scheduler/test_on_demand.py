"""Notebooks on demand book the memory of their node, and a guarantee of a GPU of it; the books are exact."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from controlplane.domain.cycle import workload_of, workload_text
from gpushare.gpu import WHOLE, Labels, Share
from scheduler.cycle.ordering import asks_no_more
from scheduler.cycle.schedule import schedule
from scheduler.explain.change import Change, ChangeKind, asking
from scheduler.model.decision import Place, Reason
from scheduler.model.settings import Settings
from scheduler.model.snapshot import IDLE, MEMORY, Node, Snapshot
from scheduler.model.team import Quota, Team
from scheduler.model.workload import Kind, ResourceRequest, Workload
from scheduler.policies import POLICIES, decide
from scheduler.state.plan import Plan
from tests.worlds import messages, moves, parse, place, reasons

READY = "memory 80000 by on-demand only-shares"
ASKS = "share 0.1 smem 60000 ram 1000 demand"
TEAM = "team red nominal 4   team blue nominal 4\n"


def test_more_of_them_fit_on_a_gpu_than_its_memory_would_hold_together() -> None:
    world = parse(f"""{TEAM}
        node a 1 gpus {READY} ram 200000
        n1 red notebook {ASKS} pending   n2 red notebook {ASKS} pending   n3 red notebook {ASKS} pending
        n4 red notebook {ASKS} pending
    """)
    decisions = schedule(world, Settings())
    assert moves(decisions) == [place("n1", "a"), place("n2", "a"), place("n3", "a")]
    assert reasons(decisions) == {"n4": Reason.WAITING_FOR_CAPACITY}
    assert messages(decisions)["n4"] == (
        "Needs 61000 MiB of host memory on one node: 1000 MiB of its own, and 60000 MiB for what it has on a GPU (on "
        "demand); the best node with cores for it has 17000 MiB free."
    )


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_no_policy_places_them_elsewhere_or_anything_else_beside_them(policy: str) -> None:
    world = parse(f"""{TEAM}
        node a 1 gpus {READY} pool ready   node b 1 gpus memory 80000 pool plain
        node c 1 gpus memory 80000 by weft pool own
        n1 red notebook {ASKS} pending   s1 red notebook share 0.1 smem 6000 pending   w1 red training 1 pending
        h1 red training 1 gpumem 1000 x 1..1..3 pending
    """)
    for _ in range(3):
        world = world.after(decide(world, Settings(policy=policy)))
    on = {w.id: {a.node for a in w.placement} for w in world.workloads.values()}
    assert on["n1"] == {"a"}
    assert all("a" not in nodes for name, nodes in on.items() if name != "n1")


def test_where_no_pool_can_it_is_told_which_pools_there_are() -> None:
    world = parse(f"{TEAM} node b 1 gpus memory 80000 by weft pool own   n1 red notebook {ASKS} pending")
    decisions = schedule(world, Settings())
    assert reasons(decisions) == {"n1": Reason.NO_MATCHING_FLAVOR}
    assert "own: on_demand needs a node where" in messages(decisions)["n1"]


def test_one_that_no_gpu_can_hold_is_not_placed() -> None:
    world = parse(f"{TEAM} node a 1 gpus {READY}   n1 red notebook share 0.1 smem 80001 demand pending")
    assert reasons(schedule(world, Settings())) == {"n1": Reason.GPU_MEMORY_DOES_NOT_FIT}


def test_guarantees_are_never_more_than_the_gpus_can_give_at_once() -> None:
    """A process computes on one GPU, so three that are each promised .6 of one cannot have it on two."""
    asks = "share 0.6 smem 1000 demand"
    world = parse(f"""{TEAM} node a 2 gpus {READY}
        n1 red notebook {asks} pending   n2 red notebook {asks} pending   n3 red notebook {asks} pending
    """)
    assert len(moves(schedule(world, Settings()))) == 2


def test_a_team_that_shares_with_none_has_all_gpus_of_the_node_without_others() -> None:
    world = parse(f"""team red nominal 4 alone   team blue nominal 4
        node a 2 gpus {READY}
        n1 red notebook {ASKS} running a:0   n2 blue notebook {ASKS} pending   n3 red notebook {ASKS} pending
    """)
    assert moves(schedule(world, Settings())) == [place("n3", "a")]


def test_one_that_asks_for_the_same_of_a_gpu_always_is_no_smaller_one() -> None:
    held, demand = (
        Workload(name, name, "red", Kind.NOTEBOOK, ResourceRequest(share=share))
        for name, share in (("a", Share(100, 100, 0)), ("b", Share(100, 100, 0, on_demand=1000)))
    )
    assert not asks_no_more(held, demand)
    assert not asks_no_more(demand, held)


def test_less_memory_on_a_gpu_is_less_of_the_node_too() -> None:
    (workload,) = parse(f"{TEAM} node a 1 gpus {READY}   n1 red notebook {ASKS} pending").workloads.values()
    less = asking(workload, Change(ChangeKind.GPU_MEMORY, 60000, 40000)).ask
    assert less.share is not None
    assert (less.share.on_demand, less.memory) == (40000, 41000)
    assert asking(workload, Change(ChangeKind.MEMORY, 1000, 500)).ask.memory == 60500


def test_a_share_is_on_demand_or_has_memory_on_a_device_and_labels_never_both() -> None:
    for wrong in ({"memory": 1}, {"memory": 0, "labels": Labels("web")}, {"memory": 0, "on_demand": -1}):
        with pytest.raises(ValueError, match="on demand"):
            Share(1, 1, **{"on_demand": 5, **wrong})  # type: ignore[arg-type]


@st.composite
def _worlds(draw: st.DrawFn) -> Snapshot:
    """Nodes for notebooks on demand and others, and more of all kinds than fit."""
    kinds = st.lists(st.sampled_from(["on-demand", "on-demand", ""]), min_size=1, max_size=3)
    nodes = [
        Node(
            f"n{i}", f"p{i}", "gpu", draw(st.integers(1, 3)), 40_000, 16_000, draw(st.sampled_from([60_000, 150_000])),
            enforcer=kind, takes_whole=not kind,
            lost=draw(st.sampled_from([(), (), (0,)])),
        )
        for i, kind in enumerate(draw(kinds))
    ]  # fmt: skip
    made = []
    for number in range(draw(st.integers(1, 16))):
        guarantee, memory = draw(st.sampled_from([20, 200, 600, 1000])), draw(st.sampled_from([5000, 20_000, 39_000]))
        is_on_demand = draw(st.sampled_from([True, True, False]))
        share = Share(guarantee, WHOLE, 0, on_demand=memory) if is_on_demand else Share(guarantee, WHOLE, memory)
        ask = ResourceRequest(share=share, cpu_milli=500, memory=1000 + share.on_demand)
        team = draw(st.sampled_from(["red", "blue"]))
        made.append(Workload(f"w{number}", f"w{number}", team, Kind.NOTEBOOK, ask, seq=number))
    quotas = [Quota(team, node.pool, 4000) for team in ("red", "blue") for node in nodes]
    return Snapshot.build(0.0, nodes, [Team("red", None, draw(st.booleans())), Team("blue")], quotas, made)


@hypothesis_settings(deadline=None)
@given(_worlds(), st.sampled_from(sorted(POLICIES)), st.randoms())
def test_the_books_hold_in_every_world_and_a_release_is_the_exact_inverse(
    world: Snapshot, policy: str, dice: Random
) -> None:
    empty = world.columns.copy()
    for _ in range(2):
        world = world.after(decide(world, Settings(policy=policy)))
    for at, node in enumerate(world.inventory.nodes):
        there = [(w, a) for w in world.workloads.values() for a in w.placement if a.node == node.name]
        shares = [w.ask.share for w, _ in there if w.ask.share]
        assert sum(share.guarantee for share in shares) <= (node.gpus - len(node.lost)) * WHOLE
        booked = sum(w.ask.memory for w, _ in there)
        assert booked <= node.memory
        assert world.columns.node[IDLE, MEMORY, at] == booked
        for share in shares:
            assert bool(share.on_demand) == (node.enforcer == "on-demand")
            assert share.most_memory <= node.gpu_memory
        own = sum(share.memory for share in shares)
        first, end = world.inventory.offset[at], world.inventory.offset[at + 1]
        assert world.columns.gpu[IDLE, MEMORY, first:end].sum() == own, "what is on demand books no memory of a GPU"
    leave = [w for w in world.workloads.values() if w.placement]
    dice.shuffle(leave)
    for workload in leave:
        assert workload_of(workload_text(workload)) == workload
        world = world.replace(changed=(replace(workload, placement=()),))
    assert np.array_equal(world.columns.gpu, empty.gpu)
    assert np.array_equal(world.columns.node, empty.node)


@hypothesis_settings(deadline=None)
@given(_worlds())
def test_a_plan_that_is_taken_back_leaves_what_was_free(world: Snapshot) -> None:
    plan = Plan(world)
    before = [(free.gpu.copy(), free.node.copy(), free.idle.copy()) for free in plan.free]
    mark = plan.mark()
    for decision in schedule(world, Settings()):
        if isinstance(decision, Place):
            plan.repeat(decision)
    plan.rollback(mark)
    for free, (gpu, node, idle) in zip(plan.free, before, strict=True):
        assert np.array_equal(free.gpu, gpu)
        assert np.array_equal(free.node, node)
        assert np.array_equal(free.idle, idle)
