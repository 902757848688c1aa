"""Invariants of a shared GPU's time, whatever the clients do: they are those that a user was promised."""

from collections.abc import Iterator, Sequence
from itertools import chain, cycle, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.gpu import WHOLE, Share
from gpushare.timeline import Client, Timeline
from gpushare.tokens import MILLISECOND, RULE, Tokens

SECOND = 1000 * MILLISECOND
COST = 200
ENDLESS = 10**12
KERNELS = st.sampled_from((50, 1000, 3000, 10 * MILLISECOND))
BURSTS = st.lists(st.tuples(st.integers(50, 200 * MILLISECOND), st.integers(0, 500 * MILLISECOND)), min_size=1)


def busy(name: str, guarantee: int, kernel: int = 1000, limit: int = WHOLE) -> Client:
    return Client(name, Share(guarantee, limit, 0), kernel, repeat((ENDLESS, 0)))


def played(clients: Sequence[Client], until: int) -> None:
    Timeline(clients, Tokens(), lambda _last, _next: COST, RULE.idle).play(until)


@st.composite
def crowds(draw: st.DrawFn) -> list[Client]:
    """Up to five clients, whose guarantees fit on one GPU; some have limits, some always have work."""
    found: list[Client] = []
    left = WHOLE
    for number in range(draw(st.integers(1, 5))):
        if left < 20:
            break
        guarantee = draw(st.integers(20, left))
        left -= guarantee
        limit = draw(st.sampled_from((guarantee, WHOLE, min(WHOLE, 2 * guarantee))))
        work: Iterator[tuple[int, int]] = draw(st.one_of(st.just(repeat((ENDLESS, 0))), BURSTS.map(cycle)))
        found.append(Client(f"c{number}", Share(guarantee, limit, 0), draw(KERNELS), work))
    return found


@given(crowds())
def test_kernels_of_two_clients_never_run_at_once(clients: list[Client]) -> None:
    played(clients, 3 * SECOND)
    used = sorted(span for client in clients for span in client.used)
    assert all(start < stop for start, stop in used)
    assert all(before[1] <= after[0] for before, after in zip(used, used[1:], strict=False))


@given(crowds())
def test_no_window_of_ten_seconds_has_more_than_the_limit_but_for_a_kernel(clients: list[Client]) -> None:
    played(clients, 25 * SECOND)
    for client in clients:
        for start in range(0, 15 * SECOND, 700 * MILLISECOND):
            had = client.used_within(start, start + RULE.window)
            assert had <= client.share.limit * RULE.window // WHOLE + client.kernel


@given(crowds(), st.integers(20, WHOLE), KERNELS)
def test_a_client_that_always_has_work_gets_its_guarantee_of_what_all_get(
    others: list[Client], guarantee: int, kernel: int
) -> None:
    room = WHOLE - sum(client.share.guarantee for client in others)
    mine = busy("mine", max(1, min(guarantee, room)), kernel)
    if room < mine.share.guarantee:
        return
    played([mine, *others], 20 * SECOND)
    start, stop = 5 * SECOND, 20 * SECOND
    all_used = sum(client.used_within(start, stop) for client in (mine, *others))
    # Others bring their credit along, and one turn of each may be under way when the time begins and ends.
    slack = (RULE.credit + 2 * RULE.longest + 20 * MILLISECOND) * len(others)
    assert mine.used_within(start, stop) >= mine.share.guarantee * all_used // WHOLE - slack


@pytest.mark.parametrize("parts", [(300, 700), (100, 200, 300, 400)])
def test_clients_that_always_have_work_share_by_guarantee_within_each_second(parts: tuple[int, ...]) -> None:
    clients = [busy(f"c{part}", part) for part in parts]
    played(clients, 20 * SECOND)
    for start in range(0, 20 * SECOND, SECOND):
        had = [client.used_within(start, start + SECOND) for client in clients]
        assert sum(had) >= 0.97 * SECOND
        assert [one / sum(had) for one in had] == pytest.approx([part / WHOLE for part in parts], abs=0.025)


def test_a_client_alone_has_the_gpu_all_the_time_and_one_with_a_limit_nearly_its_limit() -> None:
    alone, limited = busy("alone", 100), busy("limited", 300, limit=300)
    played([alone], 20 * SECOND)
    played([limited], 20 * SECOND)
    assert alone.used_within(0, 20 * SECOND) == 20 * SECOND
    assert 0.285 <= limited.used_within(10 * SECOND, 20 * SECOND) / (10 * SECOND) <= 0.3


def test_a_cell_beside_a_client_that_always_computes_is_little_slower_than_alone() -> None:
    cell = Client("cell", Share(200, WHOLE, 0), 1000, repeat((50 * MILLISECOND, 2 * SECOND)))
    played([cell, busy("trainer", 800)], 60 * SECOND)
    slower = sorted((one - 1) * (2 * SECOND + 50 * MILLISECOND) for one in cell.stretches)
    assert slower[int(0.95 * len(slower))] <= 10 * MILLISECOND


def test_one_that_paused_beside_a_long_turn_of_another_is_no_more_than_a_credit_behind() -> None:
    lone = busy("lone", 500)
    late = Client("late", Share(500, WHOLE, 0), 1000, chain([(1000, 60 * SECOND)], repeat((ENDLESS, 0))))
    played([lone, late], 63 * SECOND)
    had, window = late.used_within(60 * SECOND, 62 * SECOND), 2 * SECOND
    assert window // 2 < had < RULE.credit + (window - RULE.credit) // 2 + 50 * MILLISECOND
