"""A fast replay of an episode under one policy's settings: the real decisions, with simple physics around them.

The scheduler is the one of production (`scheduler.policies.decide` on snapshots); nothing is written anywhere. What
happens to what it decides is simpler than in the simulated cluster, and the same for every policy:

- Workers start a fixed time after they are placed (physics.START_MEDIAN of their kind); then the gang is Running.
- Progress is linear in the workers that run, against the wanted count; none below `gang.min`. Placement does not change
  speed. A resize costs nothing but the start of the new workers.
- What leaves holds its place for its grace, at most GRACE_MAX seconds (course.py). An evicted training keeps what
  it has done if it writes checkpoints, and starts over if it does not; notebooks and services lose nothing but time.
- A round is decided when something has changed, at most every SLOT seconds, and every NET seconds while work waits or
  could grow.
- Requests come to services whose traffic is known (judge.py). Where no recorded resizes are to be followed, the
  autoscaler's own rule decides on their replicas once a minute.
- Under native-k8s, if two gangs or more hold a part of their workers and none got another for DEADLOCK seconds, the
  youngest is killed and queued again, as the newest.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from math import floor

from autoscaler.settings import Settings as Scaling
from controlplane.cluster.physics import START_MEDIAN
from controlplane.simulator.replay.audience import Judges
from controlplane.simulator.replay.course import Course, Played, could_grow, grace, held
from controlplane.simulator.replay.engine import Replay
from controlplane.simulator.replay.episode import Episode
from controlplane.simulator.replay.judge import MINUTE
from scheduler.model.decision import Decision, Evict, EvictReason, Shrink, Wait
from scheduler.model.demand import as_counted
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.team import Use
from scheduler.model.workload import ACTIVE, LEAVING, Kind, Phase, ResourceRequest, Workload
from scheduler.placement.forecast import ENOUGH, GROWTH, forecast
from scheduler.policies import ONLY_COMPARED, Decider

DEADLOCK = 300.0  # s; our assumption (docs/algorithms.md#reference-policies)
SLOT, NET = 5.0, 60.0  # s
USE_STEP = 600.0  # s between two counts of decayed use, whose half-life is days
EPSILON = 1e-3  # s: sums of fractions of a second


Progress = Callable[[float], None]


def play(
    episode: Episode, settings: Settings, progress: Progress = lambda part: None, scaling: Scaling | None = None
) -> Played:
    """Replay the episode from its start to its end. progress is told the part that is done, 0..1, now and then."""
    run = _Run(episode, settings, scaling or Scaling())
    told = 0.0
    while run.step():
        part = (run.at - episode.start) / max(1.0, episode.end - episode.start)
        if part - told >= 0.01:
            told = part
            progress(min(1.0, part))
    run.close()
    return Played(episode, tuple(run.courses.values()), run.rounds)


@dataclass
class _Run:
    """One replay under way."""

    episode: Episode
    settings: Settings
    scaling: Scaling = field(default_factory=Scaling)
    rounds: int = 0
    courses: dict[str, Course] = field(default_factory=dict)

    def __post_init__(self) -> None:
        episode = self.episode
        start, use = episode.start, episode.use
        snapshot = Snapshot.build(
            start,
            episode.nodes,
            episode.teams,
            episode.quotas,
            (),
            use,
            episode.budgets,
            demand=episode.demand,
        )
        decides = Decider()
        self._replay = Replay(snapshot, lambda seen: decides(seen, self.settings), self, self._seen, self.scaling)
        self._judges = Judges(start, self.scaling)
        self._pool_of = {node.name: node.pool for node in episode.nodes}
        self._use = {(one.team, one.pool): float(one.milli) for one in use}
        self._used_at = start
        self._asked: Counter[ResourceRequest] = Counter()
        self._came = 0  # submissions with GPUs
        self._count_at = ENOUGH  # with so many of them demand is counted again
        self._due = start  # of the next round
        for job in episode.jobs:
            self.courses[job.workload.id] = Course(job)
            self._replay.plan(max(job.at, start), partial(self._come, job.workload.id))

    @property
    def at(self) -> float:
        """The cluster's clock."""
        return self._replay.at

    @property
    def snapshot(self) -> Snapshot:
        """The cluster as the last round saw it."""
        return self._replay.snapshot

    # --- time ---------------------------------------------------------------------------------

    def step(self) -> bool:
        """Let what is due next happen, or decide a round; False at the end of the episode."""
        happens = self._replay.next
        if min(happens, self._due) > self.episode.end:
            return False
        if happens <= self._due:
            self._replay.step()
            if self._replay.memory.is_changed:
                self._due = min(self._due, self._slot())
        else:
            self._replay.pass_to(self._due)
            self._round()
        return True

    def close(self) -> None:
        """Count everything up to the end."""
        self._replay.pass_to(self.episode.end)
        self._judges.close(self.at)
        for course in self.courses.values():
            if course.ended is None:
                course.settle(max(self.at, course.since))

    def _slot(self) -> float:
        return self.episode.start + (floor((self.at - self.episode.start) / SLOT) + 1) * SLOT

    # --- rounds -------------------------------------------------------------------------------

    def _round(self) -> None:
        self._replay.memory.flush()
        if self.at - self._used_at >= USE_STEP:
            self._age_use()
        if self.settings.policy in ONLY_COMPARED:
            self._break_deadlock()
        moves = [decision for decision in self._replay.round() if not isinstance(decision, Wait)]
        self.rounds += 1
        for decision in moves:
            self._note(decision)
        self._replay.memory.flush()
        wants_more = any(w.is_waiting or could_grow(w) for w in self.snapshot.workloads.values())
        self._due = self._slot() if moves else self.at + NET if wants_more else float("inf")

    def _age_use(self) -> None:
        """Add what is held now to decayed use, as the account loop does, and let budgets' periods end."""
        held: Counter[tuple[str, str]] = Counter()
        for workload in self.snapshot.workloads.values():
            for worker in workload.placement if workload.phase is not Phase.RESERVED else ():
                held[workload.team, self._pool_of[worker.node]] += workload.milli_of(worker)
        half_life = self.settings.use_half_life_seconds
        part = 1 - 2 ** -((self.at - self._used_at) / half_life) if half_life else 1.0
        self._used_at = self.at
        for key in held.keys() | self._use.keys():
            before = self._use.get(key, 0.0)
            self._use[key] = before + (held[key] - before) * part
        use = tuple(Use(*key, round(milli)) for key, milli in sorted(self._use.items()) if round(milli) > 0)
        budgets = tuple(budget for budget in self.snapshot.budgets if budget.until > self.at)
        self._replay.memory.snapshot = replace(self.snapshot, use=use, budgets=budgets)

    def _note(self, decision: Decision) -> None:
        """What a decision means for the course of its workload beside what the life cycle does to it."""
        course, workload = self.courses[decision.workload], self._replay.get(decision.workload)
        if workload is None:
            return
        if isinstance(decision, Evict) and workload.phase in LEAVING:
            is_move = decision.reason in (EvictReason.CONSOLIDATED, EvictReason.REALLOCATED)
            course.moves += is_move
            course.preemptions += not is_move
            self._halt(workload)
        elif isinstance(decision, Shrink):
            self._retime(workload)

    def _seen(self, workload: Workload) -> None:
        self._judges.show(self.at, workload)

    # --- what the cluster does ----------------------------------------------------------------

    def start(self, workload: Workload) -> None:
        """It has been given places: its workers start."""
        course = self.courses[workload.id]
        course.settle(self.at)
        course.held, course.bound_at = held(workload), self.at
        if course.first_start is None and self.at <= self.episode.start and course.job.workload.placement:
            course.first_start = self.at  # it had its places when the episode began
        if workload.phase is Phase.RUNNING:
            self._retime(workload)
        else:
            come_up = partial(self._come_up, workload.id, workload.attempt)
            self._replay.plan(self.at + START_MEDIAN[workload.kind], come_up)

    def stop(self, workload: Workload) -> None:
        """Some of its workers leave, or all."""
        self._replay.plan(self.at + grace(workload), partial(self._leave, workload.id, workload.attempt))

    # --- what happens -------------------------------------------------------------------------

    def _come(self, uid: str) -> None:
        course, job = self.courses[uid], self.courses[uid].job
        self._replay.submit(job.workload)
        if job.service is not None:
            course.tally = self._judges.come(self.at, job.workload, job.service)
            self._replay.plan((self.at // MINUTE + 1) * MINUTE, partial(self._minute, uid))
        self._count(job.workload)
        course.since = self.at
        if job.withdrawn is not None:
            self._replay.plan(max(self.at, job.withdrawn), partial(self._withdraw, uid))
        for at, count in job.resizes:
            self._replay.plan(max(self.at, at), partial(self._resize, uid, count))
        for at, limit in job.limits:
            self._replay.plan(max(self.at, at), partial(self._relimit, uid, limit))
        if job.workload.phase in LEAVING:
            self.stop(job.workload)
        elif job.workload.placement:
            self.start(job.workload)

    def _come_up(self, uid: str, attempt: int) -> None:
        """Workers have started. A gang that lacks some of its least workers goes on waiting for them."""
        workload, course = self._replay.get(uid), self.courses[uid]
        if workload is None or workload.attempt != attempt or workload.phase not in ACTIVE:
            return
        if self.at - course.bound_at < START_MEDIAN[workload.kind] - EPSILON:
            return  # more workers were bound since: the later event counts
        if sum(not a.leaving for a in workload.placement) < _least(workload):
            return
        self._replay.run(uid)
        self._due = min(self._due, self._slot())
        if course.first_start is None:
            course.first_start = course.bound_at
        if (workload := self._replay.get(uid)) is not None:
            self._retime(workload)

    def _end(self, uid: str, token: int) -> None:
        course = self.courses[uid]
        if course.token == token and course.ended is None:
            course.settle(self.at)
            self._replay.end(uid)
            self._close(uid)

    def _leave(self, uid: str, attempt: int) -> None:
        """Workers that were leaving have left."""
        workload, course = self._replay.get(uid), self.courses[uid]
        if workload is None or workload.attempt != attempt or not any(a.leaving for a in workload.placement):
            return
        course.settle(self.at)
        self._replay.leave(uid)
        workload = self._replay.get(uid)
        if workload is None or workload.phase is Phase.SUSPENDED:
            self._close(uid)
        else:
            course.held = held(workload)

    def _withdraw(self, uid: str) -> None:
        workload = self._replay.get(uid)
        if workload is not None and workload.phase is Phase.QUEUED and self.courses[uid].first_start is None:
            self.courses[uid].is_withdrawn = True
            self._replay.withdraw(uid)
            self._close(uid)

    def _minute(self, uid: str) -> None:
        """A minute of a service is over: its requests are counted, and the autoscaler looks at it."""
        workload = self._replay.get(uid)
        if workload is None:
            return
        count, limit = self._judges.minute(self.at, workload, self._now)
        if count != workload.serving or limit is not None:
            self._resize(uid, count, limit)
        self._replay.plan(self.at + MINUTE, partial(self._minute, uid))

    def _resize(self, uid: str, count: int, limit: int | None = None) -> None:
        """A service gets another number of replicas; a gang that had their GPUs is slower from now on, or leaves."""
        for decision in self._replay.resize(uid, count, limit):
            if isinstance(decision, Evict | Shrink):
                self._note(decision)

    def _now(self) -> Snapshot:
        """The cluster as it is, what was decided since the last round included."""
        self._replay.memory.flush()
        return self.snapshot

    def _relimit(self, uid: str, limit: int) -> None:
        """The limit of a service's replicas was changed then."""
        if (workload := self._replay.get(uid)) is not None:
            self._replay.resize(uid, workload.gang.count if workload.awake is None else workload.serving, limit)

    def _count(self, workload: Workload) -> None:
        """Count what is asked, as queries/scheduling/demand.py does, unless the episode knows the demand."""
        ask = as_counted(workload.ask)
        self._asked[ask] += max(1, workload.gang.count)
        for role in workload.roles:
            self._asked[as_counted(role.ask)] += role.count
        self._came += ask.milli > 0
        if self._came >= self._count_at and not self.episode.demand.shapes:
            self._count_at = self._came + max(ENOUGH, round(GROWTH * self._came))
            known = forecast(self._asked, self.snapshot)
            self._replay.memory.snapshot = replace(self.snapshot, demand=known)

    # --- parts --------------------------------------------------------------------------------

    def _retime(self, workload: Workload) -> None:
        """Another number of workers: another speed, another end."""
        course = self.courses[workload.id]
        course.settle(self.at)
        staying = sum(not (a.leaving or a.reserved) for a in workload.placement)
        is_on = workload.phase in (Phase.RUNNING, Phase.SCALING) and staying >= _least(workload)
        course.rate = (staying - workload.role_members) / max(1, workload.gang.count) if is_on else 0.0
        if workload.kind is not Kind.TRAINING:
            course.rate = 1.0 if is_on else 0.0
        course.held = held(workload)
        course.token += 1
        if course.job.seconds is not None and course.rate:
            left = max(0.0, course.job.seconds - course.done)
            self._replay.plan(self.at + left / course.rate, partial(self._end, workload.id, course.token))

    def _halt(self, workload: Workload) -> None:
        course = self.courses[workload.id]
        course.settle(self.at)
        course.rate, course.token = 0.0, course.token + 1
        if workload.kind is Kind.TRAINING and workload.checkpoint_interval is None:
            course.lost_seconds += course.done
            course.done = 0.0

    def _close(self, uid: str) -> None:
        """It has ended."""
        course = self.courses[uid]
        course.settle(self.at)
        course.ended, course.rate, course.held = self.at, 0.0, 0
        self._judges.leave(self.at, uid)

    def _break_deadlock(self) -> None:
        partial_ = [
            w
            for w in self.snapshot.workloads.values()
            if w.kind is Kind.TRAINING and w.phase in ACTIVE and len(w.placement) < _least(w)
        ]
        if len(partial_) < 2 or max(self.courses[w.id].bound_at for w in partial_) + DEADLOCK > self.at:
            return
        youngest = max(partial_, key=lambda w: (w.submitted_at, w.seq))
        course = self.courses[youngest.id]
        course.preemptions += 1
        self._halt(youngest)
        course.bound_at, course.held = self.at, 0
        self._replay.kill(youngest.id)


def _least(workload: Workload) -> int:
    """Workers without which it makes no progress."""
    return 1 if workload.kind is Kind.INFERENCE else workload.gang.min + workload.role_members
