"""Parts of quotas follow what is asked for. They never add up to more than the quota, whichever decider reads when."""

from hypothesis import given
from hypothesis import strategies as st

from controlplane.services.cells.parts import nearer
from controlplane.services.cells.standing import Ground
from scheduler.cells.apportion import apportion
from scheduler.cells.divide import Part
from scheduler.model.team import Quota

CELLS = ("", "north", "south")
steps = st.lists(
    st.tuples(st.fixed_dictionaries(dict.fromkeys(CELLS, st.integers(0, 9))), st.sets(st.sampled_from(CELLS))),
    max_size=12,
)


def ground(nominal: int) -> Ground:
    return Ground((), {}, {("red", "main"): Quota("red", "main", nominal)}, {}, {"red": None})


@given(st.integers(0, 40).map(lambda gpus: gpus * 1000), steps)
def test_what_deciders_go_by_is_never_more_than_the_quota(
    nominal: int, happens: list[tuple[dict[str, int], set[str]]]
) -> None:
    on, stored, read = ground(nominal), dict.fromkeys(CELLS, 0), dict.fromkeys(CELLS, 0)
    unread: set[str] = set()
    for weights, reading in happens:
        goal = {("red", "main", cell): Part(milli) for cell, milli in apportion(nominal, weights).items()}
        now = {("red", "main", cell): Part(milli, None, None) for cell, milli in stored.items()}
        limits = nearer(on, goal, now, may_raise=not unread)
        new = {cell: limits["red", "main", cell].nominal for cell in CELLS}
        unread |= {cell for cell in CELLS if new[cell] != stored[cell]}
        stored = new
        read |= {cell: stored[cell] for cell in reading}
        unread -= reading
        assert sum(read.values()) <= nominal
        assert sum(stored.values()) <= nominal


@given(st.integers(0, 40).map(lambda gpus: gpus * 1000), st.fixed_dictionaries(dict.fromkeys(CELLS, st.integers(0, 9))))
def test_two_steps_that_all_have_read_reach_the_goal(nominal: int, weights: dict[str, int]) -> None:
    goal = {("red", "main", cell): Part(milli) for cell, milli in apportion(nominal, weights).items()}
    now = {("red", "main", cell): Part(milli, None, None) for cell, milli in zip(CELLS, (nominal, 0, 0), strict=True)}
    for _ in range(2):
        now = nearer(ground(nominal), goal, now, may_raise=True)
    assert {key: part.nominal for key, part in now.items()} == {key: part.nominal for key, part in goal.items()}
