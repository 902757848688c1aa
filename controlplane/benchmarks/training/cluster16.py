"""16 nodes with 4 T4 each on the one replay engine: trainings come, run and end, and a policy places them.

A policy plans at each tick, and may act at each arrival and each end. It is told of a training what
`autoscaler.planner` describes, from what was seen of it (`trainings.Seen`), and never the tables. Each start costs the
measured delay of its model, and so does a move to other nodes. Time, places and the life cycle are those of the engine
(controlplane/simulator/replay/plans.py); how fast a training runs is `trainings.Training`'s.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np

from controlplane.benchmarks.training.rounds import NodeId, Plan, Told
from controlplane.benchmarks.training.tables import Application, Placement
from controlplane.benchmarks.training.trainings import NOISE, Asked, Library, Seen, Training, shape_of, split, turned
from controlplane.simulator.replay.plans import Places, Plans

GPU_TYPE = "t4"
NODES = 16
NODE_GPUS = 4
MOST_GPUS = NODES * NODE_GPUS
CLUSTER = {GPU_TYPE: (NODES, NODE_GPUS)}
TICK = 60.0  # s
ARRIVALS, LOOKS = "1", "0"  # of what happens at one time trainings go on first, in the order in which they came
ANYWHERE = "anywhere"  # the one node of a cluster where places are shapes only
PROFILED = (1, 2, 4, 8)  # GPUs that a training is tried with before it starts, for policies that begin with that

Parts = tuple[tuple[NodeId, int], ...]


def _name(index: int) -> str:
    return f"n{index}"


_NODES = {_name(index): NODE_GPUS for index in range(NODES)}


class Policy(Protocol):
    """What decides. Both methods answer which training has which GPUs from now on."""

    def plan(self, now: float, jobs: Sequence[Mapping[str, Any]], current: Plan) -> Plan:
        """At a tick. See autoscaler.planner."""
        ...

    def event(self, now: float, jobs: Sequence[Mapping[str, Any]], current: Plan) -> Plan:
        """When a training came or ended."""
        ...


@dataclass(frozen=True, slots=True)
class Rules:
    """How a cluster is played. restart_seconds: of all models, None: as measured of each; noise: see trainings.NOISE.

    is_ideal: places are shapes only, not nodes; is_profiled: a training is tried before it is told of, for nothing, and
    how much of its work remains is known, both with noise. is_lent: trainings of a model tell each other what they saw.
    """

    tick: float = TICK
    restart_seconds: float | None = None
    noise: float = NOISE
    is_ideal: bool = False
    is_profiled: bool = False
    is_lent: bool = False


@dataclass(slots=True)
class Outcome(Told):
    """By job: queued: s before the first start; idle: s without GPUs in all; asked, done: work; ran: placements and
    batches of a GPU."""

    queued: dict[str, float] = field(default_factory=dict)
    idle: dict[str, float] = field(default_factory=dict)
    asked: dict[str, float] = field(default_factory=dict)
    done: dict[str, float] = field(default_factory=dict)
    ran: dict[str, frozenset[tuple[Placement, int]]] = field(default_factory=dict)

    @property
    def mean_queued(self) -> float:
        """s."""
        return float(np.mean(list(self.queued.values())))

    @property
    def mean_idle(self) -> float:
        """s."""
        return float(np.mean(list(self.idle.values())))


def simulate(
    asked: Sequence[Asked],
    applications: Mapping[str, Application],
    policy: Policy,
    rules: Rules | None = None,
    seed: int = 0,
) -> Outcome:
    """Run until all are done. seed: of what is seen with an error."""
    return _Play(asked, applications, policy, rules or Rules(), seed).run()


class _Play:
    def __init__(
        self,
        asked: Sequence[Asked],
        applications: Mapping[str, Application],
        policy: Policy,
        rules: Rules,
        seed: int,
    ) -> None:
        self.policy = policy
        self.rules = rules
        self.applications = applications
        self.plans = Plans({ANYWHERE: MOST_GPUS} if rules.is_ideal else _NODES, self._given)
        self.replay = self.plans.replay
        self.active: dict[str, Training] = {}
        self.order: dict[str, str] = {}  # in which they came, as keys of what happens
        self.looks: dict[str, int] = {}  # the number of the planned look at each
        self.factors: dict[str, float] = {}  # of the remaining work that is told of each
        self.current: dict[str, Parts] = {}
        self.libraries: dict[str, Library] = {}
        self.outcome = Outcome()
        self.next_tick = 0.0
        self.has_changed = False  # something came or ended
        self.coming = len(asked)
        for number, one in enumerate(asked):
            generator = np.random.default_rng([seed, number])
            self.replay.plan(one.submitted.at, partial(self._arrive, one, generator), key=ARRIVALS)

    def run(self) -> Outcome:
        while self.coming or self.active:
            if not self.active:
                # Nothing happens before the next arrival; ticks keep their beat.
                beat = math.ceil(self.replay.next / self.rules.tick) * self.rules.tick
                self.next_tick = max(self.next_tick, beat)
            self.replay.pass_to(min(self.replay.next, self.next_tick))
            self.has_changed = False
            while self.replay.next <= self.now:
                self.replay.step()
            if self.now >= self.next_tick:
                self.next_tick += self.rules.tick
                self._plan(self.policy.plan)
            elif self.has_changed:
                self._plan(self.policy.event)
        return self.outcome

    @property
    def now(self) -> float:
        return self.replay.at

    def _arrive(self, asked: Asked, generator: np.random.Generator) -> None:
        app, name = self.applications[asked.submitted.model], asked.submitted.name
        local = (app.least_local, app.longest_batch)
        library = self.libraries.setdefault(app.model, Library()) if self.rules.is_lent else None
        seen = Seen(
            app.initial_batch, app.most_batch, local, asked.submitted.batch, asked.is_free, generator,
            self.rules.noise, library=library,
        )  # fmt: skip
        seen.borrow()
        restart = app.restart_seconds if self.rules.restart_seconds is None else self.rules.restart_seconds
        job = Training(asked, app, seen, restart, self.now)
        if self.rules.is_profiled:
            profile(job)
            self.factors[name] = math.exp(self.rules.noise * generator.standard_normal())
        self.coming -= 1
        self.active[name], self.has_changed = job, True
        self.order[name] = f"{LOOKS}{len(self.order):09}"
        self.plans.submit(name)

    def _watch(self, name: str) -> None:
        """Look at it when something happens in it next, and no more at what was planned before."""
        if name in self.looks:
            self.replay.cancel(self.looks.pop(name))
        due = self.active[name].due
        if due < math.inf:
            self.looks[name] = self.replay.plan(due, partial(self._look, name), self.order[name])

    def _look(self, name: str) -> None:
        del self.looks[name]
        job = self.active[name]
        job.look()
        if job.completed_at is None:
            self._watch(name)
        else:
            self._finish(name, self.active.pop(name), job.completed_at)

    def _finish(self, name: str, job: Training, completed_at: float) -> None:
        told = self.outcome
        self.has_changed = True
        self.plans.end(name)
        self.current.pop(name, None)
        told.jct[name] = completed_at - job.asked.submitted.at
        told.restarts[name] = job.starts - 1
        told.gpu_seconds[name] = job.attained
        told.queued[name] = job.queued or 0.0
        told.idle[name] = job.idle
        told.asked[name] = float(job.application.convergence.progress[-1])
        told.done[name] = job.progress
        told.ran[name] = frozenset(job.ran)
        told.makespan = max(told.makespan, completed_at)

    def _plan(self, decide: Callable[[float, Sequence[Mapping[str, Any]], Plan], Plan]) -> None:
        if not self.active:
            return
        for job in self.active.values():
            job.advance(self.now)
        jobs = [self._tell(name, job) for name, job in self.active.items()]
        plan = decide(self.now, jobs, dict(self.current))
        self.outcome.rounds += 1
        self.outcome.infeasible += not self._is_feasible(plan, jobs)
        before, self.current = self.current, {name: tuple(parts) for name, parts in plan.items() if parts}
        changes: dict[str, Places] = {}
        for name, job in self.active.items():
            held, holds = before.get(name, ()), self.current.get(name, ())
            is_elsewhere = not self.rules.is_ideal and sorted(held) != sorted(holds)
            if is_elsewhere or placed(holds) != job.placement:
                changes[name] = self._places(holds)
        self.plans.follow(changes)

    def _places(self, parts: Parts) -> Places:
        if self.rules.is_ideal:
            return [(ANYWHERE, sum(gpus for _, gpus in parts))] if parts else []
        return [(_name(index), gpus) for (_, index), gpus in parts]

    def _given(self, name: str) -> None:
        """Its workers run, or are gone."""
        job = self.active[name]
        job.place(self.now, placed(self.current.get(name, ())) if self.plans.held(name) else ())
        self._watch(name)

    def _tell(self, name: str, job: Training) -> dict[str, Any]:
        rate = job.seen.expected()
        most = (job.seen.most if job.seen.is_free else job.seen.batch) // job.seen.local[0]
        told = {
            "id": name,
            "model": job.asked.submitted.model,
            "submitted": job.asked.submitted.at,
            "age": self.now - job.asked.submitted.at,
            "attained_gpu_s": job.attained,
            "restarts": max(0, job.starts - 1),
            "max_gpus": {GPU_TYPE: max(1, min(MOST_GPUS, most))},
            "restart_cost_s": job.restart_seconds,
            "restarting": bool(job.placement) and not job.is_reported,
            "ref_rate": {GPU_TYPE: 1.0 if rate is None else rate.one},
            "requested_gpus": job.asked.submitted.gpus,
            "goodput": {GPU_TYPE: rate},
        }
        if self.rules.is_profiled:
            app = job.application
            left = float(app.convergence.progress[-1]) - job.progress
            told["remaining"] = left * app.initial_batch * self.factors[name]
        return told

    def _is_feasible(self, plan: Plan, jobs: Sequence[Mapping[str, Any]]) -> bool:
        limits = {job["id"]: max(job["max_gpus"][GPU_TYPE], job["requested_gpus"]) for job in jobs}
        used = np.zeros(NODES, int)
        for name, parts in plan.items():
            if sum(gpus for _, gpus in parts) > limits.get(name, 0):
                return False
            for (_, index), gpus in parts:
                used[index] += gpus
        return bool(used.sum() <= MOST_GPUS if self.rules.is_ideal else used.max() <= NODE_GPUS)


def placed(parts: Parts) -> Placement:
    """The shape of what a plan gives a training."""
    return turned(tuple(gpus for _, gpus in sorted(parts)))


def profile(job: Training) -> None:
    """See it with some sizes before it starts."""
    seen, app = job.seen, job.application
    for gpus in PROFILED:
        if gpus * seen.local[0] > seen.batch:
            continue
        placement: Placement = shape_of(gpus, NODE_GPUS)
        local, _ = split(seen.batch, gpus, seen.initial, seen.local[1])
        seen.step((len(placement), gpus, local), *app.times_of(placement, local))
    seen.gradients(*app.convergence.gradient(seen.batch, 0))
