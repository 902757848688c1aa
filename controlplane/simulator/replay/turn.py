"""What is done to workloads in memory at once: decisions that are committed, an observation, what a user asks.

The life cycle itself is in controlplane/lifecycle; this is the counterpart, in memory, of
services/workloads/transitions.py.
"""

from collections.abc import Sequence
from typing import Any

from controlplane.cluster.port import PodPhase
from controlplane.lifecycle import requests
from controlplane.lifecycle.admission import admit
from controlplane.lifecycle.changes import Changes
from controlplane.lifecycle.decisions import apply, tell
from controlplane.lifecycle.following import follow
from controlplane.lifecycle.stale import Made
from controlplane.lifecycle.state import Seat, State
from controlplane.simulator.replay.memory import Action, Memory
from scheduler.model.applied import becomes
from scheduler.model.decision import Place, Wait
from scheduler.model.workload import ENDED, Assignment, Phase


class Turn(Changes):
    """Changes of one memory's workloads; `write` takes them into it."""

    def __init__(self, memory: Memory, actor: str) -> None:
        super().__init__(memory.at, actor)
        self.memory = memory
        self.rows = memory.states
        self.awaited: dict[str, tuple[str, ...]] = {}  # for whose places a decision asked others to leave

    def live(self, row: State) -> list[Seat]:
        """The places of a workload that it still holds or has reserved."""
        return [seat for seat in self.memory.records[row.id].seats if seat.is_live]

    def unfinished(self, row: State, ends: Sequence[Seat]) -> bool:
        """Whether a worker of this attempt, beside those that end now, ended otherwise than in success before."""
        now = {seat.rank for seat in ends}
        return any(
            seat.pod_phase != PodPhase.SUCCEEDED
            for seat in self.memory.records[row.id].seats
            if seat.rank >= row.role_members and seat.rank not in now
        )

    def move(self, row: State, to: Phase, **told: Any) -> None:
        """Take one step of the life cycle, with its record."""
        before = row.phase
        super().move(row, to, **told)
        self.memory.step(row, before, self.actor)
        if to in ENDED:
            self.memory.excuse(row.id)

    def bind(self, seat: Seat) -> None:
        """A reserved place is free now: it is held from here on."""
        super().bind(seat)
        self.memory.hold(seat)

    def leave(self, row: State, leavers: Sequence[Seat], grace: float | None = None) -> None:
        """End these workers' pods."""
        super().leave(row, leavers, grace)
        self.memory.excuse(row.id)

    def release(self, row: State, seat: Seat, at: float | None = None, pod_phase: str = "") -> None:
        """A place is free again."""
        super().release(row, seat, at, pod_phase)
        if seat.bound_at is None:
            self.memory.excuse(row.id)
        else:
            self.memory.release(seat)

    def write(self) -> None:
        """Take everything into the memory."""
        self._follow()
        self._new_places()
        for one in self.commands:
            if one.verb == "address":  # nothing in memory has one
                continue
            ranks, grace = tuple(one.payload["ranks"]), one.payload.get("grace", 0.0)
            self.memory.ask(Action(one.verb, one.workload, one.attempt, ranks, grace, one.payload.get("on", False)))
        for row in self.touched.values():
            row.seen = row.version
            self.memory.take(row)
        self.notes, self.commands, self.places, self.touched = [], [], [], {}

    def _new_places(self) -> None:
        promised: dict[str, list[Assignment]] = {}
        for one in self.places:
            record = self.memory.records[one.of.id]
            if record.seats and record.seats[0].attempt != one.attempt:
                record.seats, record.gpus, record.performed = [], {}, {}
            what = one.milli, one.state, "", one.bound_at, one.revision, one.asleep_at, one.lender
            seat = Seat(0, one.of.id, one.attempt, one.rank, one.node, *what)
            record.seats.append(seat)
            record.gpus[one.rank] = tuple(one.gpus)
            if seat.bound_at is None:
                place = Assignment(one.rank, one.node, tuple(one.gpus), reserved=True)
                promised.setdefault(one.of.id, []).append(place)
            else:
                self.memory.hold(seat)
        for uid, workers in promised.items():
            self.memory.promise(self.rows[uid], workers, self.awaited.get(uid, ()))

    def _follow(self) -> None:
        while self.steps:
            steps, self.steps = self.steps, []
            for row, phase in steps:
                team = self.memory.records[row.id].team
                for uid in sorted(self.memory.gated & self.rows.keys()):
                    record = self.memory.records[uid]
                    if record.team == team:
                        follow(self, self.rows[uid], row, phase, record.after.get(row.name, ""))


# --- decisions --------------------------------------------------------------------------------


def carry_out(memory: Memory, decisions: Sequence[Made], actor: str) -> None:
    """Apply decisions, one after the other."""
    turn = Turn(memory, actor)
    for decision in decisions:
        row = turn.rows[decision.workload]
        if isinstance(decision, Wait):
            tell(turn, row, decision)
            for name, value in becomes(row, decision, turn.at).items():
                setattr(row, name, value)
        else:
            apply(turn, row, decision)
            if isinstance(decision, Place):
                turn.awaited[row.id] = decision.after
    turn.write()
    admit_all(memory, actor)  # those it waits for may have left since the round looked


def admit_all(memory: Memory, actor: str) -> None:
    """Start what waited for others to leave, once they have; give up places that are out of use."""
    if not memory.promised:
        return
    turn = Turn(memory, actor)
    for uid in sorted(memory.promised):
        admit(turn, turn.rows[uid], memory.leaving, lambda seat: _is_lost(memory, seat))
    turn.write()


def _is_lost(memory: Memory, seat: Seat) -> bool:
    inventory = memory.snapshot.inventory
    at = inventory.index.get(seat.node)
    if at is None:
        return True
    node = inventory.nodes[at]
    return not node.is_usable or bool(set(memory.records[seat.workload].gpus[seat.rank]) & set(node.lost))


# --- users ------------------------------------------------------------------------------------


def stop(memory: Memory, uid: str, actor: str) -> None:
    """End a workload; nothing if it has ended."""
    _ask(memory, uid, actor, requests.stop)


def suspend(memory: Memory, uid: str, actor: str) -> None:
    """Give a workload's places back until it is resumed."""
    _ask(memory, uid, actor, requests.suspend)


def resume(memory: Memory, uid: str, actor: str) -> None:
    """Queue a held or suspended workload again."""
    _ask(memory, uid, actor, requests.resume)


def _ask(memory: Memory, uid: str, actor: str, request: Any) -> None:
    row = memory.states.get(uid)
    if row is not None:
        turn = Turn(memory, actor)
        request(turn, row)
        turn.write()
