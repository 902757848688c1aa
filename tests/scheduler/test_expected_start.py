"""When a waiting workload is expected to start: the queue simulated, corrected by what history got wrong."""

from dataclasses import replace
from math import inf

import pytest

from scheduler.model.history import UNKNOWN, History, Mistake
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.predict.expected_start import corrected, expected_start, mistakes
from scheduler.predict.run_times import Spread
from tests.worlds import parse

AT = 100_000.0
CERTAIN = Settings(estimate_margin=1.0)  # users say the truth


def world(text: str, **seconds: float) -> Snapshot:
    parsed = parse(text)
    changed = [replace(parsed.workloads[uid], expected_seconds=value) for uid, value in seconds.items()]
    return parsed.replace(changed=changed)


TWO = """
    node a 2 gpus
    team red nominal 2
    x red training 1 running a started 99900 since 99900   y red training 1 running a started 99900 since 99900
    v red training 1 pending   w red training 1 pending   z red training 2 pending
"""


@pytest.mark.parametrize(("uid", "start"), [("v", 200), ("w", 900), ("z", 1900)])
def test_each_one_starts_when_those_before_it_have_ended(uid: str, start: float) -> None:
    queue = world(TWO, x=300, y=1000, v=1000, w=1000, z=10)
    assert expected_start(queue, uid, CERTAIN) == Spread(AT + start, AT + start, AT + start)


LENT = """
    node a 4 gpus   team red nominal 2   team blue nominal 4 borrowing 0
    x red training 1 running a started 99900 since 99900
    gang blue training 1 x 2..{}..3 running a a a started 99900 since 99900
    {} training 2 pending
"""


@pytest.mark.parametrize(("count", "start"), [(2, 200), (3, 4900)])
@pytest.mark.parametrize("claimant", ["w red", "w blue"])
def test_what_a_gang_holds_beyond_its_count_is_there_for_what_waits(claimant: str, count: int, start: float) -> None:
    """Once x has ended, with the worker that the gang gives back; it counts against its team's quota no more."""
    queue = world(LENT.format(count, claimant), x=300, gang=5000, w=10)
    assert expected_start(queue, "w", CERTAIN) == Spread(AT + start, AT + start, AT + start)


def test_what_the_next_round_starts_is_expected_now() -> None:
    free = world("node a 2 gpus\nteam red nominal 2\nv red training 1 pending")
    assert expected_start(free, "v", CERTAIN) == Spread(AT, AT, AT)


def test_uncertain_ends_make_an_interval() -> None:
    spread = expected_start(world(TWO, x=300, y=1000, v=1000, w=1000, z=10), "w", Settings())
    assert spread is not None
    assert AT < spread.low < spread.median < spread.high


def test_nobody_can_say_when_services_hold_the_room() -> None:
    full = world(
        "node a 1 gpus\nteam red nominal 1\nx red inference 1 running a started 99000 since 99000\n"
        "v red training 1 pending"
    )
    assert expected_start(full, "v", CERTAIN) is None


@pytest.mark.parametrize("line", ["v red training 9 pending", "v red training 1 unmet data pending"])
def test_nobody_can_say_for_what_may_not_start(line: str) -> None:
    assert expected_start(world(f"node a 1 gpus\nteam red nominal 1\n{line}"), "v", CERTAIN) is None


def test_a_teams_limit_makes_it_wait_for_its_own() -> None:
    limited = world(
        """
        node a 4 gpus
        team red nominal 1 borrowing 0   team blue nominal 3
        x red training 1 running a started 99900 since 99900
        y blue training 3 running a started 99900 since 99900
        v red training 1 pending
        """,
        x=5000,
        y=200,
    )
    assert expected_start(limited, "v", CERTAIN) == Spread(AT + 4900, AT + 4900, AT + 4900)


def test_teams_take_turns_as_rounds_go_through_them() -> None:
    """Whoever holds less goes first: once one of blue has started, it is red's turn, and blue's second waits."""
    shared = world(
        """
        node a 2 gpus
        team red nominal 0   team blue nominal 0
        x red training 2 running a started 99900 since 99900
        b1 blue training 1 pending   b2 blue training 1 pending   r1 red training 1 pending
        """,
        x=1100,
        b1=1000,
        b2=1000,
        r1=1000,
    )
    starts = [expected_start(shared, uid, CERTAIN) for uid in ("b1", "r1", "b2")]
    assert [round(found.median - AT) for found in starts if found] == [1000, 1000, 2000]


def test_nodes_are_kept_for_one_that_waited_too_long_and_others_start_beside_them() -> None:
    full = world(
        """
        node a 2 gpus   node b 2 gpus
        team red nominal 4
        x1 red training 1 running a started 99900 since 99900   x2 red training 1 running a started 99900 since 99900
        y1 red training 1 running b started 99900 since 99900   y2 red training 1 running b started 99900 since 99900
        big red training 2 pending   z red training 1 pending
        """,
        x1=200,
        x2=1100,
        y1=300,
        y2=5100,
        big=1000,
        z=9000,
    )
    waited = replace(full.workloads["big"], queued_at=AT - 10_000)
    starts = [expected_start(full.replace(changed=[waited]), uid, CERTAIN) for uid in ("big", "z")]
    assert [round(found.median - AT) for found in starts if found] == [1000, 200]


def test_another_policy_is_played_in_its_own_order() -> None:
    shared = world(TWO, x=300, y=1000, v=1000, w=1000, z=10)
    found = expected_start(shared, "w", replace(CERTAIN, policy="fifo"))
    assert found == Spread(AT + 900, AT + 900, AT + 900)


def test_history_moves_each_end_out_to_where_it_would_have_been_right() -> None:
    pairs = [Mistake(140.0, 240.0, 340.0, (i / 100) * 800) for i in range(101)]
    history = History(mistakes=mistakes(pairs))
    found = corrected(Spread(140.0, 240.0, 340.0), AT, history)
    assert found is not None
    assert found.low == pytest.approx(AT + 80, abs=1)
    assert found.median == pytest.approx(AT + 400, abs=1)
    assert found.high == pytest.approx(AT + 720, abs=1)


def test_history_never_moves_an_end_in_as_only_the_shorter_waits_are_over() -> None:
    pairs = [Mistake(40.0, 240.0, 1340.0, (i / 100) * 800) for i in range(101)]
    found = corrected(Spread(40.0, 240.0, 1340.0), AT, History(mistakes=mistakes(pairs)))
    assert found == Spread(AT + 40, pytest.approx(AT + 400, abs=1), AT + 1340)


def test_a_few_mistakes_teach_nothing() -> None:
    assert mistakes([Mistake(1, 2, 3, 4)] * 19) == ()


def test_a_prediction_without_an_end_teaches_nothing() -> None:
    assert mistakes([Mistake(1, 2, inf, 4)] * 20) == ()


def test_an_interval_without_an_end_is_unknown() -> None:
    assert corrected(Spread(10.0, inf, inf), AT, UNKNOWN) is None


def test_equal_snapshots_give_equal_intervals() -> None:
    queue = world(TWO, x=300, y=1000, v=1000, w=1000, z=10)
    again = Snapshot.build(
        queue.at, queue.inventory.nodes, queue.teams, queue.quotas, reversed(list(queue.workloads.values()))
    )
    assert repr(expected_start(queue, "z", Settings())) == repr(expected_start(again, "z", Settings()))
