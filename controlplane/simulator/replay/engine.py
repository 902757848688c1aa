"""The one replay engine: time goes on, work arrives, a round decides, work ends.

What happens to a workload by that is the life cycle's to say (controlplane/lifecycle, on values in memory). What
differs between replays is given: the policy (`decide`), how long things take (`Timing`: when what was started runs,
when what was stopped is gone, when work is done) and what is written down (`seen`, and what the owner looks at between
two calls).
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from autoscaler.decision import Scale
from autoscaler.law import Wanted
from autoscaler.scale import resized
from autoscaler.settings import Settings
from autoscaler.standby import borrowed, rearranged, taken_back
from controlplane.cluster.port import ON_DEVICE, ON_HOST, PodPhase, PodSeen
from controlplane.lifecycle import requests
from controlplane.lifecycle.pods import see, settle
from controlplane.lifecycle.state import LEAVING, Seat, State
from controlplane.simulator.replay.memory import Action, Memory, Record
from controlplane.simulator.replay.turn import Turn, admit_all, carry_out
from scheduler.model.decision import Decision, Evict, Shrink
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import ACTIVE, Workload
from scheduler.model.workload import LEAVING as PHASES_LEAVING

ACTOR = "replay"
Happening = Callable[[], None]


class Timing(Protocol):
    """The time model of running work: what it plans, the engine lets happen."""

    def start(self, workload: Workload) -> None:
        """The cluster has been told to start workers of it."""

    def stop(self, workload: Workload) -> None:
        """The cluster has been told to stop workers of it, with their grace."""


class Replay:
    """One world in memory. What happens at one time is in the order in which it was planned, or by `key`."""

    def __init__(
        self,
        snapshot: Snapshot,
        decide: Callable[[Snapshot], Sequence[Decision]],
        timing: Timing,
        seen: Callable[[Workload], None] = lambda workload: None,
        scaling: Settings = Settings(),  # noqa: B008 - frozen
    ) -> None:
        self.memory = _Watched(snapshot, seen)
        self._decide, self._timing, self._scaling = decide, timing, scaling
        self._events: list[tuple[float, str, int, Happening]] = []
        self._planned = 0
        self._cancelled: set[int] = set()
        self._performs = False

    @property
    def at(self) -> float:
        """The cluster's clock."""
        return self.memory.at

    @property
    def snapshot(self) -> Snapshot:
        """The world as the last round saw it, or as `flush` left it."""
        return self.memory.snapshot

    # --- time ---------------------------------------------------------------------------------

    def plan(self, at: float, happen: Happening, key: str = "") -> int:
        """Let something happen then, unless its number is cancelled."""
        self._planned += 1
        heapq.heappush(self._events, (at, key, self._planned, happen))
        return self._planned

    def cancel(self, number: int) -> None:
        """What is planned does not happen."""
        self._cancelled.add(number)

    @property
    def next(self) -> float:
        """When something happens next; inf if nothing does any more."""
        while self._events and self._events[0][2] in self._cancelled:
            self._cancelled.discard(heapq.heappop(self._events)[2])
        return self._events[0][0] if self._events else float("inf")

    def step(self) -> None:
        """Let the one thing that is next happen (`next` has said when). The clock never goes back."""
        at, _, _, happen = heapq.heappop(self._events)
        self.pass_to(at)
        happen()

    def pass_to(self, at: float) -> None:
        """Nothing happens until then."""
        self.memory.at = max(self.memory.at, at)

    # --- work ---------------------------------------------------------------------------------

    def get(self, uid: str) -> Workload | None:
        """A workload as it is now; None once it has ended."""
        return self.memory.get(uid)

    def submit(self, workload: Workload) -> None:
        """Work arrives, in any phase and with the places that it has."""
        self.memory.add(workload, Record(), ACTOR)

    def round(self) -> tuple[Decision, ...]:
        """Decide a round on what there is now, and do what it decided: nothing can have changed in between."""
        self.memory.flush()
        decisions = tuple(self._decide(self.memory.snapshot))
        carry_out(self.memory, decisions, ACTOR)
        self._perform()
        return decisions

    def run(self, uid: str) -> None:
        """All workers that have been started run."""
        self._show(uid, PodPhase.RUNNING, lambda seat: seat.pod_phase != PodPhase.RUNNING)

    def leave(self, uid: str) -> None:
        """All workers that were to leave are gone."""
        self._show(uid, PodPhase.GONE, lambda seat: seat.state == LEAVING)

    def end(self, uid: str) -> None:
        """It has done its work, and holds nothing from now on. A service ends as its user stops it."""
        row = self.memory.states[uid]
        self._ask(uid, requests.stop if row.is_service else requests.give_up_places)
        self._show(uid, PodPhase.GONE if row.is_service else PodPhase.SUCCEEDED, lambda seat: True)

    def withdraw(self, uid: str) -> None:
        """Its user takes it back while it waits."""
        self._ask(uid, requests.stop)

    def kill(self, uid: str) -> None:
        """Its user ends its workers at once and submits it again: it is the newest."""
        self._ask(uid, requests.requeue)
        self.leave(uid)
        if (workload := self.memory.get(uid)) is not None:
            self.memory.put(replace(workload, submitted_at=self.at))

    def resize(self, uid: str, workers: int, limit: int | None = None) -> Sequence[Scale | Shrink | Evict]:
        """Another number of replicas is wanted, or another limit for them: what was decided. Of a service that waits,
        just the number changes."""
        workload = self.memory.get(uid)
        if workload is not None and workload.phase in ACTIVE:
            decisions = self._resized(workload, workers, limit)
            carry_out(self.memory, decisions, ACTOR)
            self._perform()
            return decisions
        if workload is not None and workload.phase not in PHASES_LEAVING:
            self._ask(uid, lambda turn, row: turn.bump(row, workers=workers))
        return ()

    def _resized(self, workload: Workload, workers: int, limit: int | None) -> list[Scale | Shrink | Evict]:
        """The decisions by which so many replicas serve; all of those on standby are loaded."""
        if workload.awake is None:
            return [replace(resized(workload, workers, ""), limit=limit)]
        self.memory.flush()
        workloads = self.memory.snapshot.workloads
        lent = borrowed(workloads.values()).get(workload.id, {})
        change = rearranged(workload, Wanted(workers), [a.rank for a in workload.placement], lent, self._scaling)
        return [] if change is None else [change, *taken_back([change], workloads, self.at)]

    # --- the life cycle -----------------------------------------------------------------------

    def _show(self, uid: str, phase: PodPhase, is_meant: Callable[[Seat], bool]) -> None:
        """Pods of a workload are seen to have come to a phase."""
        turn = Turn(self.memory, ACTOR)
        row = turn.rows.get(uid)
        if row is None:
            return
        pods = [self._pod(seat, phase) for seat in turn.live(row) if seat.bound_at is not None and is_meant(seat)]
        settle(turn, row, see(turn, row, pods), pods)
        self._write(turn)

    def _moved(self, action: Action) -> None:
        """Weights are seen where they were told to go."""
        turn = Turn(self.memory, ACTOR)
        row = turn.rows.get(action.workload)
        if row is not None and row.attempt == action.attempt:
            seats = [seat for seat in turn.live(row) if seat.rank in action.ranks]
            there = ON_HOST if action.on else ON_DEVICE
            see(
                turn,
                row,
                [replace(self._pod(seat, PodPhase.RUNNING), weights=there, weights_at=self.at) for seat in seats],
            )
            self._write(turn)

    def _pod(self, seat: Seat, phase: PodPhase) -> PodSeen:
        ended = None if phase is PodPhase.RUNNING else self.at
        return PodSeen(seat.workload, seat.attempt, seat.rank, seat.node, (), phase, self.at, ended)

    def _ask(self, uid: str, request: Callable[[Turn, State], Any]) -> None:
        turn = Turn(self.memory, ACTOR)
        request(turn, turn.rows[uid])
        self._write(turn)

    def _write(self, turn: Turn) -> None:
        turn.write()
        admit_all(self.memory, ACTOR)
        self._perform()

    def _perform(self) -> None:
        """Give the cluster its commands, those included that come of it at once."""
        if self._performs:
            return
        self._performs = True
        while self.memory.outbox:
            action = self.memory.outbox.pop(0)
            workload = self.memory.get(action.workload)
            if action.verb == "offload":
                self.plan(self.at + self._scaling.host_wake_seconds, partial(self._moved, action))
            elif workload is not None and workload.attempt == action.attempt:
                (self._timing.start if action.verb == "start" else self._timing.stop)(workload)
        self._performs = False


class _Watched(Memory):
    """A memory of which each new value of a workload is shown."""

    def __init__(self, snapshot: Snapshot, seen: Callable[[Workload], None]) -> None:
        super().__init__(snapshot)
        self._seen = seen

    def put(self, workload: Workload) -> None:
        """Keep a workload as it is from now on."""
        super().put(workload)
        self._seen(workload)
