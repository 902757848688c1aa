"""A fast replay of an episode under one policy's settings: the real decisions, with simple physics around them.

The scheduler is the one of production (`scheduler.policies.decide` on snapshots); nothing is written anywhere. What
happens to what it decides is simpler than in the simulated cluster, and the same for every policy:

- Workers start a fixed time after they are placed (physics.START_MEDIAN of their kind); then the gang is Running.
- Progress is linear in the workers that run, against the wanted count; none below `gang.min`. Placement does not change
  speed. A resize costs nothing but the start of the new workers.
- What leaves holds its place for its grace, at most GRACE_MOST seconds (course.py). An evicted training keeps what
  it has done if it writes checkpoints, and starts over if it does not; notebooks and services lose nothing but time.
- A round is decided when something has changed, at most every SLOT seconds, and every NET seconds while work waits or
  could grow.
- Requests come to services whose traffic is known (judge.py). Where no recorded resizes are to be followed, the
  autoscaler's own rule decides on their replicas once a minute.
- Under native-k8s, if two gangs or more hold a part of their workers and none got another for DEADLOCK seconds, the
  youngest is killed and queued again, as the newest.
"""

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import floor

from autoscaler.settings import Settings as Scaling
from controlplane.cluster.physics import START_MEDIAN
from controlplane.simulator.audience import Judges
from controlplane.simulator.course import Course, Played, could_grow, grace, held
from controlplane.simulator.episode import Episode
from controlplane.simulator.judge import MINUTE
from scheduler.decision import Decision, Evict, EvictReason, Place, Shrink, Wait
from scheduler.demand import as_counted
from scheduler.placement.forecast import ENOUGH, GROWTH, forecast
from scheduler.policies import ONLY_COMPARED, decide
from scheduler.settings import Settings
from scheduler.snapshot import Snapshot
from scheduler.team import Use
from scheduler.workload import ACTIVE, LEAVING, Ask, Kind, Phase, Workload

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
    at: float = 0.0
    rounds: int = 0
    courses: dict[str, Course] = field(default_factory=dict)

    def __post_init__(self) -> None:
        episode = self.episode
        self.at = episode.start
        self.snapshot = Snapshot.build(
            self.at,
            episode.nodes,
            episode.teams,
            episode.quotas,
            (),
            episode.use,
            episode.budgets,
            demand=episode.demand,
        )
        self._pool_of = {node.name: node.pool for node in episode.nodes}
        self._use = {(use.team, use.pool): float(use.milli) for use in episode.use}
        self._used_at = self.at
        self._asked: Counter[Ask] = Counter()
        self._came = 0  # submissions with GPUs
        self._count_at = ENOUGH  # with so many of them demand is counted again
        self._events: list[tuple[float, int, str, str, int]] = []
        self._number = 0
        self._changed: dict[str, Workload] = {}
        self._gone: set[str] = set()
        self._due = self.at  # of the next round
        self._judges = Judges(self.at, self.scaling)
        for job in episode.jobs:
            self._plan(max(job.at, self.at), "come", job.workload.id)
            self.courses[job.workload.id] = Course(job)

    # --- time ---------------------------------------------------------------------------------

    def step(self) -> bool:
        """Let what is due next happen, or decide a round; False at the end of the episode."""
        next_event = self._events[0][0] if self._events else float("inf")
        at = min(next_event, self._due)
        if at > self.episode.end:
            return False
        self.at = max(self.at, at)
        if next_event <= self._due:
            _, _, kind, uid, number = heapq.heappop(self._events)
            getattr(self, f"_on_{kind}")(uid, number)
            if self._changed or self._gone:
                self._due = min(self._due, self._slot())
        else:
            self._round()
        return True

    def close(self) -> None:
        """Count everything up to the end."""
        self.at = self.episode.end
        self._judges.close(self.at)
        for course in self.courses.values():
            if course.ended is None:
                course.settle(max(self.at, course.since))

    def _slot(self) -> float:
        return self.episode.start + (floor((self.at - self.episode.start) / SLOT) + 1) * SLOT

    def _plan(self, at: float, kind: str, uid: str, number: int = 0) -> None:
        self._number += 1
        heapq.heappush(self._events, (at, self._number, kind, uid, number))

    # --- rounds -------------------------------------------------------------------------------

    def _round(self) -> None:
        self._take_in()
        if self.settings.policy in ONLY_COMPARED:
            self._break_deadlock()
            self._take_in()
        decisions = decide(self.snapshot, self.settings)
        self.rounds += 1
        moves = [d for d in decisions if not isinstance(d, Wait)]
        self.snapshot = self.snapshot.after(decisions)
        for decision in moves:
            self._carry_out(decision)
        wants_more = any(w.is_waiting or could_grow(w) for w in self.snapshot.workloads.values())
        self._due = self._slot() if moves else self.at + NET if wants_more else float("inf")

    def _take_in(self) -> None:
        changed = [w for uid, w in self._changed.items() if uid not in self._gone]
        self.snapshot = self.snapshot.replace(at=self.at, changed=changed, gone=self._gone)
        self._changed, self._gone = {}, set()
        if self.at - self._used_at >= USE_STEP:
            self._age_use()

    def _age_use(self) -> None:
        """Add what is held now to decayed use, as the account loop does, and let budgets' periods end."""
        held: Counter[tuple[str, str]] = Counter()
        for workload in self.snapshot.workloads.values():
            for worker in workload.placement if workload.phase is not Phase.RESERVED else ():
                held[workload.team, self._pool_of[worker.node]] += workload.ask_of(worker.rank).milli
        half_life = self.settings.use_half_life_seconds
        part = 1 - 2 ** -((self.at - self._used_at) / half_life) if half_life else 1.0
        self._used_at = self.at
        for key in held.keys() | self._use.keys():
            before = self._use.get(key, 0.0)
            self._use[key] = before + (held[key] - before) * part
        use = tuple(Use(*key, round(milli)) for key, milli in sorted(self._use.items()) if round(milli) > 0)
        budgets = tuple(budget for budget in self.snapshot.budgets if budget.until > self.at)
        self.snapshot = replace(self.snapshot, use=use, budgets=budgets)

    def _get(self, uid: str) -> Workload | None:
        return None if uid in self._gone else self._changed.get(uid) or self.snapshot.workloads.get(uid)

    def _carry_out(self, decision: Decision) -> None:
        workload = self.snapshot.workloads[decision.workload]
        course = self.courses[workload.id]
        self._judges.show(self.at, workload)
        if isinstance(decision, Place):
            if not decision.after:
                self._bind(workload)
        elif isinstance(decision, Evict):
            if workload.phase in LEAVING:
                is_move = decision.reason is EvictReason.CONSOLIDATED
                course.moves += is_move
                course.preemptions += not is_move
                self._halt(workload)
                self._plan(self.at + grace(workload), "gone", workload.id, workload.attempt)
        elif isinstance(decision, Shrink):
            self._retime(workload)
            self._plan(self.at + grace(workload), "gone", workload.id, workload.attempt)

    # --- what happens -------------------------------------------------------------------------

    def _on_come(self, uid: str, _: int) -> None:
        job = self.courses[uid].job
        self._changed[uid] = job.workload
        if job.service is not None:
            self.courses[uid].tally = self._judges.come(self.at, job.workload, job.service)
            self._plan((self.at // MINUTE + 1) * MINUTE, "minute", uid)
        self._count(job.workload)
        self.courses[uid].since = self.at
        if job.withdrawn is not None:
            self._plan(max(self.at, job.withdrawn), "withdraw", uid)
        for number, (at, _count) in enumerate(job.resizes):
            self._plan(max(self.at, at), "resize", uid, number)
        if job.workload.phase in LEAVING:
            self._plan(self.at + grace(job.workload), "gone", uid, job.workload.attempt)
        elif job.workload.placement:
            self._bind(job.workload)

    def _bind(self, workload: Workload) -> None:
        """It has been given places: its workers start."""
        course = self.courses[workload.id]
        course.settle(self.at)
        course.held, course.bound_at = held(workload), self.at
        if course.first_start is None and self.at <= self.episode.start and course.job.workload.placement:
            course.first_start = self.at  # it had its places when the episode began
        if workload.phase is Phase.RUNNING:
            self._retime(workload)
        else:
            self._plan(self.at + START_MEDIAN[workload.kind], "run", workload.id, workload.attempt)

    def _on_run(self, uid: str, attempt: int) -> None:
        workload = self._get(uid)
        if workload is None or workload.attempt != attempt or workload.phase not in ACTIVE:
            return
        course = self.courses[uid]
        if self.at - course.bound_at < START_MEDIAN[workload.kind] - EPSILON:
            return  # more workers were bound since: the later event counts
        staying = [a for a in workload.placement if not a.leaving]
        least = 1 if workload.kind is Kind.INFERENCE else workload.gang.min + workload.companions
        if len(staying) < least:
            return
        started = self.at if workload.started_at is None else workload.started_at
        workload = self._put(replace(workload, phase=Phase.RUNNING, started_at=started))
        if course.first_start is None:
            course.first_start = course.bound_at
        self._retime(workload)

    def _on_end(self, uid: str, token: int) -> None:
        course = self.courses[uid]
        if course.token != token or course.ended is not None:
            return
        course.settle(self.at)
        self._leave_for_good(uid)

    def _on_gone(self, uid: str, attempt: int) -> None:
        """Workers that were leaving have left."""
        workload = self._get(uid)
        if workload is None or workload.attempt != attempt:
            return
        staying = tuple(a for a in workload.placement if not a.leaving)
        if len(staying) == len(workload.placement):
            return
        course = self.courses[uid]
        course.settle(self.at)
        course.held = held(replace(workload, placement=staying))
        if staying:
            self._put(replace(workload, placement=staying))
        elif workload.phase in (Phase.STOPPING, Phase.SUSPENDING):
            self._leave_for_good(uid)
        else:
            self._requeue(workload)
        self._admit(uid)

    def _on_withdraw(self, uid: str, _: int) -> None:
        workload = self._get(uid)
        if workload is not None and workload.phase is Phase.QUEUED and self.courses[uid].first_start is None:
            self.courses[uid].is_withdrawn = True
            self._leave_for_good(uid)

    def _on_resize(self, uid: str, number: int) -> None:
        workload = self._get(uid)
        if workload is not None:
            self._resize(workload, self.courses[uid].job.resizes[number][1])

    def _on_minute(self, uid: str, _: int) -> None:
        """A minute of a service is over: its requests are counted, and the autoscaler looks at it."""
        workload = self._get(uid)
        if workload is None:
            return
        count = self._judges.minute(self.at, workload)
        if count != workload.gang.count:
            self._resize(workload, count)
        self._plan(self.at + MINUTE, "minute", uid)

    def _resize(self, workload: Workload, count: int) -> None:
        if workload.phase in LEAVING:
            return
        staying = sorted((a for a in workload.placement if not a.leaving), key=lambda a: a.rank)
        surplus = {a.rank for a in staying[count:]}
        placement = tuple(replace(a, leaving=a.leaving or a.rank in surplus) for a in workload.placement)
        self._put(replace(workload, gang=replace(workload.gang, count=count), placement=placement))
        if surplus:
            self._plan(self.at + grace(workload), "gone", workload.id, workload.attempt)

    def _count(self, workload: Workload) -> None:
        """Count what is asked, as queries/demand.py does, unless the episode knows the demand."""
        ask = as_counted(workload.ask)
        self._asked[ask] += max(1, workload.gang.count)
        for role in workload.roles:
            self._asked[as_counted(role.ask)] += role.count
        self._came += ask.milli > 0
        if self._came >= self._count_at and not self.episode.demand.shapes:
            self._count_at = self._came + max(ENOUGH, round(GROWTH * self._came))
            self.snapshot = replace(self.snapshot, demand=forecast(self._asked, self.snapshot), choosers={})

    # --- parts --------------------------------------------------------------------------------

    def _put(self, workload: Workload) -> Workload:
        self._changed[workload.id] = replace(workload, version=workload.version + 1)
        self._judges.show(self.at, workload)
        return self._changed[workload.id]

    def _retime(self, workload: Workload) -> None:
        """Another number of workers: another speed, another end."""
        course = self.courses[workload.id]
        course.settle(self.at)
        staying = sum(not (a.leaving or a.reserved) for a in workload.placement)
        least = 1 if workload.kind is Kind.INFERENCE else workload.gang.min + workload.companions
        is_on = workload.phase in (Phase.RUNNING, Phase.SCALING) and staying >= least
        course.rate = (staying - workload.companions) / max(1, workload.gang.count) if is_on else 0.0
        if workload.kind is not Kind.TRAINING:
            course.rate = 1.0 if is_on else 0.0
        course.held = held(workload)
        course.token += 1
        if course.job.seconds is not None and course.rate:
            left = max(0.0, course.job.seconds - course.done)
            self._plan(self.at + left / course.rate, "end", workload.id, course.token)

    def _halt(self, workload: Workload) -> None:
        course = self.courses[workload.id]
        course.settle(self.at)
        course.rate, course.token = 0.0, course.token + 1
        if workload.kind is Kind.TRAINING and workload.checkpoint_interval is None:
            course.lost_seconds += course.done
            course.done = 0.0

    def _requeue(self, workload: Workload) -> None:
        course = self.courses[workload.id]
        course.held = 0
        self._put(
            replace(
                workload, phase=Phase.QUEUED, placement=(), after=(), started_at=None,
                attained=int(course.held_seconds),                 reason="", message="",
            )
        )  # fmt: skip

    def _leave_for_good(self, uid: str) -> None:
        course = self.courses[uid]
        course.settle(self.at)
        course.ended, course.rate, course.held = self.at, 0.0, 0
        self._changed.pop(uid, None)
        self._gone.add(uid)
        self._judges.leave(self.at, uid)
        self._admit(uid)

    def _admit(self, left: str) -> None:
        """Those that waited for it to leave start once nobody is left that they wait for."""
        living = {uid for uid, w in self.snapshot.workloads.items() if w.after}
        for uid in sorted(living | {u for u, w in self._changed.items() if w.after}):
            workload = self._get(uid)
            if workload is None or left not in workload.after:
                continue
            after = tuple(other for other in workload.after if other != left)
            if after:
                self._put(replace(workload, after=after))
                continue
            placement = tuple(replace(a, reserved=False) for a in workload.placement)
            phase = Phase.ADMITTED if workload.phase is Phase.RESERVED else workload.phase
            self._bind(self._put(replace(workload, after=(), placement=placement, phase=phase)))

    def _break_deadlock(self) -> None:
        partial = [
            w
            for w in self.snapshot.workloads.values()
            if w.kind is Kind.TRAINING and w.phase in ACTIVE and len(w.placement) < w.gang.min + w.companions
        ]
        if len(partial) < 2 or max(self.courses[w.id].bound_at for w in partial) + DEADLOCK > self.at:
            return
        youngest = max(partial, key=lambda w: (w.submitted_at, w.seq))
        course = self.courses[youngest.id]
        course.preemptions += 1
        self._halt(youngest)
        course.bound_at = self.at
        self._requeue(replace(youngest, submitted_at=self.at, next_rank=0))
