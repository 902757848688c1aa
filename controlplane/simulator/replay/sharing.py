"""A replay of jobs that compute for a while, and how fairly teams share meanwhile.

What starts runs at once. What is made to leave saves its work within its grace period and waits again; starting again
costs `restart_seconds` in which nothing is computed. A round follows each event while something waits, and every ten
minutes the scheduler is told each team's decayed use. Times are seconds of the simulated cluster.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from controlplane.simulator.replay.engine import Replay
from controlplane.simulator.worlds.helios import HeliosJob
from gpushare.gpu import WHOLE
from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Decision, Evict, Place
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Node, Snapshot
from scheduler.model.team import Quota, Team, Use
from scheduler.model.workload import ACTIVE, Gang, Kind, Phase, ResourceRequest, Workload
from scheduler.quota.entitlement import Entitlement
from scheduler.state.memo import Memo
from scheduler.state.session import Session

GRACE = 30.0  # s that a job has to save its work
TICK, HOUR = 600.0, 3600.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One hour of one team, in milli-GPU: decayed use, entitlement decayed alike, and whether it could use all of it.

    plain is the decayed entitlement without the correction by past use.
    """

    at: float
    team: str
    use: float
    entitled: float
    plain: float
    covered_since: float  # since when its demand has covered its entitlement without a break


@dataclass
class Outcome:
    """What a run showed.

    unfair: ids of jobs that waited too long for what their team owns, while other teams borrowed whole preemptible
    jobs enough to make room; unfair_strictly: while any other team borrowed anything at all.
    """

    capacity: int = 0  # milli-GPU
    samples: list[Sample] = field(default_factory=list)
    unfair: set[str] = field(default_factory=set)
    unfair_strictly: set[str] = field(default_factory=set)
    ended: int = 0
    evictions: dict[str, int] = field(default_factory=dict)
    max_preempted: int = 0
    worn_starts: int = 0  # of jobs that were preempted as often as may be
    worn_beyond_nominal: int = 0
    rounds: int = 0
    waits: dict[str, list[float]] = field(default_factory=dict)


class Mean:
    """The decayed mean of a value that is constant between updates; from the first update on, nothing before it."""

    def __init__(self, half_life: float) -> None:
        self._rate = math.log(2) / half_life
        self.value, self._level, self._at = 0.0, 0.0, 0.0

    def update(self, at: float, level: float) -> float:
        """The mean at this time; from now on the value is `level`."""
        kept = math.exp(-self._rate * (at - self._at))
        self.value = self.value * kept + self._level * (1 - kept)
        self._level, self._at = level, at
        return self.value


class Sharing:
    """One run."""

    def __init__(
        self, nodes: Iterable[Node], teams: Iterable[Team], quotas: Sequence[Quota], settings: Settings
    ) -> None:
        self.settings = settings
        self._memo = Memo()
        self._replay = Replay(Snapshot.build(0.0, nodes, teams, quotas, ()), self._decide, self)
        self.quotas = {quota.team: quota.nominal for quota in quotas}
        self.pool = quotas[0].pool
        self.seen = Outcome(sum(node.gpus for node in self.snapshot.inventory.nodes) * WHOLE)
        self._is_tick = False
        self._left: dict[str, float] = {}  # seconds still to compute
        self._since: dict[str, float] = {}  # of each job that waits unfairly
        self._strictly: dict[str, float] = {}
        half_life = settings.use_half_life_seconds
        self._use = {team: Mean(half_life) for team in self.quotas}
        self._entitled = {team: Mean(half_life) for team in self.quotas}
        self._plain = {team: Mean(half_life) for team in self.quotas}
        self._covered = dict.fromkeys(self.quotas, 0.0)

    @property
    def snapshot(self) -> Snapshot:
        """The cluster as it is."""
        return self._replay.snapshot

    def run(self, jobs: Sequence[HeliosJob], until: float, progress: Callable[[float], None]) -> Outcome:
        """Run the jobs up to that time."""
        replay = self._replay
        for number, job in enumerate(jobs):
            replay.plan(job.at, partial(self._submit, str(number), job))
        for tick in range(1, int(until // TICK) + 1):
            replay.plan(tick * TICK, self._tick)
        while replay.next <= until:
            at = replay.next
            self._judge(at)
            self._is_tick = False
            while replay.next == at:
                replay.step()
            self._round(at)
            if self._is_tick:
                self._sample(at)
                progress(at / until)
        return self.seen

    # events

    def _tick(self) -> None:
        self._is_tick = True

    def _look(self) -> None:
        """A round that follows may make it leave from now on."""

    def _submit(self, uid: str, job: HeliosJob) -> None:
        at = self._replay.at
        self._left[uid] = job.seconds
        workload = Workload(
            id=uid,
            name=f"job-{uid}",
            team=job.team,
            kind=Kind.TRAINING,
            ask=ResourceRequest(gpus=1),
            gang=Gang(job.gpus, job.gpus, job.gpus),
            seq=int(uid),
            submitted_at=at,
            queued_at=at,
            grace_seconds=GRACE,
        )
        self._replay.submit(workload)

    def start(self, workload: Workload) -> None:
        """It runs at once, and computes once it has restarted."""
        at, uid = self._replay.at, workload.id
        if workload.attempt == 1:
            self.seen.waits.setdefault(workload.team, []).append(at - workload.submitted_at)
        restart = self.settings.restart_seconds if workload.attempt > 1 else 0.0
        self._replay.run(uid)
        self._replay.plan(at + restart + self._left[uid], partial(self._end, uid, workload.attempt))
        self._replay.plan(at + self.settings.min_runtime_seconds, self._look)

    def stop(self, workload: Workload) -> None:
        """It is gone after its grace."""
        self._replay.plan(self._replay.at + GRACE, partial(self._replay.leave, workload.id))

    def _end(self, uid: str, attempt: int) -> None:
        workload = self._replay.get(uid)
        if workload is not None and workload.attempt == attempt and workload.phase in ACTIVE:
            self._replay.end(uid)
            self.seen.ended += 1

    def _held(self) -> dict[str, int]:
        """What each team's pods hold now, those that are leaving included."""
        held = dict.fromkeys(self.quotas, 0)
        for workload in self.snapshot.workloads.values():
            if workload.placement and workload.phase is not Phase.RESERVED:
                held[workload.team] += workload.held_milli
        return held

    # rounds

    def _round(self, at: float) -> None:
        replay = self._replay
        is_changed = replay.memory.is_changed
        replay.memory.flush()
        waiting = [w for w in self.snapshot.workloads.values() if w.phase is Phase.QUEUED]
        if waiting:
            replay.round()
            replay.memory.flush()
        if is_changed or waiting:
            use = self._held()
            for team, mean in self._use.items():
                mean.update(at, use[team])
        self._note_waits(at, waiting)

    def _decide(self, before: Snapshot) -> Sequence[Decision]:
        decisions = schedule(before, self.settings, self._memo)
        self.seen.rounds += 1
        self._note_worn(before, decisions)
        for decision in decisions:
            if isinstance(decision, Evict):
                self._evicted(before.at, before.workloads[decision.workload], decision)
        return decisions

    def _evicted(self, at: float, victim: Workload, decision: Evict) -> None:
        reason = str(decision.reason)
        self.seen.evictions[reason] = self.seen.evictions.get(reason, 0) + 1
        recent = [t for t in victim.preempted_at if t > at - self.settings.preemption_window_seconds]
        self.seen.max_preempted = max(self.seen.max_preempted, len(recent) + 1)
        restart = self.settings.restart_seconds if victim.attempt > 1 else 0.0
        started = at if victim.started_at is None else victim.started_at
        computed = max(0.0, at - started - restart)
        self._left[victim.id] = max(1.0, self._left[victim.id] - computed)

    def _note_waits(self, at: float, waiting: Sequence[Workload]) -> None:
        """Since when each job waits that its team's nominal quota covers, while others borrow."""
        now = self.snapshot.workloads
        still = [w for w in waiting if now[w.id].phase is Phase.QUEUED]
        held = self._later(self.snapshot) if still else {}
        owed = [w for w in still if held[w.team] + w.ask.milli * w.gang.min <= self.quotas[w.team]]
        lent = {team: self._could_give(team, milli - self.quotas[team]) for team, milli in held.items()} if owed else {}
        free = self.seen.capacity - sum(held.values())
        is_borrowed = any(milli > self.quotas[team] for team, milli in held.items())
        strictly: dict[str, float] = {}
        fairly: dict[str, float] = {}
        for workload in owed:
            others = sum(milli for team, milli in lent.items() if team != workload.team)
            if is_borrowed:
                strictly[workload.id] = self._strictly.get(workload.id, at)
            if others and free + others >= workload.ask.milli * workload.gang.min:
                fairly[workload.id] = self._since.get(workload.id, at)
        self._strictly, self._since = strictly, fairly

    def _could_give(self, team: str, over: int) -> int:
        """What a team can give of what it borrows: whole jobs, the smallest first, down to its nominal quota."""
        jobs = [w for w in self.snapshot.workloads.values() if w.team == team and w.phase in ACTIVE]
        given = 0
        for milli in sorted(w.held_milli for w in jobs):
            if given + milli > over:
                break
            given += milli
        return given

    def _note_worn(self, before: Snapshot, decisions: Sequence[Decision]) -> None:
        """Count the starts beyond its team's nominal quota of jobs that were preempted too often for that."""
        since = before.at - self.settings.preemption_window_seconds
        for number, decision in enumerate(decisions, 1):
            workload = before.workloads[decision.workload]
            times = sum(at > since for at in workload.preempted_at)
            if isinstance(decision, Place) and times >= self.settings.max_preemptions:
                held = self._later(before.after(decisions[:number]))
                self.seen.worn_beyond_nominal += held[workload.team] > self.quotas[workload.team]
                self.seen.worn_starts += 1

    def _later(self, snapshot: Snapshot) -> dict[str, int]:
        """What each team holds or was promised, without what is leaving."""
        held = dict.fromkeys(self.quotas, 0)
        for workload in snapshot.workloads.values():
            if workload.phase in ACTIVE or workload.phase is Phase.RESERVED:
                held[workload.team] += workload.held_milli
        return held

    # judging

    def _judge(self, at: float) -> None:
        """What waits too long by now; the state has been as it is since the last event."""
        limit = self.settings.min_runtime_seconds + GRACE
        for waits, found in ((self._since, self.seen.unfair), (self._strictly, self.seen.unfair_strictly)):
            found.update(uid for uid, since in waits.items() if at - since > limit)

    def _sample(self, at: float) -> None:
        use = tuple(Use(team, self.pool, int(mean.value)) for team, mean in self._use.items())
        self._replay.memory.snapshot = replace(self.snapshot, at=at, use=use)
        session = Session(self.snapshot, self.settings, self._memo)
        shares = session.entitlement.shares
        uncorrected = replace(self.settings, use_correction=0.0)
        plain = Entitlement(session.plan, uncorrected, session.over_budget).shares
        demand = self._demand()
        for team in self.quotas:
            mean = self._entitled[team].update(at, shares[team, self.pool])
            plain_mean = self._plain[team].update(at, plain[team, self.pool])
            if demand[team] < shares[team, self.pool] or demand[team] == 0:
                self._covered[team] = at
            if at % HOUR == 0:
                use_mean = self._use[team].update(at, self._held()[team])
                self.seen.samples.append(Sample(at, team, use_mean, mean, plain_mean, self._covered[team]))

    def _demand(self) -> dict[str, int]:
        demand = dict.fromkeys(self.quotas, 0)
        for workload in self.snapshot.workloads.values():
            demand[workload.team] += workload.ask.milli * workload.gang.count
        return demand
