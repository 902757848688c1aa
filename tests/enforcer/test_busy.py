"""For how long each has had the token: as values, with no process and no clock."""

from hypothesis import given
from hypothesis import strategies as st

from controlplane.enforcer.busy import Busy
from controlplane.enforcer.turns import WATCHDOG, Turns
from controlplane.enforcer.wire import Kind, Message
from gpushare.gpu import WHOLE, Share
from gpushare.tokens import MILLISECOND
from tests.enforcer.test_turns import AGAIN, ASK, IDLE, TWO, turns


def test_a_turn_that_goes_on_counts_up_to_now() -> None:
    made = turns(*TWO)
    assert made.busy(0) == {}
    made.hear(1, ASK, 1000)
    assert made.busy(1000) == {"a": 0}
    assert made.busy(6000) == {"a": 5000}
    made.hear(1, Message(Kind.MORE, 0, 2000), 7000)
    assert made.busy(7000) == {"a": 6000}, "what is queued has not run yet"
    made.hear(1, IDLE, 11_000)
    assert made.busy(50_000) == {"a": 10_000}


def test_what_is_queued_at_a_hand_over_counts_for_the_one_that_queued_it_once_it_has_run() -> None:
    made = turns(*TWO)
    made.hear(1, ASK, 0)
    made.hear(2, ASK, 0)
    made.hear(1, Message(Kind.GIVE, 0, 400), 10_000)
    assert made.busy(10_000) == {"a": 10_000, "b": 0}
    assert made.busy(10_300) == {"a": 10_300, "b": 0}
    assert made.busy(11_000) == {"a": 10_400, "b": 600}


def test_what_is_queued_keeps_its_time_from_one_that_comes_before_it_has_run() -> None:
    made = turns(*TWO)
    made.hear(1, ASK, 0)
    made.hear(1, Message(Kind.GIVE, 0, 5000), 1000)
    made.hear(2, ASK, 2000)
    assert made.busy(4000) == {"a": 4000, "b": 0}
    made.hear(2, IDLE, 8000)
    assert made.busy(9000) == {"a": 6000, "b": 2000}


def test_one_that_is_killed_with_the_token_has_had_it_until_then() -> None:
    made = turns(*TWO)
    made.hear(1, ASK, 0)
    made.go(1, 5000)
    assert made.busy(90_000) == {"a": 5000}


def test_a_holder_that_hangs_has_it_until_it_is_taken_away() -> None:
    made = turns(*TWO)
    made.hear(1, ASK, 0)
    made.hear(2, ASK, 0)
    made.tick(20 * MILLISECOND)
    hung = 20 * MILLISECOND + WATCHDOG
    made.tick(hung)
    assert made.busy(hung + 5) == {"a": hung, "b": 5}


def test_two_processes_of_a_share_count_once() -> None:
    made = turns(*TWO)
    made.come(3, "a", Share(300, WHOLE, 0), 0)
    for process in (1, 3):
        made.hear(process, ASK, 0)
    made.hear(1, IDLE, 1000)
    made.hear(3, IDLE, 3000)
    assert made.busy(9000) == {"a": 3000}


def test_what_a_share_had_is_told_after_it_was_removed_until_it_is_forgotten() -> None:
    made = turns(*TWO)
    made.hear(1, ASK, 0)
    made.go(1, 5000)
    made.remove("a", 5000)
    assert made.busy(9000) == {"a": 5000}
    made.forget("a")
    assert made.busy(9000) == {}


def test_a_share_that_is_forgotten_leaves_its_time_to_no_other() -> None:
    busy = Busy()
    busy.begins("a", 0)
    busy.ends(10, 50)
    busy.begins("b", 50)
    busy.forget("a")
    assert busy.read(60) == {"b": 10}
    busy.forget("b")
    busy.ends(70, 70)
    assert busy.read(80) == {}


STEPS = st.tuples(
    st.integers(1, 4),
    st.sampled_from(["ask", "more", "idle", "again", "go", "come", "tick"]),
    st.integers(0, 30_000),  # us until it
    st.integers(0, 30_000),  # us that it says it has queued
)


@given(st.lists(STEPS, max_size=60))
def test_all_shares_together_never_have_more_than_has_passed_and_what_each_had_only_grows(
    steps: list[tuple[int, str, int, int]],
) -> None:
    """Whatever processes say."""
    made, at, there = Turns(), 0, set[int]()
    shares = {1: "a", 2: "a", 3: "b", 4: "c"}
    before: dict[str, int] = {}
    for process, what, passed, queued in steps:
        at += passed
        if what == "come" and process not in there:
            there.add(process)
            made.come(process, shares[process], Share(300, WHOLE, 0), at)
        elif what == "tick":
            made.tick(at)
        elif process in there and what == "go":
            there.discard(process)
            made.go(process, at)
        elif process in there and what != "come":
            kinds = {"ask": ASK, "more": Message(Kind.MORE, 0, queued)}
            flag = (AGAIN if what == "again" else IDLE).flag
            made.hear(process, kinds.get(what, Message(Kind.GIVE, flag, queued)), at)
        now = dict(made.busy(at))
        assert sum(now.values()) <= at
        assert all(now[name] >= had for name, had in before.items())
        before = now
