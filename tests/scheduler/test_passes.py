"""Passes over nodes and devices say the same with numpy and compiled, and so do rounds that are made of them."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpushare.gpu import Labels, Share
from scheduler.cycle.schedule import decide
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Columns, Ints, Inventory, Node, Snapshot
from scheduler.placement.compiled import HAS_NUMBA
from scheduler.placement.rows import Fleet
from scheduler.state import passes
from tests.strategies import worlds

pytestmark = pytest.mark.skipif(not HAS_NUMBA, reason="needs numba")
T = TypeVar("T")
LABELS = (Labels(), Labels(affinity="x"), Labels(anti_affinity="x"))


@pytest.fixture(autouse=True)
def _compiled_again() -> Iterator[None]:
    yield
    passes.load()


def both(work: Callable[[], T]) -> tuple[T, T]:
    """What it gives compiled, and with numpy."""
    passes.load(is_compiled=True)
    first = work()
    passes.load(is_compiled=False)
    return first, work()


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Inventory, Ints, Ints]:
    """Nodes of no to three devices, and what is free: [2, G] and [2, N], some of it below nothing."""
    sizes = draw(st.lists(st.integers(0, 3), min_size=1, max_size=6))
    nodes = [Node(f"n{i}", "p", "A100", size, 8000, 4000, 9000) for i, size in enumerate(sizes)]
    inventory = Inventory(tuple(nodes))
    compute, memory = st.sampled_from([-500, 0, 250, 500, 999, 1000]), st.sampled_from([-1, 0, 4000, 5000, 8000])
    devices = [draw(st.lists(each, min_size=sum(sizes), max_size=sum(sizes))) for each in (compute, memory)]
    host = st.integers(-100, 4000)
    hosts = [draw(st.lists(host, min_size=len(sizes), max_size=len(sizes))) for _ in range(2)]
    return inventory, np.array(devices, dtype=np.int64).reshape(2, -1), np.array(hosts, dtype=np.int64)


@settings(max_examples=200, deadline=None)
@given(clusters(), st.integers(0, 2000), st.integers(0, 2000), st.integers(0, 2), st.randoms(use_true_random=False))
def test_what_each_node_takes_is_counted_alike(
    cluster: tuple[Inventory, Ints, Ints], cpu: int, memory: int, gpus: int, random: Random
) -> None:
    inventory, gpu, host = cluster
    allowed = np.array([random.random() < 0.8 for _ in inventory.nodes], dtype=np.bool_)
    idle, plain_idle = both(lambda: passes.idle_of(inventory, gpu))
    assert idle.tolist() == plain_idle.tolist()
    asked = passes.Host(cpu, memory, gpus)
    workers, plain = both(lambda: passes.workers_on(host, idle, allowed, asked))
    assert workers.tolist() == plain.tolist()
    assert workers.dtype == plain.dtype == np.int64


@settings(max_examples=200, deadline=None)
@given(clusters(), st.sampled_from([1, 250, 500, 1000]), st.sampled_from([0, 1, 4000]), st.sampled_from(LABELS))
def test_the_shares_that_each_node_takes_are_counted_alike(
    cluster: tuple[Inventory, Ints, Ints], guarantee: int, memory: int, labels: Labels
) -> None:
    inventory, gpu, _ = cluster
    share = Share(guarantee, 1000, memory, labels)
    shares, plain = both(lambda: passes.shares_on(inventory, gpu, share))
    assert shares.tolist() == plain.tolist()


@settings(max_examples=200, deadline=None)
@given(clusters(), clusters())
def test_a_fleet_follows_what_is_free_alike(
    cluster: tuple[Inventory, Ints, Ints], other: tuple[Inventory, Ints, Ints]
) -> None:
    inventory, gpu, host = cluster
    count = len(inventory.nodes)

    def followed() -> list[list[int]]:
        fleet = Fleet(*(np.zeros(shape, dtype=np.int64) for shape in (count, (count, 2), (count, 3), count)))
        passes.follow(fleet, inventory, gpu, host)
        passes.follow(fleet, inventory, gpu, host)
        passes.follow(fleet, inventory, np.minimum(gpu, gpu[::-1]), host)
        return [part.tolist() for part in fleet]

    first, plain = both(followed)
    assert first == plain


HELD = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 99), st.integers(0, 900), st.integers(0, 9)))


def rows_on(count: int, held: list[tuple[int, int, int, int]]) -> Ints:
    """Rows of so many nodes or devices: owner, place, thousandths, MiB, and a rank."""
    some = [(o, at % count, *more, o % 3) for o, at, *more in held if count]
    return np.array(some, dtype=np.int64).reshape(-1, 5)


@settings(max_examples=200, deadline=None)
@given(clusters(), HELD, HELD)
def test_what_would_be_free_without_the_chosen_is_the_same(
    cluster: tuple[Inventory, Ints, Ints],
    devices: list[tuple[int, int, int, int]],
    hosts: list[tuple[int, int, int, int]],
) -> None:
    inventory, gpu, host = cluster
    rows = rows_on(gpu.shape[1], devices), rows_on(host.shape[1], hosts)
    chosen = np.array([True, False, True, False, True])
    first, plain = both(lambda: [part.tolist() for part in passes.without(inventory, rows, chosen, (gpu, host))])
    assert first == plain


@settings(max_examples=200, deadline=None)
@given(clusters(), HELD, st.sampled_from([0.0, 5.0, 60.0]))
def test_what_is_free_by_a_time_is_added_alike(
    cluster: tuple[Inventory, Ints, Ints], held: list[tuple[int, int, int, int]], time: float
) -> None:
    _, _, host = cluster
    rows, ends = rows_on(host.shape[1], held), np.array([0.0, 5.0, np.inf, 60.0, 90.0])
    lent_from = np.array([9, 9, 1, 2, 0])

    def given() -> list[list[int]]:
        into = host.copy()
        passes.give_by(rows, ends, lent_from, 1.0, time, into)
        found: list[list[int]] = into.tolist()
        return found

    first, plain = both(given)
    assert first == plain


@settings(max_examples=200, deadline=None)
@given(clusters(), st.data())
def test_one_node_of_a_planned_start_is_brought_up_to_date_alike(
    cluster: tuple[Inventory, Ints, Ints], data: st.DataObject
) -> None:
    inventory, gpu, host = cluster
    taken = Columns(np.stack([gpu, gpu[:, ::-1]]), np.stack([host, host[:, ::-1]]))
    at = data.draw(st.integers(0, len(inventory.nodes) - 1))

    def refreshed() -> list[Any]:
        free = gpu.copy(), host.copy(), np.zeros(host.shape[1], dtype=np.int64)
        before = int(np.minimum(free[0], 0).sum() + np.minimum(free[1], 0).sum())
        more = passes.refresh_later(at, inventory, taken, free)
        assert more == before - int(np.minimum(free[0], 0).sum() + np.minimum(free[1], 0).sum())
        return [part.tolist() for part in free]

    first, plain = both(refreshed)
    assert first == plain


@settings(max_examples=200, deadline=None)
@given(clusters(), st.data())
def test_the_lesser_of_two_on_one_node_is_the_same(cluster: tuple[Inventory, Ints, Ints], data: st.DataObject) -> None:
    inventory, gpu, host = cluster
    at = data.draw(st.integers(0, len(inventory.nodes) - 1))

    def lowered() -> list[Any]:
        into = gpu.copy(), host.copy(), np.zeros(host.shape[1], dtype=np.int64)
        passes.lower(at, inventory, into, (gpu, host), (gpu[:, ::-1].copy(), host[:, ::-1].copy()))
        return [part.tolist() for part in into]

    first, plain = both(lowered)
    assert first == plain
    first_device, end = int(inventory.offset[at]), int(inventory.offset[at + 1])
    assert first[0][0][first_device:end] == np.minimum(gpu, gpu[:, ::-1])[0, first_device:end].tolist()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.sampled_from([1, 250, 1000, 4000]))),
    st.lists(st.sampled_from([0, 1, 500, 1000, 2000]), min_size=4, max_size=4),
)
def test_what_has_to_leave_each_node_costs_alike(held: list[tuple[int, int, int]], missing: list[int]) -> None:
    made = [(owner, node, 1, 1, milli) for owner, node, milli in sorted(held, key=lambda one: (one[1], one[0]))]
    rows = np.array(made, dtype=np.int64).reshape(-1, 5)
    chosen, costs = np.array([True, False, True, False, True]), np.array([0.1, 2.0, 3.7, 4.0, 1e9])
    first, plain = both(lambda: passes.cheapest(rows, chosen, np.array(missing), costs))
    assert first.tolist() == plain.tolist()


@settings(max_examples=200, deadline=None)
@given(clusters(), st.data())
def test_one_node_is_brought_up_to_date_alike(cluster: tuple[Inventory, Ints, Ints], data: st.DataObject) -> None:
    inventory, gpu, host = cluster
    taken = Columns(np.stack([gpu, gpu[:, ::-1]]), np.stack([host, host[:, ::-1]]))
    at = data.draw(st.integers(0, len(inventory.nodes) - 1))

    def refreshed() -> list[Any]:
        shapes = gpu.shape, host.shape, host.shape[1]
        free: list[Any] = [tuple(np.zeros(shape, dtype=np.int64) for shape in shapes) for _ in range(2)]
        passes.refresh(at, inventory, taken, free[0], free[1])
        return [part.tolist() for state in free for part in state]

    first, plain = both(refreshed)
    assert first == plain


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(worlds())
def test_rounds_decide_the_same_without_the_compiler(world: Snapshot) -> None:
    first, plain = both(lambda: decide(world, Settings()))
    assert first == plain
