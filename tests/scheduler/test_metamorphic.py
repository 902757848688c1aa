"""What must not matter: names, scale, time itself, what is over (V1 to V6 of docs/promises.md)."""

from dataclasses import replace

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Decision, Evict, Place, Wait
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Node, Snapshot
from scheduler.model.workload import Kind, Phase, ResourceRequest, Workload
from scheduler.state.session import Session
from tests.strategies import worlds
from tests.worlds import moves

RULES = Settings()
examples = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def codes(decisions: tuple[Decision, ...]) -> list[tuple[str, str]]:
    """Which workload waits for which reason."""
    return [(d.workload, d.reason.value) for d in decisions if isinstance(d, Wait)]


def built(world: Snapshot, **parts: object) -> Snapshot:
    """The same world with some of its parts replaced, from scratch."""
    values: dict[str, object] = {
        "at": world.at, "nodes": world.inventory.nodes, "teams": world.teams, "quotas": world.quotas,
        "workloads": world.workloads.values(), "use": world.use, "budgets": world.budgets,
    }  # fmt: skip
    return Snapshot.build(**{**values, **parts})  # type: ignore[arg-type]


@examples
@given(worlds())
def test_the_names_of_nodes_do_not_matter(world: Snapshot) -> None:
    name_of = {node.name: f"{9 - i}-{node.name[::-1]}" for i, node in enumerate(world.inventory.nodes)}
    nodes = [replace(node, name=name_of[node.name]) for node in world.inventory.nodes]
    assume(all(node.rack and node.zone for node in nodes))  # else its name is its rack
    moved = [
        replace(w, placement=tuple(replace(a, node=name_of[a.node]) for a in w.placement))
        for w in world.workloads.values()
    ]
    for one, other in zip(
        schedule(world, RULES), schedule(built(world, nodes=nodes, workloads=moved), RULES), strict=True
    ):
        if isinstance(one, Place):
            one = replace(one, workers=tuple(replace(a, node=name_of[a.node]) for a in one.workers))
        if isinstance(one, Evict):
            one = replace(one, keeps=tuple(replace(a, node=name_of[a.node]) for a in one.keeps))
        assert one == other


@examples
@given(worlds())
def test_twice_as_much_of_everything_is_decided_alike(world: Snapshot) -> None:
    """As far as entitlements come out twice as large: they are whole thousandths, and 5/9 GPU is 556, 10/9 is 1111.

    Teams that are entitled to the same, or that hold what they are entitled to, may then stand in another order. About
    one world in fifteen is so, as decayed use makes the weights uneven.
    """
    small, large = _once_and_twice(world)
    is_due = {key: 2 * milli for key, milli in Session(small, RULES).entitlement.shares.items()}
    assume(Session(large, RULES).entitlement.shares == is_due)
    once, twice = schedule(small, RULES), schedule(large, RULES)
    assert moves(once) == moves(twice)
    assert codes(once) == codes(twice)


@examples
@given(worlds())
def test_twice_as_much_of_everything_entitles_to_twice_as_much_but_for_rounding(world: Snapshot) -> None:
    small, large = _once_and_twice(world)
    twice = Session(large, RULES).entitlement.shares
    for key, milli in Session(small, RULES).entitlement.shares.items():
        assert abs(twice[key] - 2 * milli) <= 2 * len(world.teams)  # a thousandth for each team and division


def _once_and_twice(world: Snapshot) -> tuple[Snapshot, Snapshot]:
    # A share of one GPU cannot be twice as large.
    kept = [w for w in world.workloads.values() if w.ask.gpus and not any(role.ask.share for role in w.roles)]
    # One GPU alone needs no link, two may: so none here but that of the two that were one.
    before = [replace(node, nvlink=0) for node in world.inventory.nodes]
    quotas = [
        replace(
            q,
            nominal=2 * q.nominal,
            borrowing=None if q.borrowing is None else 2 * q.borrowing,
            lending=None if q.lending is None else 2 * q.lending,
        )
        for q in world.quotas
    ]
    use = [replace(u, milli=2 * u.milli) for u in world.use]
    nodes, workloads = [_twice(node) for node in before], [_double(w) for w in kept]
    once = built(world, nodes=before, workloads=kept)
    return once, built(world, nodes=nodes, quotas=quotas, workloads=workloads, use=use)


def _twice(node: Node) -> Node:
    lost = tuple(index for one in node.lost for index in (2 * one, 2 * one + 1))
    return replace(
        node, gpus=2 * node.gpus, nvlink=2 * node.nvlink or 2, lost=lost, cpu_milli=2 * node.cpu_milli,
        memory=2 * node.memory,
    )  # fmt: skip


def _double(w: Workload) -> Workload:
    ask, roles = _double_ask(w.ask), tuple(replace(role, ask=_double_ask(role.ask)) for role in w.roles)
    placement = tuple(replace(a, gpus=tuple(g for one in a.gpus for g in (2 * one, 2 * one + 1))) for a in w.placement)
    return replace(w, ask=ask, roles=roles, placement=placement)


def _double_ask(ask: ResourceRequest) -> ResourceRequest:
    return replace(ask, gpus=2 * ask.gpus, cpu_milli=2 * ask.cpu_milli, memory=2 * ask.memory)


@examples
@given(worlds(), st.integers(-50_000, 10**7))
def test_the_time_of_day_does_not_matter(world: Snapshot, seconds: int) -> None:
    def later(at: float | None) -> float | None:
        return None if at is None else at + seconds

    shifted = [
        replace(
            w,
            submitted_at=w.submitted_at + seconds,
            queued_at=w.queued_at + seconds,
            started_at=later(w.started_at),
            checkpointed_at=later(w.checkpointed_at),
            not_before=later(w.not_before),
            deadline=later(w.deadline),
        )
        for w in world.workloads.values()
    ]
    once, then = schedule(world, RULES), schedule(built(world, at=world.at + seconds, workloads=shifted), RULES)
    assert [d for d in once if not isinstance(d, Wait)] == [d for d in then if not isinstance(d, Wait)]
    assert codes(once) == codes(then)


@examples
@given(worlds(), st.data())
def test_what_is_on_hold_or_over_changes_nothing(world: Snapshot, data: st.DataObject) -> None:
    waiting = sorted(w.id for w in world.workloads.values() if w.phase is Phase.QUEUED)
    assume(waiting)
    uid = data.draw(st.sampled_from(waiting))
    held = world.replace(changed=[replace(world.workloads[uid], phase=Phase.HELD)])
    assert schedule(held, RULES) == schedule(world.replace(gone=[uid]), RULES)


@examples
@given(worlds(max_workloads=8), st.data())
def test_one_more_empty_node_keeps_no_claimant_waiting(world: Snapshot, data: st.DataObject) -> None:
    """For one claimant alone, where nobody may be made to leave; several may change places in the order of teams."""
    waiting = sorted(w.id for w in world.workloads.values() if w.phase is Phase.QUEUED)
    assume(waiting)
    uid = data.draw(st.sampled_from(waiting))
    others = [replace(w, preemptible=False) for w in world.workloads.values() if w.phase is not Phase.QUEUED]
    alone = built(world, workloads=[*others, world.workloads[uid]])
    node = replace(data.draw(st.sampled_from(world.inventory.nodes)), name="more", ready=True, schedulable=True)
    more = built(alone, nodes=[*world.inventory.nodes, replace(node, lost=())])
    if uid in _given(schedule(alone, RULES)):
        assert uid in _given(schedule(more, RULES))


@examples
@given(worlds(), st.integers(0, 12))
def test_a_queue_submitted_in_two_parts_is_admitted_like_one_submitted_at_once(world: Snapshot, part: int) -> None:
    """For one team and equal work of one class, where nobody may be made to leave: then only the order counts.

    And without planned starts: what starts beside one in the same round must end before it in nine of ten cases, while
    of what ran before the expected end counts. What starts in two rounds then may differ, and delays no head in either
    (test_backfill.py).
    """
    rules = replace(RULES, reservations_per_pool=0)
    same = [
        replace(
            w, team="t1", kind=Kind.TRAINING, priority=0, gang=replace(w.gang, min=w.gang.count), attained=0,
            failures=0, deadline=None, preemptible=False, at_risk=False,
        )
        for w in world.workloads.values() if w.phase is Phase.QUEUED and not w.unmet and w.not_before is None
    ]  # fmt: skip
    first, rest = same[:part], same[part:]
    quotas = [replace(q, nominal=12_000, borrowing=None, lending=None) for q in world.quotas if q.team == "t1"]
    at_once = built(world, workloads=same, quotas=quotas)
    begun = built(world, workloads=first, quotas=quotas)
    begun = begun.after(schedule(begun, rules))
    in_parts = begun.replace(changed=rest)
    assert _running(at_once.after(schedule(at_once, rules))) == _running(in_parts.after(schedule(in_parts, rules)))


def _given(decisions: tuple[Decision, ...]) -> set[str]:
    return {d.workload for d in decisions if isinstance(d, Place)}


def _running(world: Snapshot) -> set[str]:
    return {w.id for w in world.workloads.values() if w.placement}
