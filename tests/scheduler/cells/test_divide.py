"""What each cell has of the quotas: exact, first where work is, and no more than there are nodes."""

from hypothesis import given
from hypothesis import strategies as st

from gpushare.gpu import WHOLE
from scheduler.cells.apportion import apportion, by_room
from scheduler.cells.divide import Needed, Part, divide
from scheduler.model.team import Quota

CELLS = ("", "north", "south")
TEAMS = ("a", "b", "c", "d")
gpus = st.integers(0, 40).map(lambda count: count * WHOLE)
milli = st.one_of(gpus, st.integers(0, 40_000))


@given(milli, st.dictionaries(st.sampled_from(CELLS), milli, min_size=1))
def test_an_amount_is_divided_exactly_and_nothing_goes_where_no_weight_is(amount: int, weights: dict[str, int]) -> None:
    for found in (apportion(amount, weights), by_room(amount, weights)):
        assert sum(found.values()) == amount
        assert all(value >= 0 for value in found.values())
        assert not any(weights.values()) or all(weights[cell] or not found[cell] for cell in weights)


@given(gpus, st.dictionaries(st.sampled_from(CELLS), milli, min_size=1))
def test_whole_gpus_stay_within_the_room_where_there_is_room_for_all(amount: int, room: dict[str, int]) -> None:
    found = by_room(amount, room)
    if sum(free // WHOLE for free in room.values()) * WHOLE >= amount:
        assert all(found[cell] <= room[cell] and found[cell] % WHOLE == 0 for cell in room)


@st.composite
def _worlds(
    draw: st.DrawFn,
) -> tuple[dict[str, str | None], list[Quota], dict[str, int], dict[tuple[str, str], int], list[Needed]]:
    teams: dict[str, str | None] = {
        "a": None,
        "b": draw(st.sampled_from((None, "a"))),
        "c": draw(st.sampled_from((None, "b"))),
        "d": None,
    }
    limit = st.one_of(st.none(), milli)
    quotas = []
    for team in draw(st.sets(st.sampled_from(TEAMS))):
        nominal = draw(milli)
        lending = draw(st.one_of(st.none(), st.integers(0, nominal)))
        quotas.append(Quota(team, "main", nominal, draw(limit), lending))
    capacity = draw(st.dictionaries(st.sampled_from(CELLS), gpus, min_size=1))
    keys = st.tuples(st.sampled_from(TEAMS), st.sampled_from(CELLS))
    held = draw(st.dictionaries(keys, milli, max_size=6))
    asked = [Needed(*key, draw(milli)) for key in draw(st.lists(keys, max_size=6))]
    return teams, quotas, capacity, held, asked


@given(_worlds())
def test_the_parts_of_each_quota_add_up_to_it(world) -> None:  # type: ignore[no-untyped-def]
    teams, quotas, capacity, held, asked = world
    found = divide(teams, quotas, capacity, held, asked)
    assert found == divide(teams, quotas, capacity, held, asked)
    for quota in quotas:
        parts = [found[quota.team, cell] for cell in capacity]
        assert sum(part.nominal for part in parts) == quota.nominal
        for whole_limit, limits in (
            (quota.borrowing, [part.borrowing for part in parts]),
            (quota.lending, [part.lending for part in parts]),
        ):
            assert limits == [None] * len(parts) if whole_limit is None else sum(limits) == whole_limit  # type: ignore[arg-type]
        assert all(part.nominal >= 0 and (part.borrowing or 0) >= 0 and (part.lending or 0) >= 0 for part in parts)


@given(_worlds())
def test_no_cell_promises_more_than_its_nodes_where_all_quotas_are_whole_and_fit(world) -> None:  # type: ignore[no-untyped-def]
    teams, quotas, capacity, _, asked = world
    quotas = [Quota(q.team, q.pool, q.nominal // WHOLE * WHOLE) for q in quotas if teams[q.team] is None]
    if sum(quota.nominal for quota in quotas) <= sum(capacity.values()):
        found = divide(teams, quotas, capacity, {}, asked)
        for cell, milli_there in capacity.items():
            assert sum(found[quota.team, cell].nominal for quota in quotas) <= milli_there


def test_what_is_held_goes_first_then_what_is_asked_for_in_its_order() -> None:
    capacity = {"north": 16 * WHOLE, "south": 16 * WHOLE}
    held = {("a", "south"): 2 * WHOLE}
    asked = [Needed("a", "north", 8 * WHOLE), Needed("a", "south", 8 * WHOLE)]
    found = divide({"a": None}, [Quota("a", "main", 12 * WHOLE, 2 * WHOLE)], capacity, held, asked)
    assert found == {("a", "north"): Part(8 * WHOLE, 0, None), ("a", "south"): Part(4 * WHOLE, 2 * WHOLE, None)}


def test_what_nobody_asks_for_lies_where_nodes_are_left() -> None:
    capacity = {"north": 24 * WHOLE, "south": 8 * WHOLE}
    found = divide(
        {"a": None, "b": None}, [Quota("a", "main", 16 * WHOLE, 0), Quota("b", "main", 16 * WHOLE, 0)], capacity, {}, []
    )
    assert [found[team, "north"].nominal for team in "ab"] == [12 * WHOLE, 12 * WHOLE]
    assert [found[team, "south"].nominal for team in "ab"] == [4 * WHOLE, 4 * WHOLE]


def test_a_child_that_holds_more_than_it_owns_draws_its_parents_part_to_its_cell() -> None:
    teams = {"lab": None, "a": "lab"}
    quotas = [Quota("lab", "main", 8 * WHOLE, 0), Quota("a", "main", 2 * WHOLE)]
    found = divide(teams, quotas, {"north": 80 * WHOLE, "south": 80 * WHOLE}, {("a", "south"): 6 * WHOLE}, [])
    assert found["lab", "south"].nominal == 6 * WHOLE + WHOLE
    assert found["a", "south"].nominal == 2 * WHOLE
