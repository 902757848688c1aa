"""What the daemon answers, as values: no process, no clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.enforcer.turns import WATCHDOG, Answers, Turns
from controlplane.enforcer.wire import Kind, Message, unpacked
from gpushare.gpu import WHOLE, Share
from gpushare.tokens import MILLISECOND, RULE

ASK, IDLE, AGAIN = Message(Kind.ASK), Message(Kind.GIVE), Message(Kind.GIVE, 1)


def turns(*shares: tuple[str, int, int]) -> Turns:
    """One process a share: 1 is of the first."""
    made = Turns()
    for number, (name, guarantee, limit) in enumerate(shares, start=1):
        assert said(made.come(number, name, Share(guarantee, limit, 0), 0)) == [f"{number} WELCOME"]
    return made


def said(answers: Answers) -> list[str]:
    return [f"{process} {message.kind.name}" for process, message in answers]


TWO = (("a", 300, WHOLE), ("b", 700, WHOLE))


def test_one_that_asks_gets_the_token_at_once_if_none_has_it() -> None:
    made = turns(*TWO)
    assert made.hear(1, ASK, 0) == [(1, Message(Kind.GRANT, 0, RULE.longest, 0))]


def test_a_holder_is_told_that_another_waits_and_asked_for_the_token_once_it_owes_it() -> None:
    made = turns(*TWO)
    made.hear(1, ASK, 0)
    assert said(made.hear(2, ASK, MILLISECOND)) == ["1 CONTENDED"]
    due = made.next_at(MILLISECOND)
    assert due is not None
    assert said(made.tick(20 * MILLISECOND)) == ["1 REVOKE"]
    assert said(made.hear(1, AGAIN, 21 * MILLISECOND)) == ["2 GRANT"]


def test_a_further_quota_costs_no_hand_over_as_long_as_none_is_behind() -> None:
    made = turns(*TWO)
    made.hear(2, ASK, 0)
    made.hear(1, ASK, 0)
    assert said(made.hear(2, Message(Kind.MORE, 0, 2 * MILLISECOND), 4 * MILLISECOND)) == ["2 REVOKE"]
    made.hear(2, AGAIN, 6 * MILLISECOND)
    made.hear(1, AGAIN, 60 * MILLISECOND)
    assert said(made.hear(2, Message(Kind.MORE, 0, 0), 70 * MILLISECOND)) == ["2 GRANT"]


def test_all_processes_of_a_share_have_the_token_together_until_the_last_gives_it_back() -> None:
    made = turns(*TWO)
    made.come(3, "a", Share(300, WHOLE, 0), 0)
    made.hear(1, ASK, 0)
    assert said(made.hear(3, ASK, 0)) == ["3 GRANT"]
    made.hear(2, ASK, 0)
    assert said(made.hear(1, IDLE, MILLISECOND)) == []
    assert said(made.hear(3, IDLE, MILLISECOND)) == ["2 GRANT"]


def test_a_process_that_is_gone_gives_back_what_it_had() -> None:
    made = turns(*TWO)
    made.hear(1, ASK, 0)
    made.hear(2, ASK, 0)
    assert said(made.go(1, MILLISECOND)) == ["2 GRANT"]
    with pytest.raises(KeyError):
        made.hear(1, ASK, MILLISECOND)


def test_a_waiting_process_that_is_gone_gets_no_token() -> None:
    made = turns(*TWO)
    made.hear(1, ASK, 0)
    made.hear(2, ASK, 0)
    assert said(made.go(2, MILLISECOND)) == ["1 CONTENDED"]
    assert said(made.hear(1, IDLE, 2 * MILLISECOND)) == []


def test_what_a_share_had_is_remembered_after_its_processes() -> None:
    """Or a share would begin anew with each process that it starts."""
    made = turns(("a", 500, WHOLE), ("b", 500, WHOLE))
    made.hear(1, ASK, 0)
    made.go(1, 400 * MILLISECOND)
    made.hear(2, ASK, 400 * MILLISECOND)
    made.come(3, "a", Share(500, WHOLE, 0), 400 * MILLISECOND)
    made.hear(3, ASK, 400 * MILLISECOND)
    assert said(made.hear(2, Message(Kind.MORE), 700 * MILLISECOND)) == ["2 GRANT"]
    assert said(made.hear(2, Message(Kind.MORE), 900 * MILLISECOND)) == ["2 REVOKE"]


def test_a_hung_holder_loses_the_token_and_comes_back_by_asking_again() -> None:
    made = turns(*TWO)
    made.hear(1, ASK, 0)
    made.hear(2, ASK, 0)
    assert said(made.tick(20 * MILLISECOND)) == ["1 REVOKE"]
    hung = 20 * MILLISECOND + WATCHDOG
    assert made.next_at(20 * MILLISECOND) == hung
    assert said(made.tick(hung)) == ["2 GRANT"]
    assert said(made.hear(1, AGAIN, hung + MILLISECOND)) == ["2 CONTENDED"]
    assert said(made.hear(2, IDLE, hung + 2 * MILLISECOND)) == ["1 GRANT"]


def test_a_limit_ends_a_turn_whatever_the_others_do() -> None:
    made = turns(("a", 300, 300), ("b", 700, WHOLE))
    made.hear(1, ASK, 0)
    due = made.next_at(0)
    assert due is not None
    ((process, message),) = made.tick(due)
    assert (process, message.kind, message.two) == (1, Kind.GRANT, RULE.quantum)


def test_one_that_waits_long_can_see_that_the_daemon_lives() -> None:
    made = turns(*TWO)
    assert said(made.hear(1, Message(Kind.PING), 0)) == ["1 PONG"]
    assert said(made.hear(1, Message(Kind.WELCOME), 0)) == [], "what only the daemon says means nothing from others"


def test_a_message_is_read_as_it_was_written() -> None:
    message = Message(Kind.GRANT, 1, 60_000, 30_000)
    assert unpacked(message.packed()) == message
    with pytest.raises(ValueError, match="a message of 3 bytes"):
        unpacked(b"abc")


@given(
    st.lists(
        st.tuples(st.integers(1, 6), st.sampled_from(["ask", "more", "idle", "again", "go", "come", "tick"])),
        max_size=60,
    ),
)
def test_the_token_is_never_with_two_shares(steps: list[tuple[int, str]]) -> None:
    """Whatever processes say. Those that were granted, and have not given back or gone, are of one share."""
    made, at, having = Turns(), 0, set[int]()
    shares = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    there = set[int]()
    for process, what in steps:
        at += 3 * MILLISECOND
        answers: Answers = []
        if what == "come" and process not in there:
            there.add(process)
            answers = made.come(process, shares[process], Share(300, WHOLE, 0), at)
        elif what == "tick":
            answers = made.tick(at)
        elif process in there and what == "go":
            there.discard(process)
            having.discard(process)
            answers = made.go(process, at)
        elif process in there and what == "ask" and process not in having:
            answers = made.hear(process, ASK, at)
        elif process in having:
            message = {"more": Message(Kind.MORE), "idle": IDLE, "again": AGAIN}.get(what)
            if message is None:
                continue
            having -= {process} if what != "more" else set()
            answers = made.hear(process, message, at)
        having |= {number for number, message in answers if message.kind is Kind.GRANT}
        assert len({shares[number] for number in having}) <= 1
