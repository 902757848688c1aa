"""What a full round leaves for those who ask: the order of the queue, what each was told, what is held."""

from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, given, settings

from scheduler.cycle.schedule import decide
from scheduler.explain.explanation import explain, explain_kept
from scheduler.explain.places import has_place, numbered
from scheduler.explain.roundview import Note, RoundView, reopened
from scheduler.model.decision import Wait
from scheduler.model.history import UNKNOWN
from scheduler.model.partial_cycle import PartialCycle
from scheduler.model.settings import Settings
from scheduler.model.snapshot import FUTURE_IDLE, Snapshot
from scheduler.model.workload import Phase, Workload
from scheduler.policies import decide_round, outcomes, with_policy
from scheduler.shortcuts import NONE
from scheduler.state.plan import Plan
from scheduler.state.session import Session
from tests.scheduler.test_shortcuts import crowded
from tests.strategies import worlds
from tests.worlds import parse

RULES = Settings(reservations_per_pool=2)
FULL = """
    node a 4 gpus
    team red nominal 4   team blue nominal 4
    r1 red training 4 running a
    r2 red training 2   b1 blue training 1   r3 red training 1
"""


def view_of(world: Snapshot, rules: Settings = RULES) -> RoundView:
    note = Note()
    decide_round(world, rules, None, note)
    assert note.view is not None
    return note.view


def told(view: RoundView) -> list[tuple[int, object]]:
    lineup = view.lineup
    return [(seq, lineup.refusals[at]) for seq, at in zip(lineup.seqs.tolist(), lineup.told.tolist(), strict=True)]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(crowded())
def test_the_order_is_that_of_a_round_in_which_each_has_its_turn(world: Snapshot) -> None:
    note, each = Note(), Note()
    with_all = decide(world, RULES, note=note)
    without = decide(world, RULES, shortcuts=NONE, note=each)
    assert note.view is not None
    assert each.view is not None
    assert {type(d) for d in with_all[0]} == {type(d) for d in without[0]}
    assert told(note.view) == told(each.view)
    assert np.array_equal(note.view.columns.gpu, each.view.columns.gpu)
    assert note.view.held == each.view.held


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(worlds(12))
def test_what_a_round_that_moves_nothing_leaves_says_what_the_next_one_would(world: Snapshot) -> None:
    for _ in range(6):
        decided, _ = decide(world, RULES)
        moving = [d for d in decided if type(d).__name__ != "Wait"]
        world = world.after(decided)
        if not moving:
            break
    view = view_of(world)
    session = Session(world, RULES)
    turns = [(w.seq, refusal) for w, refusal in outcomes(session) if refusal is not None]
    assert moving or told(view) == turns


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(worlds(12))
def test_what_is_held_is_counted_back_as_it_was(world: Snapshot) -> None:
    note = Note()
    decide(world, RULES, note=note)
    assert note.view is not None
    held = note.view.held
    plan = Plan(world)
    again = reopened(world, plan.usage.own(), RULES).plan.usage
    assert (again.total, again.firm) == (plan.usage.total, plan.usage.firm)
    for team, pool in plan.usage.tree.quota_nodes:
        assert again.available(team, pool, FUTURE_IDLE) == plan.usage.available(team, pool, FUTURE_IDLE)
    assert all(milli for *_, milli in held)


def test_a_partial_cycle_leaves_no_view() -> None:
    world = replace(parse(FULL), scope=PartialCycle((), (), ()))
    note = Note()
    decide(world, RULES, note=note)
    assert note.view is None


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(worlds(12))
def test_an_explanation_of_what_a_round_left_is_that_of_a_round_of_its_own(world: Snapshot) -> None:
    for _ in range(6):
        decided, _ = decide(world, RULES)
        if all(isinstance(decision, Wait) for decision in decided):
            break
        world = world.after(decided)
    else:
        return
    view = view_of(world)
    of_seq = {w.seq: w for w in world.workloads.values()}
    line = [(of_seq[seq], refusal) for seq, refusal in told(view)]
    places = {w.id: position for position, w, _ in numbered(line)}
    for number, (asked, refusal) in enumerate(line):
        if asked.phase in (Phase.ADMITTED, Phase.STARTING):  # a service; it is told that its pods come up
            continue
        before = [w for w, other in line[:number] if has_place(other)]
        place = places[asked.id], sum(has_place(other) for _, other in line)
        counts = len(before), sum(w.team == asked.team for w in before)
        found = explain_kept(reopened(beside(world, view, asked), view.held, RULES), asked, refusal, place, counts)
        expected = explain(world, asked.id, RULES)
        if asked.ask.share is not None:  # which shares lie side by side is not in the view
            found, expected = (replace(one, checks=one.checks[:2] + one.checks[3:]) for one in (found, expected))
        assert found == expected


def beside(world: Snapshot, view: RoundView, asked: Workload) -> Snapshot:
    """What a question about one workload reads: its team's, and all that leave or wait for what leaves."""
    unsettled = Plan(world).ledger.unsettled
    few = {uid: w for uid, w in world.workloads.items() if w.team == asked.team or uid in unsettled}
    return replace(world, workloads=few, columns=view.columns, history=UNKNOWN)


def test_under_a_reference_policy_it_is_noted_as_well() -> None:
    view = view_of(parse(FULL), with_policy(RULES, "fifo"))
    assert [seq for seq, _ in told(view)] == [w.seq for w in parse(FULL).workloads.values()][1:]
