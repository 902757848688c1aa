"""A share goes where what holds it there can give it, and guarantees what its team demands."""

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from controlplane.jobspec.podsets import ask_of, ask_values
from gpushare.backends import mig
from gpushare.backends.catalogue import meets
from gpushare.backends.gives import Device, Part, part
from gpushare.gpu import Enforcer, Share
from scheduler.cycle.schedule import schedule
from scheduler.fit.capacity import is_given_wherever
from scheduler.model.decision import Reason
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Node, Snapshot
from scheduler.model.team import Quota, Team
from scheduler.model.workload import Kind, ResourceRequest, Workload
from scheduler.policies import POLICIES, decide
from tests.worlds import messages, moves, parse, place, reasons

A100 = "model A100 memory 40960"
TEAM = "team red nominal 4   team blue nominal 4\n"


def test_a_share_that_demands_faults_goes_to_the_pool_with_mig_only() -> None:
    world = parse(f"""{TEAM}
        node a 1 gpus {A100} pool plain
        node b 1 gpus {A100} pool cut by mig
        r1 red notebook share 0.142 smem 4864 demands faults pending
    """)
    assert moves(schedule(world, Settings())) == [place("r1", "b")]


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_no_policy_places_a_share_where_its_demand_is_not_met(policy: str) -> None:
    world = parse(f"""{TEAM}
        node a 1 gpus {A100} pool plain by mps
        r1 red notebook share 0.5 smem 4000 demands faults pending
        r2 red notebook share 0.5 smem 4000 demands memory pending
    """)
    placed = {name for word, name, *_ in moves(decide(world, Settings(policy=policy))) if word == "place"}
    assert "r1" not in placed


def test_a_demand_that_no_pool_meets_is_a_reason_that_names_pools_and_what_they_have() -> None:
    world = parse(f"""{TEAM}
        node a 1 gpus {A100} pool plain
        node b 1 gpus {A100} pool sliced by time-slicing
        r1 red notebook share 0.5 smem 4000 demands memory,faults pending
    """)
    decisions = schedule(world, Settings())
    assert moves(decisions) == []
    assert reasons(decisions) == {"r1": Reason.NO_MATCHING_FLAVOR}
    assert messages(decisions)["r1"] == (
        "No node pool gives such a share. Its team demands memory and faults of what holds its shares. "
        "plain: shares are enforced by advisory, not with memory and faults. "
        "sliced: shares are enforced by time-slicing, not with memory and faults."
    )


def test_a_share_that_is_no_mig_instance_waits_with_the_next_one_up() -> None:
    world = parse(f"{TEAM} node a 1 gpus {A100} by mig   r1 red notebook share 0.1 smem 4000 pending")
    told = messages(schedule(world, Settings()))["r1"]
    assert told.endswith("is 1g.5gb. Ask for all of it: a guarantee of 0.142 and 4864Mi of memory.")


def test_as_many_instances_go_on_a_gpu_as_it_can_be_cut_into() -> None:
    waiting = "\n".join(f"r{i} red notebook share 0.142 smem 4864 pending" for i in range(9))
    world = parse(f"{TEAM} node a 1 gpus {A100} by mig\n{waiting}")
    assert len(moves(schedule(world, Settings()))) == 7
    world = parse(f"""{TEAM} node a 1 gpus {A100} by mig
        r1 red notebook share 0.428 smem 19456 pending
        r2 red notebook share 0.428 smem 19456 pending
        r3 red notebook share 0.142 smem 4864 pending
    """)
    assert moves(schedule(world, Settings())) == [place("r1", "a"), place("r2", "a")], "two halves leave no memory"


def test_a_smaller_share_that_mig_does_not_give_keeps_no_larger_one_waiting() -> None:
    """Else the rule that work which asks no more is not overtaken would leave the pool with MIG empty."""
    world = parse(f"""{TEAM}
        node a 1 gpus {A100} pool plain
        node b 1 gpus {A100} pool cut by mig
        b1 blue training 1 running a:0
        r1 red notebook share 0.1 smem 4000 pending since 90000
        r2 red notebook share 0.142 smem 4864 pending since 95000
    """)
    made = schedule(world, Settings())
    assert place("r2", "b") in moves(made)
    small, large = (world.workloads[name].ask for name in ("r1", "r2"))
    assert not is_given_wherever(world.inventory, small, large)
    assert is_given_wherever(world.inventory, large, small)


def test_a_stored_ask_keeps_its_demands_and_one_without_is_as_before() -> None:
    plain = ResourceRequest(share=Share(100, 100, 1))
    assert len(ask_values(plain)) == 6
    for ask in (plain, ResourceRequest(share=Share(100, 100, 1), demands=("memory", "mig"))):
        assert ask_of(ask_values(ask)) == ask


@st.composite
def _worlds(draw: st.DrawFn) -> Snapshot:
    """A few GPUs held by this and that, and shares of all sizes that demand this and that."""
    held = st.sampled_from(["", "mig", "mps", "hami", "time-slicing"])
    nodes = [
        Node(f"n{i}", f"p{i}", "A100", draw(st.integers(1, 2)), 40960, 64_000, 256_000, enforcer=draw(held))
        for i in range(draw(st.integers(1, 3)))
    ]
    sizes = st.sampled_from(
        [(100, 4000), (100, 4864), (142, 4864), (285, 9728), (428, 19456), (571, 19456), (500, 20000), (50, 900)]
    )
    demands = st.sampled_from([(), ("memory",), ("faults",), ("mps",), ("memory", "time")])
    shares = []
    for number in range(draw(st.integers(1, 14))):
        guarantee, memory = draw(sizes)
        ask = ResourceRequest(share=Share(guarantee, 1000, memory), cpu_milli=100, memory=100, demands=draw(demands))
        team = draw(st.sampled_from(["red", "blue"]))
        shares.append(Workload(f"w{number}", f"w{number}", team, Kind.NOTEBOOK, ask, seq=number))
    quotas = [Quota(team, node.pool, 4000) for team in ("red", "blue") for node in nodes]
    return Snapshot.build(0.0, nodes, [Team("red"), Team("blue")], quotas, shares)


@hypothesis_settings(deadline=None)  # the first example loads the compiled loops
@given(_worlds(), st.sampled_from(sorted(POLICIES)))
def test_every_share_is_where_it_is_given_and_what_lies_on_a_gpu_with_mig_is_a_legal_layout(
    world: Snapshot, policy: str
) -> None:
    made = mig.geometry("A100", 40960)
    assert made is not None
    for _ in range(2):
        world = world.after(decide(world, Settings(policy=policy)))
    nodes = {node.name: node for node in world.inventory.nodes}
    instances: dict[tuple[str, int], list[str]] = {}
    for workload in world.workloads.values():
        for worker in workload.placement:
            node, share = nodes[worker.node], workload.ask.share
            assert share is not None
            enforcer = Enforcer(node.enforcer or "advisory")
            assert meets(enforcer, workload.ask.demands)
            told = part(enforcer, share, Device(node.model, node.gpu_memory))
            assert isinstance(told, Part)
            if told.profile:
                instances.setdefault((worker.node, worker.gpus[0]), []).append(told.profile)
    for names in instances.values():
        assert _has_a_legal_layout(made, names), names


def _has_a_legal_layout(made: mig.Geometry, names: list[str], layout: mig.Layout | None = None) -> bool:
    """Whether these instances fit a GPU some way: every place of each is tried."""
    layout = mig.Layout(made) if layout is None else layout
    if not names:
        return layout.is_legal
    profile = made.profile(names[0])
    tried = (
        mig.Layout(made, tuple(sorted((*layout.instances, mig.Instance(profile, start)), key=lambda one: one.start)))
        for start in profile.starts
    )
    return any(new.is_legal and _has_a_legal_layout(made, names[1:], new) for new in tried)
