"""KubeShare 2.0's scores: gaps are filled, guarantees are spread and near to their group."""

from hypothesis import given
from hypothesis import strategies as st

from gpushare.cells import Cell, best, distance, guaranteed, idle, opportunistic, without_gpus
from gpushare.gpu import WHOLE

PATHS = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
CELLS = st.lists(st.builds(Cell, PATHS, st.integers(0, 100), st.integers(0, WHOLE)), min_size=1, max_size=6)


def node(*free: int, at: int = 0, priority: int = 50) -> list[Cell]:
    return [Cell((at, 0, number), priority, milli) for number, milli in enumerate(free)]


def test_gaps_are_filled_before_idle_cells_are_broken() -> None:
    used, idle_too, whole = node(500, 500), node(500, 1000), node(1000, 1000)
    assert opportunistic(used) == 100
    assert opportunistic(idle_too) == 50 + 25 - 50
    assert opportunistic(whole) == 50 - 100
    assert best([opportunistic(one) for one in (whole, used, idle_too)]) == 1


def test_half_of_the_cells_free_counts_half() -> None:
    """In KubeShare's integers one free cell of two counts nothing."""
    assert opportunistic(node(1000, 0)) == 50 + 50 - 50


def test_a_guarantee_goes_to_what_is_idle_and_strong() -> None:
    scores = [guaranteed(node(1000, 500)), guaranteed(node(1000, 1000)), guaranteed(node(1000, 1000, priority=90))]
    assert best(scores) == 2
    assert scores[0] < scores[1] < scores[2]


def test_a_guarantee_goes_near_its_group() -> None:
    """KubeShare's code adds the distance, which sends the members of a group away from each other."""
    group = [(1, 0, 0)]
    scores = [guaranteed(node(1000, 1000, at=at), group) for at in range(3)]
    assert best(scores) == 1
    assert best([guaranteed(one, group) for one in ([Cell((1, 0, 3), 50, 1000)], [Cell((1, 0, 1), 50, 1000)])]) == 1


def test_work_without_gpus_keeps_off_nodes_that_have_some() -> None:
    """KubeShare's code sends it to them."""
    assert best([without_gpus(one) for one in (node(1000), [])]) == 1


def test_whole_gpus_come_from_idle_cells_only() -> None:
    assert idle(node(1000, 999, 0)) == node(1000)
    assert best([]) is None
    assert opportunistic([]) == guaranteed([]) == 0


@given(PATHS, PATHS, PATHS)
def test_a_distance_is_one(a: tuple[int, ...], b: tuple[int, ...], c: tuple[int, ...]) -> None:
    assert distance(a, a) == 0
    assert distance(a, b) == distance(b, a) >= (0 if a == b else 1)
    assert distance(a, c) <= distance(a, b) + distance(b, c)
    assert distance(a, a[:2]) == a[2]


@given(CELLS, st.integers(0, 5), st.integers(1, WHOLE))
def test_use_draws_what_fills_gaps_and_keeps_off_what_has_a_guarantee(cells: list[Cell], at: int, more: int) -> None:
    at %= len(cells)
    used = [*cells[:at], cells[at]._replace(free=max(0, cells[at].free - more)), *cells[at + 1 :]]
    assert opportunistic(used) >= opportunistic(cells) - 1e-9
    assert guaranteed(used) <= guaranteed(cells) + 1e-9
