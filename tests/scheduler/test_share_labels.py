"""Shares that go together, apart or alone: the labels of a share, from the round's view."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gpushare.gpu import WHOLE, Labels, Share
from scheduler.cycle.schedule import schedule
from scheduler.fit.capacity import allowed_nodes, in_all, per_node
from scheduler.fit.gang import Goal, find_places
from scheduler.model.decision import Place, Reason, Wait
from scheduler.model.demand import Demand, Shape
from scheduler.model.settings import Settings
from scheduler.model.snapshot import FUTURE_IDLE, IDLE, Node, Snapshot
from scheduler.model.team import Quota, Team
from scheduler.model.workload import Gang, Kind, Level, Phase, ResourceRequest, Topology, Workload, least
from scheduler.state.free import is_idle
from scheduler.state.ledger import Ledger
from scheduler.state.pending import equivalence_of
from scheduler.state.plan import Plan
from tests.worlds import messages, moves, parse, place, reasons

TEAMS = """
    team red nominal 8   team blue nominal 8
"""
POLICIES = ("weft", "dragon", "edragon", "fifo", "fgd")  # those that share GPUs


def gpus_of(world: Snapshot) -> dict[str, list[tuple[str, int]]]:
    """Where a round puts shares: node and device by workload."""
    placed = [d for d in schedule(world, Settings()) if isinstance(d, Place)]
    return {d.workload: [(w.node, w.gpus[0]) for w in d.workers] for d in placed}


def test_shares_with_one_affinity_go_on_one_gpu_and_the_first_on_an_idle_one() -> None:
    world = parse(
        TEAMS
        + """
        node a 3 gpus
        b1 blue notebook share 0.2 running a:0
        r1 red notebook share 0.3 affinity web pending
        r2 red notebook share 0.3 affinity web pending
        r3 red notebook share 0.5 pending
    """
    )
    found = gpus_of(world)
    assert found["r1"] == found["r2"] != [("a", 0)]
    assert found["r3"] == [("a", 0)]


def test_an_affinity_waits_for_room_on_its_gpu_though_others_are_idle() -> None:
    world = parse(
        TEAMS
        + """
        node a 2 gpus
        r1 red notebook share 0.8 affinity web running a:0
        r2 red notebook share 0.3 affinity web pending
    """
    )
    decisions = schedule(world, Settings())
    assert moves(decisions) == []
    assert reasons(decisions) == {"r2": Reason.WAITING_FOR_CAPACITY}
    assert "labels of shares keep it off them (affinity web: its shares lie on GPU 0 of a)" in messages(decisions)["r2"]


def test_an_affinity_without_an_idle_gpu_for_its_first_share_says_so() -> None:
    world = parse(
        TEAMS
        + """
        node a 1 gpus
        b1 blue notebook share 0.2 running a:0
        r1 red notebook share 0.3 affinity web pending
    """
    )
    assert "no share with it has a GPU yet, and the first one needs" in messages(schedule(world, Settings()))["r1"]


def test_shares_with_one_anti_affinity_go_on_different_gpus_also_within_one_gang() -> None:
    world = parse(TEAMS + "node a 4 gpus   r1 red training x 3 share 0.2 apart ps pending")
    assert len(set(gpus_of(world)["r1"])) == 3


def test_a_gang_with_an_anti_affinity_waits_while_there_are_too_few_gpus() -> None:
    world = parse(
        TEAMS
        + """
        node a 3 gpus
        r1 red notebook share 0.2 apart ps running a:0
        r2 red training x 3 share 0.2 apart ps pending
    """
    )
    decisions = schedule(world, Settings())
    assert moves(decisions) == []
    assert "labels of shares keep it off them (anti-affinity ps: others with it lie there)" in messages(decisions)["r2"]


def test_more_workers_than_gpus_are_told_that_they_never_fit_apart() -> None:
    world = parse(TEAMS + "node a 2 gpus   r1 red training x 3 share 0.2 apart ps pending")
    decisions = schedule(world, Settings())
    assert reasons(decisions) == {"r1": Reason.NO_MATCHING_FLAVOR}
    assert "each on another GPU (anti-affinity ps); the whole cluster could hold 2." in messages(decisions)["r1"]


def test_a_gang_with_an_affinity_that_no_gpu_holds_is_told_that_it_never_fits() -> None:
    world = parse(TEAMS + "node a 8 gpus   r1 red training x 4 share 0.3 affinity web pending")
    assert "on one GPU (affinity web); the whole cluster could hold 3." in messages(schedule(world, Settings()))["r1"]


def test_an_exclusion_keeps_all_others_off_its_gpu_and_lets_its_own_in() -> None:
    world = parse(
        TEAMS
        + """
        node a 2 gpus
        r1 red notebook share 0.2 exclusion mine running a:0
        r2 red notebook share 0.2 exclusion mine pending
        r3 red notebook share 0.2 exclusion other pending
    """
    )
    assert gpus_of(world) == {"r2": [("a", 0)], "r3": [("a", 1)]}


def test_a_share_without_an_exclusion_waits_while_all_gpus_are_kept_for_those_with_one() -> None:
    world = parse(
        TEAMS
        + """
        node a 1 gpus
        r1 red notebook share 0.2 exclusion mine running a:0
        b1 blue notebook share 0.2 pending
    """
    )
    assert moves(schedule(world, Settings())) == []
    assert "(exclusion: only shares with the same exclusion lie" in messages(schedule(world, Settings()))["b1"]


def test_a_label_is_its_teams_own() -> None:
    world = parse(
        TEAMS
        + """
        node a 2 gpus
        r1 red notebook share 0.2 exclusion x running a:0
        b1 blue notebook share 0.2 exclusion x pending
    """
    )
    assert gpus_of(world) == {"b1": [("a", 1)]}
    world = parse(
        TEAMS
        + """
        node a 2 gpus
        r1 red notebook share 0.2 apart x running a:0
        b1 blue notebook share 0.2 apart x pending
    """
    )
    assert gpus_of(world) == {"b1": [("a", 0)]}


def test_beside_one_that_still_leaves_it_starts_only_after_it() -> None:
    for labels in (("apart x", "apart x"), ("exclusion y", ""), ("", "exclusion y")):
        world = parse(
            TEAMS
            + f"""
            node a 1 gpus
            r1 red notebook share 0.3 {labels[0]} leaving a:0
            r2 red notebook share 0.3 {labels[1]} pending
        """
        )
        assert moves(schedule(world, Settings())) == [place("r2", "a", after=("r1",))]


def test_what_leaves_draws_no_share_of_its_affinity_to_it() -> None:
    world = parse(
        TEAMS
        + """
        node a 2 gpus
        r1 red notebook share 0.3 affinity web leaving a:0
        r2 red notebook share 0.3 affinity web pending
    """
    )
    assert gpus_of(world) == {"r2": [("a", 1)]}


def test_a_team_that_gets_its_quota_back_makes_those_leave_that_an_exclusion_keeps_it_from() -> None:
    world = parse("""
        team red nominal 1   team blue nominal 0
        node a 1 gpus
        b1 blue notebook share 0.3 exclusion x running a:0 started 100
        b2 blue notebook share 0.3 exclusion x running a:0 started 100
        r1 red notebook share 0.3 pending
    """)
    placed = [fact for fact in moves(schedule(world, Settings())) if fact[0] == "place"]
    assert placed == [place("r1", "a", after=("b1", "b2"))]


def test_a_service_with_an_affinity_has_all_its_replicas_on_one_gpu_whatever_it_is_spread_over() -> None:
    world = parse(
        TEAMS + "node a 4 gpus   node b 4 gpus   r1 red inference x 1..3..8 share 0.3 affinity web spread gpu pending"
    )
    assert len(set(gpus_of(world)["r1"])) == 1


def test_a_service_with_an_anti_affinity_has_each_replica_on_a_gpu_of_its_own() -> None:
    world = parse(TEAMS + "node a 2 gpus   node b 2 gpus   r1 red inference x 1..4..8 share 0.3 apart web pending")
    assert len(set(gpus_of(world)["r1"])) == 4


def test_a_gang_borrows_no_time_beside_a_share_with_an_exclusion() -> None:
    world = """
        team red nominal 4
        node a 2 gpus memory 16000
        n1 red notebook share 0.5 smem 4000 {} running a:0
        n2 red notebook share 0.5 smem 4000 {} running a:0
        f1 red training 1 running a:1
        r1 red training 1 x 1..1..3 gpumem 8000 saves 600 pending
    """
    (lent,) = schedule(parse(world.format("", "")), Settings())
    (kept,) = schedule(parse(world.format("exclusion x", "exclusion x")), Settings())
    assert isinstance(lent, Place)
    assert lent.workers[0].lender == "n1"
    assert isinstance(kept, Wait)


def test_labels_part_the_classes_in_which_equal_asks_wait_behind_each_other() -> None:
    world = parse(
        TEAMS
        + """
        node a 2 gpus
        r1 red notebook share 0.8 affinity web running a:0
        r2 red notebook share 0.3 affinity web pending
        r3 red notebook share 0.3 pending
        r4 red notebook share 0.3 affinity web pending
    """
    )
    texts = {equivalence_of(world.workloads[uid])[0] for uid in ("r2", "r3", "r4")}
    assert len(texts) == 2
    assert gpus_of(world) == {"r3": [("a", 1)]}


def test_labels_of_a_gang_with_roles_are_refused_with_the_fix() -> None:
    world = parse(TEAMS + "node a 4 gpus   r1 red training x 1 share 0.3 exclusion x role ps*1/cpu=1 pending")
    decisions = schedule(world, Settings())
    assert reasons(decisions) == {"r1": Reason.MISCONFIGURED}
    assert "Remove the labels or the roles." in messages(decisions)["r1"]


def test_a_back_end_that_chooses_the_device_itself_gives_no_share_with_labels() -> None:
    world = parse(TEAMS + "node a 2 gpus only-shares by mps   r1 red notebook share 0.3 smem 4000 exclusion x pending")
    decisions = schedule(world, Settings())
    assert reasons(decisions) == {"r1": Reason.NO_MATCHING_FLAVOR}
    assert "MPS chooses the GPU of a share by itself" in messages(decisions)["r1"]


# --- at random ------------------------------------------------------------------------------------

WORDS = st.sampled_from(("", "", "a", "b"))
LABELS = st.builds(Labels, WORDS, WORDS, WORDS)


@st.composite
def _worlds(draw: st.DrawFn) -> Snapshot:
    teams = [Team("red", None, True), Team("blue", None, draw(st.booleans()))]
    machines = st.tuples(st.integers(1, 3), st.sampled_from((4, 64)))
    nodes = [
        Node(f"n{i}", "gpu", "gpu", gpus, 16_000, cpu * 1000, 256_000)
        for i, (gpus, cpu) in enumerate(draw(st.lists(machines, min_size=1, max_size=3)))
    ]
    sizes = st.tuples(st.sampled_from((200, 300, 500, WHOLE)), st.integers(1, 3))
    work = [
        Workload(
            f"w{i}", f"w{i}", draw(st.sampled_from(("red", "blue"))), draw(st.sampled_from(tuple(Kind))),
            ResourceRequest(share=Share(milli, WHOLE, 0, draw(LABELS)), cpu_milli=1000)
            if milli < WHOLE else ResourceRequest(gpus=1, gpu_memory=1000),
            gang=Gang(count, draw(st.integers(1, count)), count), seq=i, submitted_at=9.0, queued_at=9.0,
            topology=draw(st.sampled_from((Topology(), Topology(require=Level.NODE), Topology(prefer=Level.RACK)))),
            spread=draw(st.sampled_from(("", "gpu", "node"))),
        )
        for i, (milli, count) in enumerate(draw(st.lists(sizes, min_size=1, max_size=9)))
    ]  # fmt: skip
    return Snapshot.build(100.0, nodes, teams, [Quota("red", "gpu", WHOLE), Quota("blue", "gpu", WHOLE)], work)


def _on_devices(world: Snapshot, *, is_later: bool) -> dict[tuple[str, int], list[tuple[str, Labels]]]:
    """What shares lie on each device: once those that leave have left, or while none that waits for them is there."""
    found: dict[tuple[str, int], list[tuple[str, Labels]]] = defaultdict(list)
    for workload in world.workloads.values():
        for worker in workload.placement:
            waits = worker.reserved or workload.phase is Phase.RESERVED
            if (workload.ask.share or worker.lender) and not (worker.leaving if is_later else waits):
                found[worker.node, worker.gpus[0]].append((workload.team, workload.ask.labels))
    return found


def _run(world: Snapshot, names: frozenset[str]) -> Snapshot:
    """As if all that was admitted ran by now."""
    return Snapshot.build(
        world.at + 60.0, world.inventory.nodes, world.teams, world.quotas,
        [replace(w, phase=Phase.RUNNING, started_at=world.at) if w.id in names and w.phase is Phase.ADMITTED else w
         for w in world.workloads.values()],
    )  # fmt: skip


@hypothesis_settings(deadline=None)  # the first example loads the compiled loops
@given(_worlds(), st.sampled_from(POLICIES), st.booleans())
def test_never_do_labels_on_one_gpu_contradict_each_other(world: Snapshot, policy: str, is_scored: bool) -> None:
    if is_scored:
        asks = (ResourceRequest(share=Share(300, 300, 0)), ResourceRequest(gpus=1))
        world = replace(world, demand=Demand(tuple(Shape(ask, 10, 20) for ask in asks)))
    for _ in range(3):
        world = world.after(schedule(world, Settings(policy=policy)))
        for is_later in (False, True):
            of_affinity: dict[tuple[str, str], set[tuple[str, int]]] = defaultdict(set)
            for at, shares in _on_devices(world, is_later=is_later).items():
                assert len({(team if labels.exclusion else "", labels.exclusion) for team, labels in shares}) == 1
                apart = [(team, labels.anti_affinity) for team, labels in shares if labels.anti_affinity]
                assert len(apart) == len(set(apart))
                for team, labels in shares:
                    if labels.affinity:
                        of_affinity[team, labels.affinity].add(at)
            assert not is_later or all(len(devices) == 1 for devices in of_affinity.values())
        world = _run(world, frozenset(world.workloads))


@hypothesis_settings(deadline=None)
@given(_worlds(), st.sampled_from((IDLE, FUTURE_IDLE)))
def test_as_many_are_placed_as_are_counted_by_node(world: Snapshot, when: int) -> None:
    world = world.after(schedule(world, Settings()))
    plan = Plan(world)
    flavor = world.inventory.flavors[0]
    for workload in world.workloads.values():
        if not workload.ask.share or workload.placement:
            continue
        free = plan.open_to(workload, plan.free[when], when)
        nodes = per_node(world.inventory, workload.ask, free, allowed_nodes(world.inventory, workload.ask, flavor))
        anywhere = replace(workload, topology=Topology(), kind=Kind.TRAINING)
        for count in range(1, 8):
            found = find_places(world.inventory, anywhere, Goal(count, count), free, flavor)
            assert (found is not None) == (count <= in_all(workload.ask, nodes))
        for node in np.flatnonzero(nodes).tolist():
            only = np.arange(len(nodes)) == node
            most = int(nodes[node])
            assert find_places(world.inventory, anywhere, Goal(most, most), free, flavor, only) is not None
            assert find_places(world.inventory, anywhere, Goal(most + 1, most + 1), free, flavor, only) is None


@hypothesis_settings(deadline=None)
@given(_worlds())
def test_taking_a_decision_back_leaves_all_open_that_was(world: Snapshot) -> None:
    plan = Plan(world, Ledger(world))
    asking = [w for w in world.workloads.values() if w.ask.share]
    fresh = is_idle(plan.free[IDLE].gpu)

    def seen() -> list[list[int]]:
        if plan.tenants is None:
            return []
        return [plan.tenants.kept_from(w, when, fresh).tolist() for w in asking for when in (IDLE, FUTURE_IDLE)]

    before, mark = seen(), plan.mark()
    for workload in asking:
        free = plan.open_to(workload, plan.free[IDLE], IDLE)
        goal = Goal(least(workload), workload.missing)
        places = find_places(world.inventory, workload, goal, free, world.inventory.flavors[0])
        if places is not None:
            plan.place(workload, places)
    plan.rollback(mark)
    assert seen() == before


def test_without_labels_a_plan_follows_no_tenants_of_teams_that_share_with_all() -> None:
    assert Plan(parse(TEAMS + "node a 1 gpus   r1 red notebook share 0.3 pending")).tenants is None


@pytest.mark.parametrize("labels", ["affinity web", "apart web", "exclusion web"])
def test_a_share_with_labels_that_are_nobody_elses_goes_to_an_idle_gpu_or_beside_others(labels: str) -> None:
    world = parse(
        TEAMS + f"node a 2 gpus   b1 blue notebook share 0.3 running a:0   r1 red notebook share 0.3 {labels} pending"
    )
    assert gpus_of(world) == {"r1": [("a", 0 if labels.startswith("apart") else 1)]}
