import hypothesis
import pytest
from hypothesis import strategies as st

from gpushare.gpu import WHOLE, Share
from gpushare.tokens import MILLISECOND, RULE, Grant, Tokens

S = 1000 * MILLISECOND


def tokens(**guarantees: int) -> Tokens:
    made = Tokens()
    for name, guarantee in guarantees.items():
        made.join(name, Share(guarantee, WHOLE, 0), 0)
    return made


def given(made: Tokens, at: int) -> Grant:
    found = made.choose(at)
    assert found is not None
    return found


def test_the_token_goes_to_the_client_that_is_furthest_behind_of_what_it_was_promised() -> None:
    made = tokens(small=200, large=800)
    made.ask("small", 0)
    made.ask("large", 0)
    assert given(made, 0).client == "large", "equally far behind: by name"
    made.settle(40 * MILLISECOND, 40 * MILLISECOND, asks=True)
    assert given(made, 40 * MILLISECOND).client == "small"
    made.settle(20 * MILLISECOND, 60 * MILLISECOND, asks=True)  # 20 of 20 % is more than 40 of 80 %
    assert given(made, 60 * MILLISECOND).client == "large"


def test_quotas_are_parts_of_a_period_by_guarantee_within_bounds() -> None:
    made = tokens(a=50, b=350, c=600)
    for name in "abc":
        made.ask(name, 0)
    quotas = {}
    for _ in range(3):
        grant = given(made, 0)
        quotas[grant.client] = grant.quota
        made.settle(grant.quota, 0, asks=True)
    assert quotas == {"a": RULE.shortest, "b": 28 * MILLISECOND, "c": 48 * MILLISECOND}
    alone = tokens(only=50)
    alone.ask("only", 0)
    assert given(alone, 0) == Grant("only", RULE.longest, None)


def test_a_client_that_paused_comes_soon_but_not_with_all_that_it_left_unused() -> None:
    made = tokens(busy=500, rare=500)
    at = 0
    made.ask("busy", at)
    for _ in range(100):
        given(made, at)
        at += RULE.longest
        made.settle(RULE.longest, at, asks=True)
    made.ask("rare", at)
    had = 0
    while given(made, at).client == "rare":
        at += RULE.shortest
        had += RULE.shortest
        made.settle(RULE.shortest, at, asks=True)
    assert had == pytest.approx(RULE.credit, abs=2 * RULE.longest)


def test_the_holder_hands_over_once_one_that_asks_is_further_behind_by_a_shortest_quota() -> None:
    made = tokens(a=500, b=500)
    made.ask("a", 0)
    given(made, 0)
    assert not made.is_owed(50 * MILLISECOND, 50 * MILLISECOND), "none asks"
    made.ask("b", 50 * MILLISECOND)
    assert not made.is_owed(RULE.shortest, 50 * MILLISECOND)
    assert made.is_owed(RULE.shortest + 1, 50 * MILLISECOND)


def test_a_client_at_its_limit_waits_until_it_may_have_a_quantum() -> None:
    made = Tokens()
    made.join("limited", Share(100, 300, 0), 0)
    made.ask("limited", 0)
    assert made.choose(0) is None
    ready = made.next_at(0)
    assert ready is not None
    assert ready == pytest.approx(RULE.quantum / 0.297, abs=1), "its bucket fills at 30 %, less a quantum in 10 s"
    assert made.choose(ready - 1) is None
    assert given(made, ready).most == RULE.quantum


def test_one_that_comes_beside_a_long_turn_is_behind_it_by_no_more_than_a_credit() -> None:
    """While none asks no turn is settled, and its holder would have to make up for all the time that it was alone."""
    for goes_on, had in ((True, RULE.credit), (False, 60 * S)):
        made = tokens(a=500, b=500)
        made.ask("a", 0)
        given(made, 0)
        if goes_on:
            made.goes_on(60 * S)
        made.ask("b", 60 * S)
        made.settle(60 * S, 60 * S, asks=True)
        turns = 0
        while given(made, 60 * S).client == "b":
            made.settle(RULE.shortest, 60 * S, asks=True)
            turns += 1
        assert turns * RULE.shortest == pytest.approx(had, abs=2 * RULE.shortest), goes_on


def test_a_quota_is_renewed_as_long_as_its_holder_would_be_next_again() -> None:
    made = tokens(a=500, b=500)
    made.ask("a", 0)
    made.ask("b", 0)
    given(made, 0)
    made.settle(30 * MILLISECOND, 0, asks=True)
    assert given(made, 0).client == "b"
    assert made.renew(20 * MILLISECOND, 0) == Grant("b", 40 * MILLISECOND, None)
    assert made.renew(10 * MILLISECOND + 1, 0) is None, "it has had more than the other by now"
    made.settle(11 * MILLISECOND, 0, asks=True)
    assert given(made, 0).client == "a"


@hypothesis.given(st.lists(st.integers(50, 400), min_size=2, max_size=5), st.integers(0, 15 * MILLISECOND))
def test_with_renewed_quotas_clients_that_always_ask_share_by_guarantee(guarantees: list[int], over: int) -> None:
    """Whatever a turn is too long by, as a kernel that runs is waited for. Each is off by a turn at most."""
    made, at, had = Tokens(), 0, [0] * len(guarantees)
    for number, guarantee in enumerate(guarantees):
        made.join(str(number), Share(guarantee, WHOLE, 0), 0)
        made.ask(str(number), 0)
    while at < 20 * S:
        grant, turn = made.choose(at), 0
        while grant is not None:
            turn = grant.quota + over
            at += turn
            had[int(grant.client)] += turn
            grant = made.renew(turn, at)
        made.settle(turn, at, asks=True)
    for guarantee, one in zip(guarantees, had, strict=True):
        assert one / at == pytest.approx(guarantee / sum(guarantees), abs=2 * (RULE.longest + over) / at)


def test_a_renewed_quota_is_within_the_limit() -> None:
    made = Tokens()
    made.join("limited", Share(100, 300, 0), 0)
    made.ask("limited", S)
    given(made, S)
    found = made.renew(10 * MILLISECOND, S)
    assert found is not None
    assert found.most == RULE.quantum - 10 * MILLISECOND
    assert made.renew(15 * MILLISECOND, S) is None, "what is left is shorter than any quota"


def test_a_share_that_changes_is_followed_with_what_it_had() -> None:
    made = tokens(a=500, b=500)
    made.ask("a", 0)
    made.ask("b", 0)
    given(made, 0)
    made.settle(30 * MILLISECOND, 0, asks=True)
    made.change("b", Share(100, WHOLE, 0), 0)
    assert given(made, 0).client == "b"
    made.settle(6 * MILLISECOND + 1, 0, asks=True)  # of 10 %: as much as 30 of 50 %
    assert given(made, 0).client == "a"


def test_one_that_does_not_want_the_token_any_more_gets_no_turn() -> None:
    made = tokens(a=500)
    made.ask("a", 0)
    made.withdraw("a")
    assert made.choose(0) is None


def test_what_is_gone_has_no_token_and_no_turn() -> None:
    made = tokens(a=500, b=500)
    made.ask("a", 0)
    made.ask("b", 0)
    given(made, 0)
    made.leave("a")
    assert given(made, 0).client == "b"
    made.leave("b")
    assert made.choose(0) is None
    assert made.next_at(0) is None


def test_what_cannot_be_is_refused() -> None:
    made = tokens(a=500)
    with pytest.raises(ValueError, match="a has joined already"):
        made.join("a", Share(100, WHOLE, 0), 0)
    with pytest.raises(KeyError):
        made.ask("unknown", 0)
    with pytest.raises(ValueError, match="no client has the token"):
        made.settle(1, 1, asks=False)
    with pytest.raises(ValueError, match="no client has the token"):
        made.renew(1, 1)
    made.ask("a", 0)
    given(made, 0)
    with pytest.raises(ValueError, match="a has the token"):
        made.choose(0)
