"""What a planner remembers of jobs: their work so far, the sizes they ran with, and how much work is usual.

Work is counted in examples of the reference speed: the expected rate of what a job holds, times how long it ran.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

from autoscaler.elasticity.constants import FINISHED_KEPT, LEAST_REMAINING
from autoscaler.elasticity.inputs import Job

Held = tuple[int, int, int]  # index of the type, nodes, GPUs


@dataclass(slots=True)
class Past:
    """One job. rate: examples/s of what it holds; runs_from, changed_at, seen_at: s; spread: types on several nodes."""

    model: str
    seen_at: float
    work: float = 0.0
    rate: float = 0.0
    runs_from: float = 0.0
    changed_at: float = 0.0
    held: Held | None = None
    most_seen: int = 0
    spread: frozenset[int] = frozenset()


@dataclass(slots=True)
class Memory:
    """What one plan leaves for the next."""

    jobs: dict[Hashable, Past] = field(default_factory=dict)
    totals: dict[str, deque[float]] = field(default_factory=dict)  # of finished jobs by model, the last ones
    largest: dict[str, int] = field(default_factory=dict)  # GPUs that finished jobs had at most, by model

    def observe(self, now: float, jobs: Iterable[Job], held: Mapping[Hashable, Held]) -> None:
        """Count the work since the last plan; a job that is no longer there has finished."""
        present = {job.id: job for job in jobs}
        for identity in [identity for identity in self.jobs if identity not in present]:
            past = self.jobs.pop(identity)
            self._count(past, now)
            self.largest[past.model] = max(past.most_seen, self.largest.get(past.model, 0))
            if past.work > 0:
                self.totals.setdefault(past.model, deque(maxlen=FINISHED_KEPT)).append(past.work)
        for job in present.values():
            past = self.jobs.setdefault(job.id, Past(job.model, now))
            self._count(past, now)
            holds = held.get(job.id)
            if holds != past.held:  # it was changed by other hands, or is seen for the first time
                self._change(past, now, job.restart, holds)
            if holds is not None:
                past.most_seen = max(past.most_seen, holds[2])
                if holds[1] > 1 and not job.is_restarting:
                    past.spread |= {holds[0]}

    def decided(self, now: float, job: Job, holds: Held | None, rate: float) -> None:
        """Note what it has from now on, and how fast it is expected to be with it."""
        past = self.jobs[job.id]
        if holds != past.held:
            self._change(past, now, job.restart, holds)
        past.rate = rate if holds is not None else 0.0

    def remaining(self, identity: Hashable) -> float | None:
        """Examples that a job still has to do, by what was usual of its model; None where that is not known."""
        past = self.jobs[identity]
        known = self.totals.get(past.model)
        if not known:
            return None
        total = median(known)
        return max(total - past.work, LEAST_REMAINING * total)

    @staticmethod
    def _count(past: Past, now: float) -> None:
        past.work += past.rate * max(0.0, now - max(past.seen_at, past.runs_from))
        past.seen_at = now

    @staticmethod
    def _change(past: Past, now: float, restart: float, holds: Held | None) -> None:
        past.held, past.changed_at, past.runs_from = holds, now, now + restart
