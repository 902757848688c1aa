"""A cluster without latencies: jobs arrive, wait, run their time and end; each moment is one round of the core.

What is measured here is the queue alone: pods start and end at once, nothing fails, and rounds take no time of the
cluster's clock. Work that is made to leave goes back to the queue with what it did.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from controlplane.simulator.replay.engine import Replay
from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Decision
from scheduler.model.history import History, Run, learn
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Node, Snapshot
from scheduler.model.team import Quota, Team
from scheduler.model.workload import Phase, Workload
from scheduler.state.memo import Memo

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
        snapshot = Snapshot.build(at, nodes, teams, quotas, ())
        memo = Memo()
        self._replay = Replay(snapshot, lambda seen: schedule(seen, settings, memo), self)
        self.settings = settings
        self.queued: dict[str, float] = {}  # when each job came
        self.started: dict[str, float] = {}  # when it first ran
        self.arrived: tuple[str, ...] = ()  # those that came with the last round
        self.busy_milli_seconds = 0.0
        self.runs: list[Run] = []
        self._seconds: dict[str, float] = {}  # still to run
        self._ends: dict[str, int] = {}  # the planned end of each that runs
        self._busy = 0

    @property
    def snapshot(self) -> Snapshot:
        """The cluster after the last round."""
        return self._replay.snapshot

    @property
    def next_end(self) -> float:
        """When the next job ends; inf if none runs."""
        return self._replay.next

    @property
    def waiting(self) -> Iterator[Workload]:
        """The jobs that wait."""
        return (w for w in self.snapshot.workloads.values() if w.phase is Phase.QUEUED)

    def seconds_of(self, uid: str) -> float:
        """How long a job runs, or still runs if it was made to leave; only the cluster knows."""
        return self._seconds[uid]

    def advance(self, at: float, arrivals: Iterable[Job] = ()) -> tuple[Decision, ...]:
        """Go to a moment, not after `next_end`: what ends by then has ended, these have come, one round decides."""
        self.busy_milli_seconds += self._busy * (at - self.snapshot.at)
        while self.next_end <= at:
            self._replay.step()
        self._replay.pass_to(at)
        self.arrived = tuple(self._arrive(job) for job in arrivals)
        # A round without claimants decides nothing.
        decisions = self._replay.round() if self._replay.memory.queued else ()
        self._replay.memory.flush()
        return decisions

    def teach(self, history: History) -> None:
        """From now on rounds know this history."""
        memory = self._replay.memory
        memory.snapshot = replace(memory.snapshot, history=history)

    def _arrive(self, job: Job) -> str:
        uid = job.workload.id
        self._seconds[uid], self.queued[uid] = job.seconds, self._replay.at
        self._replay.submit(job.workload)
        return uid

    # --- what the cluster does at once --------------------------------------------------------

    def start(self, workload: Workload) -> None:
        """It runs."""
        replay, uid = self._replay, workload.id
        self._busy += workload.held_milli
        self.started.setdefault(uid, replay.at)
        self._ends[uid] = replay.plan(replay.at + self._seconds[uid], partial(self._end, uid), key=uid)
        replay.run(uid)

    def stop(self, workload: Workload) -> None:
        """It is gone."""
        at = self._replay.at
        self._replay.cancel(self._ends.pop(workload.id))
        self._busy -= workload.held_milli
        self._seconds[workload.id] -= at - (workload.started_at or at)
        self._replay.leave(workload.id)

    def _end(self, uid: str) -> None:
        workload = self._replay.memory.snapshot.workloads[uid]
        del self._ends[uid]
        self._busy -= workload.held_milli
        milli = workload.held_milli
        seconds = self._replay.at - (workload.started_at or self._replay.at)
        seconds += workload.attained / milli if milli else 0.0
        self.runs.append(Run(workload.kind, workload.team, milli, seconds, workload.expected_seconds))
        self._replay.end(uid)
        if len(self.runs) % LEARNS_EVERY == 0:
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
