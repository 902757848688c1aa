"""S6 and the labels of shares: an alarm that is tested, and rounds in random worlds that never raise it."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from controlplane.invariants.check import INVARIANTS, check_these
from controlplane.invariants.runs import s6_placement
from controlplane.invariants.state import Round, State
from gpushare.gpu import NO_LABELS, Labels
from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Decision
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from tests.strategies import worlds
from tests.worlds import parse

RULES = Settings()
WORDS = st.sampled_from(("", "", "a", "b"))
LABELS = st.just(NO_LABELS) | st.builds(Labels, WORDS, WORDS, WORDS)


def labelled(world: Snapshot, labels: Mapping[str, Labels]) -> Snapshot:
    """With these labels on the shares, by workload."""
    found = [w for w in world.workloads.values() if w.ask.share and not w.roles]
    new = [
        replace(w, ask=replace(w.ask, share=replace(w.ask.share, labels=labels[w.id]))) for w in found if w.ask.share
    ]
    return world.replace(changed=new)


def blind(world: Snapshot) -> tuple[Decision, ...]:
    """A round that sees no label."""
    return schedule(labelled(world, dict.fromkeys(world.workloads, NO_LABELS)), RULES)


@pytest.mark.parametrize(
    ("one", "other"), [("apart x", "apart x"), ("exclusion x", "exclusion y"), ("exclusion x", ""), ("", "exclusion x")]
)
def test_s6_trips_when_a_share_goes_beside_labels_that_keep_it_off(one: str, other: str) -> None:
    world = parse(f"""
        team red nominal 4
        node a 2 gpus
        r1 red notebook share 0.3 {one} running a:0
        r2 red notebook share 0.3 {other} pending
    """)
    for decisions, is_broken in ((blind(world), True), (schedule(world, RULES), False)):
        made = Round(world, decisions, RULES, schedule)
        assert [found.subject for found in s6_placement(State(world, round=made))] == ["r2"] * is_broken


@hypothesis_settings(deadline=None)  # the first example loads the compiled loops
@given(worlds(), st.data())
def test_rounds_with_labels_keep_what_rounds_promise(world: Snapshot, data: st.DataObject) -> None:
    world = labelled(world, {uid: data.draw(LABELS) for uid in world.workloads})
    decisions = schedule(world, RULES)
    made = Round(world, decisions, RULES, schedule)
    asked = {name: INVARIANTS[name] for name in ("S1", "S3", "S4", "S8", "S9", "S14", "S17", "S18")}
    found = check_these(State(world.after(decisions), before=world, round=made), asked)
    found += s6_placement(State(world, round=made))
    # What ran already was placed without regard to topology.
    before = {(one.name, one.subject) for one in check_these(State(world), {**asked, "S6": s6_placement})}
    assert [one for one in found if (one.name, one.subject) not in before] == []


@pytest.mark.parametrize(("held", "kind", "is_broken"), [
    ("advisory", "inference", True), ("by time-slicing", "inference", True), ("", "inference", False),
    ("by weft", "inference", False), ("advisory", "notebook", False),
])  # fmt: skip
def test_s6_trips_when_a_model_goes_beside_another_where_shares_are_advisory(
    held: str, kind: str, is_broken: bool
) -> None:
    text = """
        team red nominal 4
        node a 2 gpus {}
        r1 red inference share 0.3 running a:0
        r2 red {} share 0.3 pending
    """
    world, blind_to_it = parse(text.format(held, kind)), parse(text.format("", kind))
    for decisions, trips in ((schedule(blind_to_it, RULES), is_broken), (schedule(world, RULES), False)):
        made = Round(world, decisions, RULES, schedule)
        assert [found.subject for found in s6_placement(State(world, round=made))] == ["r2"] * trips
