import pytest

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
    made.ask("a", 0)
    given(made, 0)
    with pytest.raises(ValueError, match="a has the token"):
        made.choose(0)
