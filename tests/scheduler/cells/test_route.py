"""The cell of a workload: whole, allowed, and where its team is least crowded."""

import pytest

from gpushare.gpu import WHOLE
from scheduler.cells.route import NoCellError, Room, route
from scheduler.model.cell import Cell, cell_of, names


def room(
    cell: str, gpus: int, free: int, *, holds: bool = True, allowed: int | None = None, left: int | None = None
) -> Room:
    limits = (None if some is None else some * WHOLE for some in (allowed, left))
    return Room(cell, holds, gpus * WHOLE, free * WHOLE, *limits)


def test_a_rack_goes_before_a_pool_and_what_is_named_nowhere_is_in_the_rest() -> None:
    cells = (Cell("north", pools=("a100",)), Cell("south", racks=("r1",)))
    assert [cell_of(cells, *of) for of in (("a100", "r1"), ("a100", "r2"), ("h100", ""), ("h100", "r1"))] == [
        "south", "north", "", "south",
    ]  # fmt: skip
    assert names(cells) == ("", "north", "south")


def test_it_goes_where_most_is_left_of_the_room_and_of_what_its_team_may_have() -> None:
    assert route(8 * WHOLE, [room("north", 16, 10), room("south", 16, 12)], "8 GPUs") == "south"
    assert route(8 * WHOLE, [room("north", 16, 10, left=9), room("south", 16, 12, left=8)], "8 GPUs") == "north"


def test_ties_go_to_the_first_by_name() -> None:
    assert route(8 * WHOLE, [room("south", 16, 10), room("north", 16, 10)], "8 GPUs") == "north"


def test_a_cell_that_could_never_hold_it_is_left_out_however_empty_it_is() -> None:
    small, forbidden = room("east", 4, 4, holds=False), room("south", 64, 64, allowed=4)
    assert route(8 * WHOLE, [small, forbidden, room("west", 16, -40)], "8 GPUs") == "west"


def test_where_none_can_all_are_told_with_what_they_have() -> None:
    rooms = [room("north", 512, 9, holds=False), room("south", 256, 9, holds=False)]
    with pytest.raises(NoCellError) as refused:
        route(600 * WHOLE, rooms, "600 GPUs of model X")
    assert str(refused.value) == (
        "No cell could ever hold 600 GPUs of model X: north has 512 such GPUs, south has 256 such GPUs. "
        "Ask for less, or have the cells changed."
    )


def test_a_named_cell_is_taken_and_one_that_cannot_is_told_with_those_that_can() -> None:
    rooms = [room("north", 16, -9), room("south", 4, 4, holds=False), room("", 64, 64)]
    assert route(8 * WHOLE, rooms, "8 GPUs", "north") == "north"
    with pytest.raises(NoCellError) as refused:
        route(8 * WHOLE, rooms, "8 GPUs", "south")
    assert str(refused.value) == (
        "Cell south could never hold 8 GPUs: south has 4 such GPUs. Name cell north or rest, or leave the cell out."
    )


def test_what_its_team_may_hold_nowhere_waits_as_it_would_in_one_cell() -> None:
    assert route(8 * WHOLE, [room("north", 64, 9, allowed=4), room("south", 64, 60, allowed=4)], "8 GPUs") == "south"
