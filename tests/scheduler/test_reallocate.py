"""Trainings go where they asked to run, if nothing that waits could use the room; none is displaced."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.invariants.check import INVARIANTS, check_these
from controlplane.invariants.state import Round, State
from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Decision, Evict, EvictReason, Shrink
from scheduler.model.partial_cycle import PartialCycle
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import Gang, Phase
from scheduler.preemption.moving import as_asked
from tests.worlds import evict, moves, parse, place, shrink

RULES = Settings()
WISH = EvictReason.REALLOCATED
SPREAD = """
    node a,b,c,d 4 gpus   node e {} gpus   team red nominal 16   team blue nominal 16
    fit red training 1 x 4 running a b c d {} goes {}
"""
SAVES = "saves 600"


def spread(words: str = SAVES, shape: str = "4", free: int = 4, more: str = "") -> Snapshot:
    return parse(SPREAD.format(free, words, shape) + more)


def left(world: Snapshot, uid: str) -> Snapshot:
    """Its workers are gone, and it is queued."""
    one = world.workloads[uid]
    return world.replace(changed=[replace(one, phase=Phase.QUEUED, placement=(), started_at=None)])


def kept(decisions: tuple[Decision, ...]) -> dict[str, int]:
    """Workers that are to have a place on each node."""
    (one,) = [d for d in decisions if isinstance(d, Evict)]
    nodes = [worker.node for worker in one.keeps]
    return {node: nodes.count(node) for node in sorted(set(nodes))}


def test_it_leaves_for_the_places_that_it_asked_for_which_are_kept_and_starts_there() -> None:
    world = spread()
    decisions = schedule(world, RULES)
    assert moves(decisions) == [evict("fit", WISH, "")]
    assert kept(decisions) == {"e": 4} or len(kept(decisions)) == 1
    then = world.after(decisions)
    moved = then.workloads["fit"]
    assert (moved.moving, moved.phase, moved.preempted_at, moved.goes_to) == (True, Phase.CHECKPOINTING, (), (4,))
    assert moves(schedule(then, RULES)) == []
    (where,) = kept(decisions)
    started = schedule(left(then, "fit"), RULES)
    assert moves(started) == [place("fit", where, where, where, where)]
    runs = left(then, "fit").after(started).workloads["fit"]
    assert (runs.moving, runs.goes_to, runs.off, runs.attempt) == (False, (), (), 2)


def test_the_places_are_kept_from_all_others_until_it_starts() -> None:
    world = spread()
    first = world.after(decisions := schedule(world, RULES))
    (where,) = kept(decisions)
    thief = parse("node a 4 gpus   team blue nominal 16   thief blue training 4 x 4 priority 900 pending")
    then = first.replace(changed=[replace(thief.workloads["thief"], seq=9)])
    (taken,) = moves(schedule(then, RULES))  # what it leaves and does not come back to is free for others
    assert where not in taken[2].split()
    assert moves(schedule(left(then, "fit"), RULES))[0] == place("fit", where, where, where, where)


@pytest.mark.parametrize(
    "words",
    ["", f"{SAVES} firm", f"{SAVES} started 99990", f"{SAVES} finishing", f"{SAVES} leaves 3"],
)
def test_nobody_goes_who_saves_nothing_is_firm_young_or_about_to_end(words: str) -> None:
    assert moves(schedule(spread(words), RULES)) == []


def test_where_no_nodes_have_such_room_it_stays() -> None:
    taken = "".join(f"   x{node} red training 1 firm running {node}" for node in "abcd")
    assert moves(schedule(spread(free=3, more=taken), RULES)) == []
    assert moves(schedule(spread(shape="3"), RULES)) == []  # it has four workers


def test_it_may_come_back_to_devices_that_it_has_itself() -> None:
    world = parse("""
        node a 4 gpus   node b 2 gpus   team red nominal 6
        fit red training 1 x 4 running a a b b saves 600 goes 4
    """)
    decisions = schedule(world, RULES)
    assert kept(decisions) == {"a": 4}
    then = world.after(decisions)
    assert moves(schedule(then, RULES)) == []
    assert moves(schedule(left(then, "fit"), RULES)) == [place("fit", "a", "a", "a", "a")]


def test_who_is_there_already_stays() -> None:
    assert moves(schedule(spread(shape="1,1,1,1"), RULES)) == []
    assert moves(schedule(spread(shape="1,1,1,1 off e"), RULES)) == []


def test_it_goes_where_it_was_told_to_spread() -> None:
    world = parse("""
        node a 4 gpus   node b,c 4 gpus   team red nominal 12
        fit red training 1 x 4 running a a a a saves 600 goes 2,2
    """)
    assert sorted(kept(schedule(world, RULES)).values()) == [2, 2]


def test_it_stays_off_the_nodes_that_it_asked_to_leave() -> None:
    world = parse("""
        node a,b,c 2 gpus   team red nominal 6
        fit red training 1 x 4 running a a b b saves 600 goes 2,2 off a
    """)
    assert kept(schedule(world, RULES)) == {"b": 2, "c": 2}


ELASTIC = """
    node a,b,c 2 gpus   team red nominal 6
    fit red training 1 x 2..4 running a a b b saves 600 goes 2,2 off {}
"""


def test_an_elastic_gang_gives_up_its_workers_on_that_node_only_and_grows_elsewhere() -> None:
    world = parse(ELASTIC.format("b"))
    decisions = schedule(world, RULES)
    assert moves(decisions) == [shrink("fit", 2, 3)]
    assert "where one is slow" in next(d.message for d in decisions if isinstance(d, Shrink))
    then = world.after(decisions)
    gang = then.workloads["fit"]
    assert (gang.goes_to, gang.off, gang.phase) == ((2, 2), ("b",), Phase.RUNNING)
    few = replace(gang, placement=tuple(a for a in gang.placement if not a.leaving))
    later = replace(then.replace(changed=[few]), at=then.at + 600)
    grown = schedule(later, RULES)
    assert moves(grown) == [place("fit", "c", "c")]
    assert later.after(grown).workloads["fit"].off == ()


@pytest.mark.parametrize("words", ["a", "a,b"])
def test_one_that_would_lose_its_lowest_rank_or_too_many_goes_whole(words: str) -> None:
    world = parse(ELASTIC.format(words) + "   node d,e 2 gpus")
    assert moves(schedule(world, RULES)) == [evict("fit", WISH, "")]


def test_a_gang_that_holds_more_than_its_most_gives_up_the_loosest_and_its_lowest_rank_stays() -> None:
    world = parse("""
        node a,b,c 4 gpus   team red nominal 12
        fit red training 1 x 2..4 running a a b b a c
    """)
    few = replace(world.workloads["fit"], gang=Gang(3, 2, 3))
    lowered = world.replace(changed=[few])
    decisions = schedule(lowered, RULES)
    assert moves(decisions) == [shrink("fit", 2, 3, 5)]
    assert moves(schedule(lowered.after(decisions), RULES)) == []


def test_members_of_roles_go_with_it() -> None:
    world = parse("""
        node a,b,c 4 gpus   team red nominal 12
        fit red training 1 x 2 role ps*2/cpu=4 running a a a b saves 600 goes 2
    """)
    decisions = schedule(world, RULES)
    (one,) = [d for d in decisions if isinstance(d, Evict)]
    assert [worker.rank for worker in one.keeps] == [0, 1, 2, 3]
    workers = {worker.node for worker in one.keeps if worker.rank >= 2}
    assert len(workers) == 1


def with_servers(count: int, places: str = "a a a a b b", cpu: int = 16) -> Snapshot:
    """One with two parameter servers that asks to run with so many, and as it is in all else."""
    world = parse(f"""
        node a,b 4 gpus cpu {cpu}   team red nominal 8
        fit red training 1 x 4 cpu 2 role ps*2/cpu=4 running {places} saves 600 goes 2,2
    """)
    return world.replace(changed=[replace(world.workloads["fit"], role_counts=(count,))])


@pytest.mark.parametrize("count", [1, 3, 4])
def test_it_leaves_for_another_number_of_servers_and_starts_with_so_many(count: int) -> None:
    world = with_servers(count)
    decisions = schedule(world, RULES)
    assert moves(decisions) == [evict("fit", WISH, "")]
    (one,) = [d for d in decisions if isinstance(d, Evict)]
    assert [worker.rank for worker in one.keeps] == [*[0] * count, 2, 3, 4, 5]  # each kept as what it asks
    then = world.after(decisions)
    made = Round(world, decisions, RULES, schedule)
    asked = {name: INVARIANTS[name] for name in ("S1", "S3", "S8", "S9", "S17")}
    assert check_these(State(then, before=world, round=made), asked) == ()
    assert moves(schedule(then, RULES)) == []
    changed = as_asked(then.workloads["fit"])  # as its row has it once it has left
    gone = then.replace(changed=[replace(changed, phase=Phase.QUEUED, placement=(), started_at=None)])
    started = gone.after(schedule(gone, RULES)).workloads["fit"]
    assert [worker.rank for worker in started.placement] == list(range(count + 4))
    assert [len(worker.gpus) for worker in started.placement] == [0] * count + [1] * 4
    assert (started.role_members, started.role_counts, started.attempt) == (count, (), 2)


def test_where_no_cpu_is_left_for_more_servers_it_stays() -> None:
    assert moves(schedule(with_servers(3, "a b a a b b", cpu=10), RULES)) == []
    assert moves(schedule(with_servers(3, "a b a a b b", cpu=12), RULES)) == [evict("fit", WISH, "")]


def test_one_that_has_so_many_servers_already_stays() -> None:
    assert moves(schedule(with_servers(2), RULES)) == []


def test_one_that_asks_for_another_batch_starts_again_where_it_is() -> None:
    world = parse("""
        node a,b 4 gpus   team red nominal 8
        fit red training 1 x 4 running a a b b saves 600 goes 2,2
    """)
    assert moves(schedule(world, RULES)) == []  # it is there already
    world = world.replace(changed=[replace(world.workloads["fit"], batch_wanted=512)])
    decisions = schedule(world, RULES)
    assert moves(decisions) == [evict("fit", WISH, "")]
    (one,) = [d for d in decisions if isinstance(d, Evict)]
    assert Counter(worker.node for worker in one.keeps) == {"a": 2, "b": 2}
    assert "batch of 512" in one.message
    then = world.after(decisions)
    asked = {name: INVARIANTS[name] for name in ("S1", "S3", "S8", "S9", "S17")}
    assert check_these(State(then, before=world, round=Round(world, decisions, RULES, schedule)), asked) == ()
    assert moves(schedule(then, RULES)) == []
    gone = left(then, "fit")
    started = gone.after(schedule(gone, RULES)).workloads["fit"]
    assert Counter(worker.node for worker in started.placement) == {"a": 2, "b": 2}
    assert (started.batch_wanted, started.goes_to, started.attempt) == (None, (), 2)


def test_what_waits_and_could_use_the_room_goes_first() -> None:
    """`next` could start on e, but its turn comes after one of its team that waits for more."""
    world = spread(
        shape="2,2",
        more="""
        lots red training 4 x 9 since 10 pending   next red training 4 since 20 pending
    """,
    )
    mine = [fact for fact in moves(schedule(world, RULES)) if fact[0] == "evict"]
    assert mine == [] or ("place", "next", "e") in moves(schedule(world, RULES))


def test_it_takes_no_room_of_a_planned_start() -> None:
    """The head waits for a whole node: e is its own once the firm one has ended."""
    world = parse("""
        node a,b,c,d 1 gpus   node e 8 gpus   team red nominal 20   team blue nominal 20
        fit red training 1 x 4 running a b c d saves 600 goes 4
        other blue training 4 firm running e started 96000
        head blue training 8 since 10 pending
    """)
    assert moves(schedule(world, RULES)) == []


def test_whose_budget_is_used_up_stays() -> None:
    assert moves(schedule(spread(more="   budget red month 100 120 200000"), RULES)) == []


def test_a_partial_cycle_moves_nobody() -> None:
    world = replace(spread(), scope=PartialCycle(teams=("red",)))
    assert moves(schedule(world, RULES)) == []


def test_a_node_that_is_lost_on_the_way_is_replaced_by_any_place() -> None:
    world = spread()
    decisions = schedule(world, RULES)
    (where,) = kept(decisions)
    then = left(world.after(decisions), "fit")
    nodes = [replace(n, ready=n.name != where, lost=(0,) if n.name != where else ()) for n in world.inventory.nodes]
    quotas = then.quotas
    lost = Snapshot.build(then.at, nodes, then.teams, quotas, then.workloads.values())
    (made,) = moves(schedule(lost, RULES))
    assert made[:2] == ("place", "fit")


shapes = st.sampled_from(["4", "3,1", "2,2", "2,1,1", "1,1,1,1"])
loads = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 4)), max_size=4)


@given(shapes, loads, st.sampled_from(["", "off a", "off b,c"]), st.integers(1, 3))
def test_no_move_breaks_a_rule_whatever_runs_and_waits(
    shape: str, others: list[tuple[str, int]], off: str, waiting: int
) -> None:
    more, used = "", dict.fromkeys("abcdef", 0) | dict.fromkeys("abcd", 1)
    for i, (node, gpus) in enumerate(others):
        if used[node] + gpus <= 4:
            used[node] += gpus
            more += f"   o{i} blue training {gpus} running {node} {'saves 60' if i % 2 else 'firm'}"
    more += "".join(f"   w{i} blue training {1 + i} x 2 since {i} pending" for i in range(waiting))
    world = parse(f"""
        node a,b,c,d,e,f 4 gpus   team red nominal 8   team blue nominal 16
        fit red training 1 x 4 running a b c d saves 600 goes {shape} {off}
        {more}
    """)
    decisions = schedule(world, RULES)
    made = Round(world, decisions, RULES, schedule)
    asked = {name: INVARIANTS[name] for name in ("S1", "S3", "S8", "S9", "S10", "S14", "S17", "S18")}
    assert check_these(State(world.after(decisions), before=world, round=made), asked) == ()
    gone = {d.workload for d in decisions if isinstance(d, Evict)}
    if "fit" in gone:
        then = left(world.after(decisions), "fit")
        placed = [fact for fact in moves(schedule(then, RULES)) if fact[:2] == ("place", "fit")]
        (mine,) = placed
        on = mine[2].split()
        assert sorted((on.count(n) for n in set(on)), reverse=True) == [int(n) for n in shape.split(",")]
        assert not {*on} & {*off.removeprefix("off ").split(",")}
