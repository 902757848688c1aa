"""Elastic gangs beside shares: where they get workers, what they leave alone, and when these workers leave."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Evict, EvictReason, Place, Shrink, Wait
from scheduler.model.settings import Settings
from scheduler.model.sharing import is_on_part
from scheduler.model.snapshot import COMPUTE, IDLE, MEMORY, Snapshot
from scheduler.model.workload import Phase
from tests.strategies import worlds_with_shares
from tests.worlds import moves, parse, place, shrink

RULES = Settings()
# One GPU with two notebooks that leave half of its memory, and a gang that could use two workers more.
SHARED = """
    node a 2 gpus memory 16000
    team red nominal 4   team blue nominal 4
    n1 red notebook share 0.5 smem 4000 running a:0
    n2 red notebook share 0.5 smem 4000 running a:0
"""
GANG = "g1 red training 1 gpumem 8000 x 1..1..3 role ps*1/cpu=1 running a a:1"
HARVESTED = SHARED + GANG.replace("running a a:1", "lent n1 2 running a a:1 a:0")


def lent(world: Snapshot, rules: Settings = RULES) -> list[tuple[str, int, str, tuple[int, ...], str]]:
    """The workers that a round puts on devices of others: gang, rank, place and lender."""
    placed = [d for d in schedule(world, rules) if isinstance(d, Place)]
    return [(d.workload, w.rank, w.node, w.gpus, w.lender) for d in placed for w in d.workers if w.lender]


def test_a_gang_gets_a_worker_beside_shares_and_then_nothing_changes() -> None:
    world = parse(SHARED + GANG)
    assert lent(world) == [("g1", 2, "a", (0,), "n1")]
    world = world.after(schedule(world, RULES))
    gang = replace(world.workloads["g1"], phase=Phase.RUNNING, scaled_at=None)
    assert schedule(world.replace(changed=[gang]), RULES) == ()


def test_a_member_in_a_role_lends_nothing_beside_its_share() -> None:
    with_role = SHARED.replace("n1 red notebook share 0.5 smem 4000 running a:0", "") + GANG.replace("8000", "4000")
    assert lent(parse(with_role)) == [("g1", 2, "a", (0,), "n2")]
    role = "\n    t1 red training x 1 role ps*1/share=0.4/smem=1000 running a:0 a"
    assert lent(parse(with_role + role)) == []


def test_a_gang_that_waits_starts_there() -> None:
    gang = "g1 red training 1 gpumem 8000 x 1..1..3 saves 600 pending"
    assert lent(parse(SHARED + gang + "\n f1 red training 1 running a:1")) == [("g1", 0, "a", (0,), "n1")]


def test_a_gang_that_runs_and_waits_for_its_slowest_worker_gets_none_there() -> None:
    assert lent(parse(SHARED + GANG.replace("role ps*1/cpu=1 running a a:1", "running a:1"))) == []


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("gpumem 8000", "gpumem 8001", "its memory does not fit beside the shares'"),
        ("gpumem 8000", "", "it does not say how much memory it needs"),
        ("x 1..1..3", "x 1..1..1", "it can use no more workers"),
        ("memory 16000", "memory 16000 advisory", "nothing holds the shares there to their parts"),
        ("memory 16000", "memory 16000 lost 0", "the GPU is lost"),
        ("n2 red", "n2 blue", ""),
        ("team blue nominal 4\n    n1 red", "team blue nominal 4 alone\n    n1 blue", "one team shares with no other"),
        ("smem 4000 running a:0\n    n2", "smem 4000 stopping a:0\n    n2", "one of the shares is about to leave"),
        ("0.5 smem 4000 running a:0\n    n2 red notebook share 0.5", "1 smem 4000 running a:0\n    # ", "a whole GPU"),
    ],
)
def test_where_a_gang_may_compute_beside_shares(before: str, after: str, why: str) -> None:
    text = SHARED + GANG
    assert before in text
    assert bool(lent(parse(text.replace(before, after)))) == (not why)


def test_a_policy_may_forbid_it() -> None:
    assert lent(parse(SHARED + GANG), Settings(harvest=False)) == []


def test_memory_that_goes_with_the_part_of_the_gpu_that_is_free_stays_free() -> None:
    one = SHARED.replace("n2 red notebook share 0.5 smem 4000 running a:0", "")
    assert lent(parse(one + GANG.replace("8000", "4000"))) == [("g1", 2, "a", (0,), "n1")]
    assert lent(parse(one + GANG.replace("8000", "4001"))) == []


def test_gpus_of_sleeping_replicas_are_taken_first_as_all_their_time_is_there() -> None:
    world = parse(
        SHARED.replace("2 gpus", "4 gpus")
        + "s1 red inference share 1 smem 2000 x 1..2..2 standby 1 awake 1 asleep 1 running a:2 a:3\n"
        + GANG.replace("x 1..1..3", "x 1..1..2")
    )
    assert lent(world) == [("g1", 2, "a", (3,), "s1")]


def test_a_worker_leaves_with_the_share_that_it_came_to() -> None:
    assert moves(schedule(parse(HARVESTED), RULES)) == []
    leaving = HARVESTED.replace("4000 running a:0\n    n2", "4000 stopping a:0\n    n2")
    assert moves(schedule(parse(leaving), RULES)) == [shrink("g1", 2)]
    gone = HARVESTED.replace("n1 red notebook share 0.5 smem 4000 running a:0", "")
    assert moves(schedule(parse(gone), RULES)) == [shrink("g1", 2)]


@pytest.mark.parametrize("rules", [Settings(harvest=False), RULES])
def test_it_leaves_where_harvest_is_no_longer_allowed_or_nothing_holds_the_shares(rules: Settings) -> None:
    text = HARVESTED if not rules.harvest else HARVESTED.replace("memory 16000", "memory 16000 advisory")
    assert shrink("g1", 2) in moves(schedule(parse(text), rules))


def test_a_share_that_lacks_only_the_memory_of_such_a_worker_gets_it() -> None:
    one = HARVESTED.replace("n2 red notebook share 0.5 smem 4000 running a:0", "")
    waits = one + "\n n3 red notebook share 0.5 smem 5000 pending"
    assert moves(schedule(parse(waits), RULES)) == [shrink("g1", 2), place("n3", "a", after=("g1",))]
    assert moves(schedule(parse(waits.replace("smem 5000", "smem 4000")), RULES)) == [place("n3", "a")]
    assert moves(schedule(parse(waits.replace("smem 5000", "smem 13000")), RULES)) == []


def test_a_gang_that_cannot_go_on_without_it_saves_and_leaves() -> None:
    text = HARVESTED.replace("n2 red notebook share 0.5 smem 4000 running a:0", "").replace("x 1..1..3", "x 2..2..3")
    (left,) = (
        d
        for d in schedule(parse(text + "\n n3 red notebook share 0.5 smem 5000 pending"), RULES)
        if isinstance(d, Evict)
    )
    assert (left.workload, left.reason) == ("g1", EvictReason.TAKEN_BACK)


def test_harvest_changes_no_other_decision_and_no_account() -> None:
    has_lent: list[bool] = []

    @given(worlds_with_shares())
    @settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
    def holds(world: Snapshot) -> None:
        plain = schedule(world, Settings(harvest=False))
        with_harvest = schedule(world, RULES)
        placed = [d for d in with_harvest if isinstance(d, Place) and any(w.lender for w in d.workers)]
        has_lent.append(bool(placed))
        started = {d.workload for d in placed if world.workloads[d.workload].phase is Phase.QUEUED}
        others = [d for d in plain if not (isinstance(d, Wait) and d.workload in started)]
        assert [d for d in with_harvest if d not in placed] == others
        after = world.after(with_harvest)
        assert (after.columns.gpu[IDLE, MEMORY] <= world.inventory.gpu_capacity[MEMORY]).all()
        own = sum(w.ask.milli for d in placed for w in [world.workloads[d.workload]] for a in d.workers if not a.lender)
        taken = after.columns.gpu[:, COMPUTE] - world.after(plain).columns.gpu[:, COMPUTE]
        assert taken.sum(axis=1).tolist() == [own, own]
        seats = [(a.node, a.gpus) for w in after.workloads.values() for a in w.placement if a.lender]
        assert len(seats) == len(set(seats))
        for worker in (a for w in after.workloads.values() for a in w.placement if a.lender):
            assert is_on_part(after.workloads[worker.lender])
        again = schedule(after, RULES)
        evicted = {d.workload for d in again if isinstance(d, Evict)}  # a share leaves, and with it what it lent to
        stays = {p.workload for p in placed if not evicted.intersection(w.lender for w in p.workers)}
        assert not [d for d in again if isinstance(d, Shrink) and d.workload in stays]

    holds()
    assert sum(has_lent) >= 0.1 * len(has_lent), f"harvested in {sum(has_lent)} of {len(has_lent)} worlds"
