"""What one transaction of the life cycle does to workloads: all that is to be written about them afterwards."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from controlplane.lifecycle.state import BOUND, LEAVING, RELEASED, RESERVED, Seat, State
from scheduler.model.workload import ACTIVE, ENDED, Assignment, Phase, may_move
from scheduler.model.workload import LEAVING as LEAVING_PHASES

HOLDING = ACTIVE | LEAVING_PHASES  # phases in which pods may hold a place


class IllegalMoveError(Exception):
    """A step that the life cycle does not have: a bug, never a user's fault."""


class Named(Protocol):
    """The least that an event needs to know of the workload that it is about."""

    @property
    def id(self) -> str:
        """Its uid."""

    @property
    def name(self) -> str:
        """Within its team."""

    @property
    def phase(self) -> Phase:
        """Where it is in its life."""


class Note(NamedTuple):
    """An event about a workload."""

    of: Any  # what it is about: Named
    phase: Phase
    kind: str
    reason: str
    message: str
    data: Mapping[str, Any]


class Place(NamedTuple):
    """A new place of a workload's attempt. `bound_at` is None for one that others still have to leave."""

    of: Any  # State
    attempt: int
    rank: int
    node: str
    gpus: Sequence[int]
    milli: int
    bound_at: float | None
    revision: int = 1
    asleep_at: float | None = None
    lender: str = ""

    @property
    def state(self) -> str:
        """As Seat has it."""
        return RESERVED if self.bound_at is None else BOUND


class Command(NamedTuple):
    """What the cluster has to do once the changes are stored: start, stop or resize these ranks of an attempt."""

    verb: str
    workload: str
    attempt: int
    payload: Mapping[str, Any]


class Changes:
    """Workloads and their places as they become, and the events, new places and commands that come with it.

    `at` is the cluster's clock. What runs or has ended in it is in `steps`: others may wait for that.
    """

    def __init__(self, at: float, actor: str) -> None:
        self.at = at
        self.actor = actor
        self.rows: Mapping[str, State] = {}
        self.seats: dict[str, list[Seat]] = {}
        self.moves = 0
        self.notes: list[Note] = []
        self.places: list[Place] = []
        self.commands: list[Command] = []
        self.steps: list[tuple[State, Phase]] = []
        self.touched: dict[str, Any] = {}  # by id: State, or what is Named; what the scheduler has to look at again

    def live(self, row: State) -> list[Seat]:
        """The places of a workload that it still holds or has reserved."""
        return [seat for seat in self.seats.get(row.id, ()) if seat.is_live]

    def unfinished(self, row: State, ends: Sequence[Seat]) -> bool:
        """Whether a worker of this attempt, beside those that end now, ended otherwise than in success before."""
        raise NotImplementedError

    # --- workloads ----------------------------------------------------------------------------

    def move(
        self,
        row: State,
        to: Phase,
        *,
        kind: str = "",
        reason: str = "",
        message: str = "",
        data: Mapping[str, Any] = {},
    ) -> None:
        """Take one step of the life cycle, with its event (of the phase's name unless `kind` is given)."""
        if not may_move(row.phase, to):
            raise IllegalMoveError(f"{row.id}: {row.phase} -> {to}")
        before, row.phase = row.phase, to
        row.version += 1
        row.changed |= {"phase", "version"}
        if to in ENDED:
            self.change(row, reason=reason, message=message, intent="", reserved_after=[])
        if row.resize is not None and to not in HOLDING:
            self.settle_size(row)  # nothing of it runs any more: it has what it asks for when it starts again
        if row.surge and to not in ACTIVE:
            self.change(row, surge=0)  # what starts again is of the newest revision
        if row.rollout is not None and to in ENDED:
            self.change(row, rollout=None)
        if to in ENDED or to == Phase.RUNNING:
            self.steps.append((row, to))
        if row.is_service:
            self._leave_sleep(row, before)
        self.moves += 1
        self.note(row, kind or to.value, reason=reason, message=message, data=data)

    def _leave_sleep(self, row: State, before: Phase) -> None:
        """What a step means for a service that may be asleep: what starts again has a replica, as at first.

        Also for one with a least of 1 whose pods no look has shown: it may have been asleep until that was changed.
        """
        if row.phase == Phase.QUEUED and row.workers == 0:
            self.change(row, workers=1)
        if before in ACTIVE and row.phase not in ACTIVE and not any(seat.pod_phase for seat in self.live(row)):
            self.keep_address(row, on=False)

    def followed(self, row: State) -> None:
        """Have those that start after a workload follow it, as if it had just come to its phase."""
        self.steps.append((row, row.phase))

    def change(self, row: State, **columns: Any) -> None:
        """Set columns without a step of the life cycle; the version stays unless it is among them."""
        for name, value in columns.items():
            setattr(row, name, value)
        row.changed |= columns.keys()
        self.touched[row.id] = row

    def bump(self, row: State, **columns: Any) -> None:
        """Set columns that a decision may have relied on: the version grows, so that older decisions are stale."""
        self.change(row, version=row.version + 1, **columns)

    def settle_size(self, row: State) -> None:
        """A resize is over: what its workers were to have is what counts from now on."""
        if row.resize is not None:
            cpu_milli, memory = row.resize["to"]
            self.change(row, cpu_milli=cpu_milli, memory=memory, resize=None)

    def note(self, row: Named, kind: str, *, reason: str = "", message: str = "", data: Mapping[str, Any] = {}) -> None:
        """Add an event about a workload."""
        self.touched[row.id] = row
        self.notes.append(Note(row, row.phase, kind, reason, message, data))

    # --- places -------------------------------------------------------------------------------

    def place(self, row: State, workers: Sequence[Assignment], *, reserve: bool, revisions: Sequence[int] = ()) -> None:
        """Give a workload's attempt new places; revisions: of each, if not the wanted one."""
        bound_at = None if reserve else self.at
        of = revisions or [row.revision] * len(workers)
        for w, revision in zip(workers, of, strict=True):
            milli = 0 if w.lender else row.milli_of(w.rank)
            place = Place(row, row.attempt, w.rank, w.node, w.gpus, milli, bound_at, revision, w.asleep_at, w.lender)
            self.places.append(place)
        self.touched[row.id] = row

    def bind(self, seat: Seat) -> None:
        """A reserved place is free now: it is held from here on."""
        seat.state, seat.bound_at, seat.is_changed = BOUND, self.at, True

    def leave(self, row: State, leavers: Sequence[Seat], grace: float | None = None) -> None:
        """End these workers' pods; they hold their places until the pods are gone."""
        for seat in leavers:
            seat.state, seat.is_changed = LEAVING, True
        if leavers:
            self.act("stop", row, [seat.rank for seat in leavers], grace=row.grace_seconds if grace is None else grace)

    def release(self, row: State, seat: Seat, at: float | None = None, pod_phase: str = "") -> None:
        """A place is free again; what was held until `at` is added to what the workload attained."""
        seat.state, seat.is_changed = RELEASED, True
        seat.pod_phase = pod_phase or seat.pod_phase
        seat.released_at = self.at if at is None else min(max(at, seat.bound_at or at), self.at)
        if held := seat.milli * seat.seconds_held:
            self.change(row, attained=row.attained + held)
        self.touched[row.id] = row

    # --- commands -----------------------------------------------------------------------------

    def keep_address(self, row: State, *, on: bool) -> None:
        """Have a service's address stay while it has no replica, as its queue is behind it; or go, as it leaves."""
        self.act("address", row, (), on=on)

    def act(self, verb: str, row: State, ranks: Sequence[int], **payload: Any) -> None:
        """Have the cluster do something once this is stored."""
        self.commands.append(Command(verb, row.id, row.attempt, {"ranks": list(ranks), **payload}))
