"""The second judge: replicas that batch, as servers of language models do; docs/objectives.md has the model.

The same queue, the same starts and the same looks as the judge with slots. A request alone takes as long as there. With
others it takes longer: their prompts come in between, and a step for several takes longer than one for one.
"""

from typing import Any

import numpy as np

from controlplane.benchmarks.slo.engine import COUNT, FREED, OPEN, OPENS, serve_batched
from controlplane.benchmarks.slo.judge import Service
from controlplane.benchmarks.slo.traces import Floats, Trace, replicas_for

GROWTH = 0.05  # a step for b requests takes 1 + 0.05 (b - 1) times as long as one for one: chosen, not measured


def engine_seconds(trace: Trace) -> Floats:
    """Seconds of a replica that each request needs at least, where all seats are taken."""
    together: Floats = (1.0 + GROWTH * (trace.slots - 1)) / trace.slots * (trace.service - trace.prefill)
    return trace.prefill + together


def max_replicas(trace: Trace) -> int:
    """What an operator who knows the busiest minute might allow, by the same rule as with slots."""
    return replicas_for(trace.at, engine_seconds(trace))


class BatchingService(Service):
    """One service whose replicas batch: the rows of `engine.serve_batched`."""

    def __init__(self, trace: Trace, start: float) -> None:
        super().__init__(trace, start)
        self.row_of: dict[int, int] = {}
        self.rows, self.times = np.zeros((0, 2), dtype=np.int64), np.zeros((0, 4))
        self.who, self.left = np.zeros((0, trace.slots), dtype=np.int64), np.zeros((0, trace.slots, 2))
        self.decode = trace.service - trace.prefill

    def serve(self, until: float) -> None:
        """Let all happen that does before `until`."""
        self.begun = serve_batched(
            self.trace.at, self.trace.prefill, self.decode, self.begun, until, GROWTH, self.rows, self.times, self.who,
            self.left, self.began, self.ended, self.by,
        )  # fmt: skip

    def saved(self) -> Any:
        """What to come back to."""
        some = slice(self._since, self.begun)
        copies = tuple(one.copy() for one in (self.rows, self.times, self.who, self.left, self.ended[some]))
        return self.begun, copies

    def restore(self, saved: Any) -> None:
        """Go back to what was saved, once."""
        self.ended[self._since : self.begun] = np.inf
        self.begun, (self.rows, self.times, self.who, self.left, ended) = saved
        self.ended[self._since : self.begun] = ended

    def _note(self) -> None:
        """Nothing: the rows know."""

    def _arrange(self, now: float) -> None:
        """A row for each replica that is new; one that comes back, or is let go, takes requests again, or none."""
        for number in [n for n in self.row_of if n not in self.on and n not in self.draining]:
            self.rows[self.row_of.pop(number)] = 0
        for number, replica in self.on.items():
            row = self.row_of.get(number)
            if row is None:
                row = self.row_of[number] = self._new_row()
                self.times[row] = replica.ready
            elif not self.rows[row, OPEN]:
                self.times[row, OPENS] = max(self.times[row, OPENS], now)
            self.rows[row, OPEN] = 1
        for number in self.draining:
            self.rows[self.row_of[number], OPEN] = 0

    def _new_row(self) -> int:
        used = set(self.row_of.values())
        free = next((row for row in range(len(self.rows)) if row not in used), None)
        if free is not None:
            return free
        more = max(4, len(self.rows))
        self.rows, self.times, self.who, self.left = (
            np.concatenate((one, np.zeros((more, *one.shape[1:]), dtype=one.dtype)))
            for one in (self.rows, self.times, self.who, self.left)
        )
        return len(self.rows) - more

    def _idle_since(self, number: int) -> float:
        """When its last request ended; infinite while it has one."""
        row = self.row_of[number]
        return float("inf") if self.rows[row, COUNT] else float(self.times[row, FREED])
