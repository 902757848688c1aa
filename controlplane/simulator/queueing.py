"""A cluster without latencies: jobs arrive, wait, run their time and end; each moment is one round of the core.

What is measured here is the queue alone: pods start and end at once, nothing fails, and rounds take no time of the
cluster's clock. Work that is made to leave goes back to the queue with what it did.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from scheduler.decision import Decision, Place
from scheduler.history import History, Run, learn
from scheduler.schedule import schedule
from scheduler.settings import Settings
from scheduler.snapshot import Node, Snapshot
from scheduler.team import Quota, Team
from scheduler.workload import Phase, Workload

TEACHES = 2000  # the newest runs that history is learnt from
LEARNS_EVERY = 200  # ended jobs between two histories


@dataclass(frozen=True, slots=True)
class Job:
    """A workload as it is submitted, at `workload.queued_at`, and the seconds it will run."""

    workload: Workload
    seconds: float


class Queueing:
    """One cluster; `advance` goes from one moment to the next at which a job comes or ends."""

    def __init__(
        self,
        at: float,
        nodes: Iterable[Node],
        teams: Iterable[Team],
        quotas: Iterable[Quota] = (),
        settings: Settings = Settings(),  # noqa: B008  (frozen)
    ) -> None:
        self.snapshot = Snapshot.build(at, nodes, teams, quotas, ())
        self.settings = settings
        self.queued: dict[str, float] = {}  # when each job came
        self.started: dict[str, float] = {}  # when it first ran
        self.arrived: tuple[str, ...] = ()  # who came with the last round
        self.busy_milli_seconds = 0.0
        self.runs: list[Run] = []
        self._seconds: dict[str, float] = {}  # still to run
        self._ends: list[tuple[float, str, int]] = []
        self._busy = 0
        self._learnt = 0
        self._queued: set[str] = set()

    @property
    def next_end(self) -> float:
        """When the next job ends; inf if none runs."""
        while self._ends and not self._runs_still(*self._ends[0][1:]):
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else float("inf")

    @property
    def waiting(self) -> Iterator[Workload]:
        """Who waits."""
        return (w for w in self.snapshot.workloads.values() if w.phase is Phase.QUEUED)

    def seconds_of(self, uid: str) -> float:
        """How long a job runs, or still runs if it was made to leave; nobody but the cluster knows."""
        return self._seconds[uid]

    def advance(self, at: float, arrivals: Iterable[Job] = ()) -> tuple[Decision, ...]:
        """Go to a moment, not after `next_end`: what ends by then has ended, these have come, one round decides."""
        self.busy_milli_seconds += self._busy * (at - self.snapshot.at)
        gone, new = [], []
        while self.next_end <= at:
            _, uid, _ = heapq.heappop(self._ends)
            gone.append(uid)
            self._note_end(self.snapshot.workloads[uid], at)
        for job in arrivals:
            new.append(job.workload)
            self._seconds[job.workload.id] = job.seconds
            self._queued.add(job.workload.id)
            self.queued[job.workload.id] = at
        self.arrived = tuple(w.id for w in new)
        self.snapshot = self.snapshot.replace(at=at, changed=new, gone=gone)
        if not self._queued:
            return ()  # a round without claimants decides nothing
        decisions = schedule(self.snapshot, self.settings)
        self.snapshot = self.snapshot.after(decisions)
        self._settle(decisions, at)
        return decisions

    def teach(self, history: History) -> None:
        """From now on rounds know this history."""
        self.snapshot = replace(self.snapshot, history=history)

    def _settle(self, decisions: Iterable[Decision], at: float) -> None:
        """What leaves has left, and who has a place runs."""
        known, changed = self.snapshot.workloads, []
        for uid in [d.workload for d in decisions if not isinstance(d, Place)]:
            workload = known[uid]
            if workload.phase is Phase.CHECKPOINTING:
                self._busy -= workload.held_milli
                ran = at - (workload.started_at or at)
                self._seconds[uid] -= ran
                done = workload.attained + round(workload.held_milli * ran)
                back = replace(workload, phase=Phase.QUEUED, placement=(), attained=done, started_at=None)
                changed.append(back)
                self._queued.add(uid)
        for uid in [d.workload for d in decisions if isinstance(d, Place)]:
            workload = known[uid]
            bound = tuple(replace(a, reserved=False) for a in workload.placement)
            changed.append(replace(workload, phase=Phase.RUNNING, started_at=at, after=(), placement=bound))
            self._busy += workload.held_milli
            self._queued.discard(uid)
            self.started.setdefault(uid, at)
            heapq.heappush(self._ends, (at + self._seconds[uid], uid, workload.attempt))
        if changed:
            self.snapshot = self.snapshot.replace(changed=changed)

    def _runs_still(self, uid: str, attempt: int) -> bool:
        workload = self.snapshot.workloads.get(uid)
        return workload is not None and workload.attempt == attempt and workload.phase is Phase.RUNNING

    def _note_end(self, workload: Workload, at: float) -> None:
        self._busy -= workload.held_milli
        milli = workload.held_milli
        seconds = at - (workload.started_at or at) + (workload.attained / milli if milli else 0.0)
        self.runs.append(Run(workload.kind, workload.team, milli, seconds, workload.expected_seconds))
        self._learnt += 1
        if self._learnt % LEARNS_EVERY == 0:
            self.teach(learn(self.runs[-TEACHES:]))


def play(cluster: Queueing, jobs: Iterable[Job], look: Callable[[tuple[Decision, ...]], None] | None = None) -> None:
    """Let all jobs come and end; `look` is called after each round. Jobs are in the order of their arrivals."""
    coming = iter(jobs)
    job = next(coming, None)
    while job is not None or cluster.next_end < float("inf"):
        at = min(cluster.next_end, job.workload.queued_at if job else float("inf"))
        arrivals = []
        while job is not None and job.workload.queued_at <= at:
            arrivals.append(job)
            job = next(coming, None)
        decisions = cluster.advance(at, arrivals)
        if look is not None:
            look(decisions)
