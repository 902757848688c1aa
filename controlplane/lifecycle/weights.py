"""The weights of a service's replicas on standby: told to move, seen to have moved, and what is done if they do not.

A replica is sent no requests from the decision that moves its weights off the device until they are seen to be back.
"""

from collections.abc import Collection, Iterable

from controlplane.cluster.port import ON_DEVICE, ON_HOST, REFUSED, PodSeen
from controlplane.lifecycle.changes import Changes
from controlplane.lifecycle.state import BOUND, Seat, State
from scheduler.model.decision import Offload
from scheduler.model.mention import counted
from scheduler.model.workload import Weights

ON_THEIR_WAY = (Weights.TO_HOST, Weights.TO_DEVICE)
OVERDUE_SECONDS = 180.0  # longer than the adapter waits for node and server: then what was told may be lost
_FROM = {Weights.TO_HOST: Weights.DEVICE, Weights.TO_DEVICE: Weights.HOST}


def move(changes: Changes, row: State, decision: Offload) -> None:
    """Have the weights of these replicas moved."""
    seats = [s for s in changes.live(row) if s.rank in decision.ranks and s.state == BOUND]
    told = [seat for seat in seats if seat.weights == _FROM[decision.to]]
    changes.bump(row)
    _tell(changes, row, told, decision.to)
    kind = "Offloaded" if decision.to == Weights.TO_HOST else "Restored"
    data = {"ranks": [seat.rank for seat in told]} | ({"by": decision.by} if decision.by else {})
    changes.note(row, kind, message=decision.message, data=data)


def see(changes: Changes, row: State, seat: Seat, pod: PodSeen) -> None:
    """Take note of where a replica's weights are seen to be."""
    if pod.weights_at is None or (seat.weights_at is not None and pod.weights_at < seat.weights_at):
        return  # what was seen before they were told to move says nothing of this move
    if pod.weights == REFUSED and seat.weights in (Weights.TO_HOST, Weights.TO_DEVICE):
        refused(changes, row, [seat.rank], Weights(seat.weights), pod.weights_message or "its server did not say why")
    elif seat.weights == Weights.TO_HOST and pod.weights == ON_HOST:
        _are(changes, row, seat, Weights.HOST)
    elif seat.weights == Weights.TO_DEVICE and pod.weights == ON_DEVICE:
        _are(changes, row, seat, Weights.DEVICE)
        _serve(changes, row, seat)
    elif seat.weights == Weights.FIXED and pod.weights == ON_HOST and seat.state == BOUND:
        _tell(changes, row, [seat], Weights.TO_DEVICE)  # its server did it after all, when it was no longer waited for


def repeat(changes: Changes, rows: Iterable[State]) -> None:
    """Tell those again that were told long ago and are not there: the process that did it may have ended."""
    late = changes.at - OVERDUE_SECONDS
    for row in rows:
        seats = [s for s in changes.live(row) if s.state == BOUND and s.weights_at is not None and s.weights_at <= late]
        for to in ON_THEIR_WAY:
            if ranks := [seat.rank for seat in seats if seat.weights == to]:
                changes.act("offload", row, ranks, on=to == Weights.TO_HOST)


def refused(changes: Changes, row: State, ranks: Collection[int], to: Weights, error: str) -> None:
    """The servers of these replicas do not move them: they stay on the device, or what cannot come back is replaced."""
    seats = [s for s in changes.live(row) if s.rank in ranks and s.state == BOUND and s.weights == to]
    if not seats:
        return
    changes.bump(row)
    data = {"ranks": [seat.rank for seat in seats]}
    what = counted(len(seats), "replica")
    if to == Weights.TO_HOST:
        for seat in seats:
            _are(changes, row, seat, Weights.FIXED)
            _serve(changes, row, seat)
        text = f"The weights of {what} stay on the GPU, as the server did not move them: {error}"
        changes.note(row, "OffloadRefused", reason="StaysOnDevice", message=text[:400], data=data)
        return
    changes.leave(row, seats)
    text = f"{what} could not bring the weights back to the GPU, and is replaced: {error}"
    changes.note(row, "OffloadRefused", reason="Replaced", message=text[:400], data=data)


def _tell(changes: Changes, row: State, seats: Collection[Seat], to: Weights) -> None:
    for seat in seats:
        _are(changes, row, seat, to)
        seat.weights_at = changes.at
    if seats:
        changes.act("offload", row, [seat.rank for seat in seats], on=to == Weights.TO_HOST)


def _are(changes: Changes, row: State, seat: Seat, weights: Weights) -> None:
    seat.weights, seat.is_changed = weights, True
    changes.touched[row.id] = row


def _serve(changes: Changes, row: State, seat: Seat) -> None:
    """A replica that was to serve meanwhile gets requests from now on."""
    if seat.asleep_at is None and seat.state == BOUND:
        changes.act("wake", row, [seat.rank])
