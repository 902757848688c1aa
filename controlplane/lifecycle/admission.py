"""Reserved places become held ones once those that held them have left; places on what is out of use are given up."""

from collections.abc import Callable, Collection, Sequence

from controlplane.lifecycle.attempts import requeue
from controlplane.lifecycle.changes import Changes
from controlplane.lifecycle.pods import settle
from controlplane.lifecycle.state import RESERVED, Seat, State
from scheduler.model.workload import Phase


def admit(changes: Changes, row: State, leaving: Collection[str], is_lost: Callable[[Seat], bool]) -> None:
    """Start a workload that waited for others, if it can.

    leaving: the workloads of which workers still have to leave; is_lost: a place's node or device is out of use.
    """
    settle(changes, row, ())
    places = [seat for seat in changes.live(row) if seat.state == RESERVED]
    lost = [seat for seat in places if is_lost(seat)]
    if lost and row.phase == Phase.RESERVED:
        for seat in places:
            changes.release(row, seat)
        requeue(changes, row, "NodeLost", f"{lost[0].node}, where it was to run, is out of use.")
        return
    for seat in lost:
        changes.release(row, seat)
    if places and not set(row.reserved_after).intersection(leaving):  # itself may be among them
        _bind(changes, row, [seat for seat in places if seat.is_live])


def _bind(changes: Changes, row: State, places: Sequence[Seat]) -> None:
    for seat in places:
        changes.bind(seat)
    if row.phase == Phase.RESERVED:
        changes.change(row, reserved_after=[], reason="", message="")
        changes.move(row, Phase.ADMITTED)
    else:
        changes.bump(row, reserved_after=[], reason="", message="")
        changes.note(row, "Placed", data={"ranks": [seat.rank for seat in places]})
    if places:
        changes.act("start", row, [seat.rank for seat in places])
