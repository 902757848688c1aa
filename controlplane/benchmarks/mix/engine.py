"""The mix from event to event: production's scheduler and autoscaler on the one replay engine, with measured physics.

The life cycle, rounds and decisions are production's in memory (controlplane/simulator/replay). A round follows what
changed within SLOT seconds, and every NET seconds while something waits or could grow, as in a replay. The law looks at
the service every 15 s, and each second in which a request waits, as its loop does with a gateway. Pods take 5 to 60 s
to start; a replica on standby serves 2 s after it is called, whether its GPU is lent or not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, floor, inf
from typing import Any

import numpy as np

from autoscaler.law import State
from autoscaler.metrics import Metrics, Objective, ServiceMetrics
from autoscaler.observed import Scrape, Signal
from autoscaler.scale import scale
from autoscaler.settings import Settings as Scaling
from controlplane.benchmarks.harness.figure import BenchmarkError
from controlplane.benchmarks.mix import draws, jobs
from controlplane.benchmarks.mix.cells import Cells
from controlplane.benchmarks.mix.courses import Course
from controlplane.benchmarks.mix.draws import World
from controlplane.benchmarks.mix.ondemand import BESIDE, Timeline
from controlplane.benchmarks.mix.policies import Policy, hpa
from controlplane.benchmarks.mix.requests import Queue
from controlplane.simulator.replay.engine import Replay
from scheduler.model.decision import Decision, Wait
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import ACTIVE, Kind, Workload
from scheduler.policies import ONLY_COMPARED

SLOT, NET, LOOK, SECOND = 5.0, 15.0, 15.0, 1.0
DEADLOCK = 300.0  # s after which an operator kills the youngest of several gangs that hold GPUs and wait for more
WAKE = 2.0  # s until a replica on standby serves
GIVE, SAVE = 2.0, 10.0  # s until a worker that leaves is gone, and until a training that has to leave has saved itself
LONGEST = 200_000.0  # s: nothing lasts so long unless a policy starts nothing any more


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one run; times in s, by training. utilisation: part of all GPUs' time in which they computed."""

    makespan: float
    jct: Mapping[str, float]
    waited: Mapping[str, float]
    late_percent: float
    training_gpu_seconds: float
    service_gpu_seconds: float
    begin: float
    end: float
    restarts: float
    kills: int
    rounds: int
    places: Mapping[str, tuple[str, int]]  # notebook -> node and device
    cells: Cells | None  # of notebooks on demand
    held: Mapping[str, float]  # GPU-seconds that the kind of work held

    @property
    def mean_jct(self) -> float:
        """s."""
        return float(np.mean(list(self.jct.values())))


def play(world: World, policy: Policy, *, is_checked: bool = False) -> Outcome:
    """Run until the last training has ended. is_checked: look in each round that no GPU is held twice."""
    return _Play(world, policy, is_checked).run()


class _Play:
    def __init__(self, world: World, policy: Policy, is_checked: bool) -> None:
        self.world, self.policy, self.is_checked = world, policy, is_checked
        nodes, teams, quotas = jobs.cluster(world.times)
        self.decide_round = policy.decider(world)
        self.metrics: Metrics | None = None
        self.state: State | None = None
        self.scaling = Scaling()
        self.replay = Replay(Snapshot.build(0.0, nodes, teams, quotas, ()), self._decide, self)
        self.queue = Queue(world.service, min(training.at for training in world.trainings))
        self.scaler = hpa(world.service.requests(0)[1]) if policy.hpa else None
        self.courses: dict[str, Course] = {}
        self.ready: dict[tuple[str, int, int], float] = {}  # (workload, attempt, rank) -> when its pod runs
        self.woken: dict[int, float] = {}
        self.asleep: set[int] = set()
        self.start_seconds: float | None = None
        self.demand = jobs.Demands()
        self.due, self.rounds, self.kills = 0.0, 0, 0
        self.held: dict[str, float] = {}
        self.held_at = 0.0
        self.cells: Timeline | None = None  # of notebooks on demand, from when a training's worker is beside them
        self.parts_until: dict[str, float] = {}  # of the trainings: when they change next, as planned
        for workload in jobs.at_first(world, policy):
            self.replay.plan(0.0, partial(self._come, workload))
        for number, training in enumerate(world.trainings):
            self.replay.plan(training.at, partial(self._train, number))
        if world.replicas:
            self.replay.plan(LOOK, self._look)

    @property
    def at(self) -> float:
        return self.replay.at

    # --- time ---------------------------------------------------------------------------------

    def run(self) -> Outcome:
        while len(self.courses) < len(self.world.trainings) or any(c.ended is None for c in self.courses.values()):
            happens = self.replay.next
            self._hold(min(happens, self.due))
            if happens <= self.due:
                self.replay.step()
                if self.replay.memory.is_changed:
                    self._soon()
            else:
                self.replay.pass_to(self.due)
                self._round()
            if self.at > LONGEST:
                raise BenchmarkError(f"{self.policy.name}: trainings still wait after {LONGEST:.0f} s.")
        return self._outcome()

    def _soon(self) -> None:
        self.due = min(self.due, (floor(self.at / SLOT) + 1) * SLOT)

    def _hold(self, until: float) -> None:
        begin = draws.WARM
        seconds = max(0.0, until - max(self.held_at, begin))
        if seconds:
            for uid, workload in self.replay.snapshot.workloads.items():
                key = str(workload.kind) if uid in self.replay.snapshot.workloads else ""
                self.held[key] = self.held.get(key, 0.0) + seconds * workload.held_milli / 1000
        self.held_at = max(self.held_at, until)

    def _round(self) -> None:
        self.replay.memory.flush()
        if self.policy.name in ONLY_COMPARED:
            self._break_deadlock()
        moves = [one for one in self.replay.round() if not isinstance(one, Wait)]
        self.rounds += 1
        self._follow_all()
        self.replay.memory.flush()
        workloads = self.replay.snapshot.workloads.values()
        if self.is_checked:
            jobs.check(self.replay.snapshot)
        wants = any(w.is_waiting or jobs.could_grow(w) for w in workloads)
        self.due = (floor(self.at / SLOT) + 1) * SLOT if moves else self.at + NET if wants else inf

    def _decide(self, seen: Snapshot) -> Sequence[Decision]:
        """A round of the scheduler; of the autoscaler, where its loop asks."""
        if self.metrics is None:
            return self.decide_round(seen)
        found = scale(seen, self.metrics, self.scaling)
        self.metrics = None
        self.state = found.states.get(jobs.SERVICE, self.state)
        decisions: Any = found.decisions
        return tuple(decisions)

    # --- what the cluster does ----------------------------------------------------------------

    def start(self, workload: Workload) -> None:
        """Pods of it were created: see engine.Timing."""
        for a in workload.placement:
            key = workload.id, workload.attempt, a.rank
            if a.leaving or a.reserved or key in self.ready:
                continue
            seconds = self.world.start_seconds(workload.kind, f"{workload.id}-{workload.attempt}-{a.rank}")
            if workload.id == jobs.SERVICE and self.start_seconds is None:
                self.start_seconds = seconds
            self.ready[key] = self.at + seconds
            self.replay.plan(self.at + seconds, partial(self._up, workload.id, workload.attempt))
        if workload.id in self.courses:
            self.courses[workload.id].bound_at = self.at

    def stop(self, workload: Workload) -> None:
        """Pods of it end: see engine.Timing."""
        seconds = GIVE if workload.phase in ACTIVE else SAVE
        self.replay.plan(self.at + seconds, partial(self._gone, workload.id, workload.attempt))

    def _up(self, uid: str, attempt: int) -> None:
        workload = self.replay.get(uid)
        if workload is None or workload.attempt != attempt or workload.phase not in ACTIVE:
            return
        staying = {a.rank for a in workload.placement if not (a.leaving or a.reserved)}
        up = self._ranks_up(workload)
        is_whole = staying <= up and len(staying) >= workload.gang.min
        if is_whole or (uid == jobs.SERVICE and up):
            self.replay.run(uid)
        self._follow(uid)

    def _gone(self, uid: str, attempt: int) -> None:
        workload = self.replay.get(uid)
        if workload is not None and workload.attempt == attempt and any(a.leaving for a in workload.placement):
            self.replay.leave(uid)
            self._follow(uid)

    def _ranks_up(self, workload: Workload) -> set[int]:
        keys = ((workload.id, workload.attempt, a.rank) for a in workload.placement)
        return {key[2] for key in keys if self.ready.get(key, inf) <= self.at}

    # --- trainings ----------------------------------------------------------------------------

    def _come(self, workload: Workload) -> None:
        self.replay.submit(workload)
        self._soon()
        self.replay.memory.flush()
        if demand := self.demand.count(workload, self.replay.snapshot):
            self.replay.memory.snapshot = replace(self.replay.snapshot, demand=demand)
        if workload.placement:
            self.start(workload)

    def _train(self, number: int) -> None:
        workload = jobs.training(self.world.trainings[number], number, self.policy)
        self.courses[workload.id] = Course(self.world.trainings[number], workload.gang.min, since=self.at)
        self._come(workload)

    def _follow_all(self) -> None:
        for uid in self.courses:
            self._follow(uid)
        self._follow(jobs.SERVICE)

    def _follow(self, uid: str) -> None:
        """Let what a workload's pods do go on from what it has now."""
        workload = self.replay.get(uid)
        if uid == jobs.SERVICE and workload is not None:
            self._serve(workload)
        course = self.courses.get(uid)
        if course is None or course.ended is not None:
            return
        up = self._ranks_up(workload) if workload is not None else set()
        if course.follow(self.at, workload, up, self._parts(workload)) and course.rate:
            self.replay.plan(course.ends(self.at), partial(self._end, uid, course.token))

    def _parts(self, workload: Workload | None) -> dict[int, float]:
        """Of the GPUs' time that its workers have beside notebooks: hardly any while a cell runs there."""
        beside = [a for a in workload.placement if a.lender and a.lender != jobs.SERVICE] if workload else []
        if not beside or workload is None:
            return {}
        places = {a.rank: (a.node, a.gpus[0]) for a in beside}
        cells = self.cells = self.cells or jobs.cells_on_demand(self.replay.snapshot, self.world, self.policy)
        change = min(cells.next_change(place, self.at) for place in places.values())
        if self.parts_until.get(workload.id, 0.0) <= self.at or change < self.parts_until[workload.id]:
            self.parts_until[workload.id] = change
            self.replay.plan(change, partial(self._follow, workload.id))
        return {rank: 1 - BESIDE for rank, place in places.items() if cells.is_busy(place, self.at)}

    def _end(self, uid: str, token: int) -> None:
        course = self.courses[uid]
        if course.token == token and course.ended is None:
            course.settle(self.at)
            course.ended, course.rate, course.members = self.at, 0.0, {}
            self.replay.end(uid)

    def _break_deadlock(self) -> None:
        """As controlplane/simulator/replay/playback.py does."""
        partly = [
            w
            for w in self.replay.snapshot.workloads.values()
            if w.kind is Kind.TRAINING and w.phase in ACTIVE and len(w.placement) < w.gang.min
        ]
        if len(partly) < 2 or max(self.courses[w.id].bound_at for w in partly) + DEADLOCK > self.at:
            return
        youngest = max(partly, key=lambda w: (w.submitted_at, w.seq))
        self.courses[youngest.id].bound_at = self.at
        self.kills += 1
        self.replay.kill(youngest.id)

    # --- the service --------------------------------------------------------------------------

    def _serve(self, service: Workload) -> None:
        """Tell the queue which replicas serve, and from when on."""
        self.queue.serve(self.at)
        serving: dict[int, float] = {}
        asleep = {a.rank for a in service.placement if a.asleep_at is not None and not a.leaving}
        for rank in self.asleep - asleep:
            self.woken[rank] = self.at + WAKE
        self.asleep = asleep
        for a in service.placement if service.phase in ACTIVE else ():
            key = service.id, service.attempt, a.rank
            if not a.leaving and not a.reserved and a.asleep_at is None and key in self.ready:
                serving[a.rank] = max(self.ready[key], self.woken.get(a.rank, 0.0))
        self.queue.arrange(serving)

    def _look(self) -> None:
        """A scrape: every 15 s."""
        self.queue.serve(self.at)
        seen = self.queue.scrape(self.at)
        if self.policy.law:
            self._scale(seen.scrape, None)
        elif self.scaler is not None and self.queue.serving:
            self._resize(self.scaler.look(seen))
        self._listen(self.at + LOOK)
        self.replay.plan(self.at + LOOK, self._look)

    def _resize(self, count: int) -> None:
        service = self.replay.get(jobs.SERVICE)
        count = max(1, min(self.policy.most * self.world.times, count))
        if service is not None and count != service.gang.count:
            self.replay.resize(jobs.SERVICE, count)
            self._follow_all()

    def _listen(self, until: float) -> None:
        """Plan what the gateway tells before the next look: a second after the first request that has to wait."""
        if not self.policy.law:
            return
        first = self.queue.first_wait(self.at, until)
        at = max(self.at + SECOND, self.at + ceil(first - self.at)) if first < until else until
        if at < until:
            self.replay.plan(at, partial(self._alarm, until))

    def _alarm(self, until: float) -> None:
        self.queue.serve(self.at)
        signal = self.queue.signal(self.at)
        if signal.waiting:
            self._scale(None, signal)
        self._listen(until)

    def _scale(self, scrape: Scrape | None, signal: Signal | None) -> None:
        """A round of the autoscaler."""
        service = self.replay.get(jobs.SERVICE)
        if service is None or service.phase not in ACTIVE:
            return
        up = self._ranks_up(service)
        loaded = tuple(sorted(up))
        known = ServiceMetrics(
            jobs.SERVICE, Objective(draws.OBJECTIVE), scrape, self.state, ready=self.queue.ready(self.at),
            start_seconds=self.start_seconds, signal=signal, loaded=loaded,
        )  # fmt: skip
        self.metrics = Metrics({jobs.SERVICE: known})
        if self.replay.round():
            self._follow_all()

    # --- what came of it ----------------------------------------------------------------------

    def _outcome(self) -> Outcome:
        begin = min(t.at for t in self.world.trainings)
        ends = {name: course.ended or inf for name, course in self.courses.items()}
        end = max(ends.values())
        courses = self.courses.values()
        return Outcome(
            makespan=end - begin,
            jct={name: ends[name] - course.training.at for name, course in self.courses.items()},
            waited={name: (c.started or inf) - c.training.at for name, c in self.courses.items()},
            late_percent=self.queue.late_percent(begin, end) if self.world.replicas else 0.0,
            training_gpu_seconds=sum(course.used for course in courses),
            service_gpu_seconds=self.queue.busy_seconds(begin, end) if self.world.replicas else 0.0,
            begin=begin, end=end,
            restarts=float(np.mean([course.changes for course in courses])),
            kills=self.kills, rounds=self.rounds,
            places=jobs.notebook_places(self.replay.snapshot),
            cells=jobs.cells_on_demand(self.replay.snapshot, self.world, self.policy).cells(begin, end)
            if self.policy.on_demand else None,
            held=dict(self.held),
        )  # fmt: skip
