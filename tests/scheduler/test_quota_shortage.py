"""A claimant that asks as much of a quota as one before it found none of is told what a search would tell it."""

from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from scheduler.cycle.round import Round
from scheduler.explain.reasons import OF_QUOTA
from scheduler.fit.capacity import Refusal
from scheduler.model.decision import Place, Reason
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import Gang, Kind, Phase, ResourceRequest, Workload, staying
from scheduler.shortcuts import EACH_TURN
from scheduler.shortcuts.quota_shortage import QuotaShortage
from scheduler.state.plan import Change
from scheduler.state.session import Session
from tests.strategies import worlds
from tests.worlds import parse

RULES = Settings()


class Counting(QuotaShortage):
    """Counts those that it spares a search."""

    spared = 0

    def covers(self, workload: Workload) -> bool:
        found = super().covers(workload)
        self.spared += found
        return found


class Told(NamedTuple):
    """What a round in which every claimant has a turn decides, what each is told, and how many searches it spares."""

    decided: list[Change]
    said: list[tuple[str, Refusal | None]]
    spared: int


def told(world: Snapshot, *, remembers: bool = True) -> Told:
    """One round; remembers: what was in vain."""
    session = Session(world, RULES)
    turns, counting = Round(session, EACH_TURN), Counting(session)
    turns.quota = counting if remembers else None
    said = [(workload.id, refusal) for workload, refusal in turns.run()]
    return Told(list(session.plan.decisions), said, counting.spared)


@st.composite
def crowded(draw: st.DrawFn) -> Snapshot:
    """Worlds in which those that wait for GPUs have others behind them that ask other numbers of them."""
    world: Snapshot = draw(worlds(14))
    seq, more = 1 + max((w.seq for w in world.workloads.values()), default=0), []
    sizes = st.sampled_from([_fixed, _lent, lambda workload: workload.gang])
    changed = [replace(w, gang=draw(sizes)(w)) for w in world.workloads.values()]
    for workload in changed:
        for _ in range(draw(st.integers(0, 4)) if workload.phase is Phase.QUEUED and workload.ask.milli else 0):
            ask = draw(
                st.sampled_from(
                    [
                        workload.ask,
                        ResourceRequest(gpus=1),
                        ResourceRequest(gpus=2),
                        ResourceRequest(gpus=4, cpu_milli=1),
                    ]
                )
            )
            number = seq + len(more)
            priority = draw(st.sampled_from([workload.priority, 0, 200]))
            name = f"more-{number}"
            more.append(replace(workload, id=name, name=name, seq=number, ask=ask, roles=(), priority=priority))
    return world.replace(changed=[*changed, *more])


def _fixed(workload: Workload) -> Gang:
    """Not elastic."""
    count = max(workload.gang.min, len(staying(workload)))
    return Gang(count, count, count)


def _lent(workload: Workload) -> Gang:
    """Elastic, and with a worker beyond its count where it runs with several."""
    holds = len(staying(workload))
    return Gang(holds - 1, 1, holds + 1) if workload.kind is Kind.TRAINING and holds > 1 else workload.gang


@settings(max_examples=200, suppress_health_check=list(HealthCheck), deadline=None)
@given(crowded())
def test_a_round_that_remembers_what_was_in_vain_decides_and_says_what_one_that_searches_each_time_does(
    world: Snapshot,
) -> None:
    found, plain = told(world), told(world, remembers=False)
    assert (found.decided, found.said) == (plain.decided, plain.said)
    event(f"spared a search: {min(found.spared, 3)}")


def test_none_of_a_team_for_which_too_little_could_leave_has_a_search() -> None:
    world = parse("""
        node a 8 gpus
        team red nominal 2 borrowing 0
        team blue nominal 6 borrowing 0
        r red training 2 running a
        w red training 1 pending   x red training 2 pending   y blue training 6 pending
    """)
    decided, said, spared = told(world)
    reasons = {uid: refusal and refusal.reason for uid, refusal in said}
    assert reasons == {"w": Reason.WAITING_FOR_QUOTA, "x": Reason.WAITING_FOR_QUOTA, "y": None}
    assert spared == 2
    assert len(decided) == 1


def test_the_second_of_a_team_whose_elastic_gang_gives_it_nothing_has_no_search_of_its_own() -> None:
    world = parse("""
        node a 8 gpus
        team red nominal 2 borrowing 0
        team blue nominal 6 borrowing 0
        e red training 1 x 1..2 running a a priority 9
        w red training 1 pending   x red training 2 pending   y blue training 6 pending
    """)
    decided, said, spared = told(world)
    reasons = {uid: refusal and refusal.reason for uid, refusal in said}
    assert reasons == {"w": Reason.WAITING_FOR_QUOTA, "x": Reason.WAITING_FOR_QUOTA, "y": None}
    assert spared == 1
    assert len(decided) == 1


OTHERS = {
    "who begins with less": """
        node a 8 gpus
        team red nominal 4 borrowing 0
        r red training 3 running a
        w red training 1 x 2..4 pending   x red training 1 x 1..4 pending
    """,
    "who wants less in all, so that others may give it": """
        node a 7 gpus
        team red   team blue
        r1 red training 1 running a started 200   r2 red training 5 running a firm
        b blue training 1 running a firm
        w blue training 1 x 1..6 cpu 2 pending   x blue training 1 cpu 1 pending
    """,
    "who has a higher priority": """
        node a 8 gpus
        team red nominal 2 borrowing 0
        r red training 2 running a priority 5 started 200
        w red notebook 2 pending   x red training 2 pending priority 9
    """,
    "who fits where the first did not": """
        node a 7 gpus cpu 64
        team red   team blue
        r1 red training 1 running a started 200   r2 red training 5 running a firm
        b blue training 1 cpu 10 running a firm
        w blue training 1 cpu 60 pending   x blue training 1 cpu 1 pending
    """,
    "who was not made to leave by the one that may be asked": """
        node a 7 gpus
        team red   team blue
        r1 red training 1 running a started 200   r2 red training 5 running a firm
        b blue training 1 running a firm
        w blue training 1 cpu 2 pending preempted 99000 by r1   x blue training 1 cpu 1 pending
    """,
    "who fits beside an elastic gang": """
        node a 7 gpus cpu 64
        team red   team blue
        e red training 1 x 1..6 running a a a a a a started 200
        b blue training 1 cpu 10 running a firm
        w blue training 1 cpu 60 pending   x blue training 1 cpu 1 pending
    """,
}


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS.keys())
def test_another_of_the_team_has_a_search_of_its_own(text: str) -> None:
    decided, said, _ = told(parse(text))
    outcome = dict(said)
    refused = outcome["w"]
    assert refused is not None
    assert refused.reason in OF_QUOTA
    assert outcome["x"] is None
    assert [d.workload for d in decided if isinstance(d, Place)] == ["x"]
