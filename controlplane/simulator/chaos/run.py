"""A seeded run of the core and the simulated cluster in memory, with the invariants checked after every event.

Nothing here is Django: the store of the run stands in for the database. Everything is drawn from one
seed, so a run is a function of (commit, seed, conditions), and a broken invariant replays from them.

An event is one thing that happens by itself in production: a submission, a round's decision, its commit, one
command performed, one observation, a user's command, a fault, a step of the clock. Events of different loops come in
any order; a round may be committed long after it was decided, by a leader that has lost its lease meanwhile.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from autoscaler.decision import Scale
from autoscaler.law import Wanted
from autoscaler.scale import resized
from autoscaler.standby import borrowed, rearranged, taken_back
from controlplane.cluster.port import ALIVE, ClusterUnreachable, Observation, PodSeen, PodSpec
from controlplane.cluster.simulated import START, Conditions, SimulatedCluster
from controlplane.invariants.check import ALWAYS, check_these
from controlplane.invariants.eviction import open_claims, s8_legality
from controlplane.invariants.footprint import Footprints
from controlplane.invariants.rounds import s17_idempotence, s18_determinism
from controlplane.invariants.state import Round, Schedule, State, Violation
from controlplane.lifecycle.sightings import STOP_AGAIN_SECONDS
from controlplane.lifecycle.stale import Made
from controlplane.simulator.chaos import fenced, watching
from controlplane.simulator.chaos.faults import BadLine, Odds
from controlplane.simulator.chaos.mishaps import MISHAPS, ODDS, Scene
from controlplane.simulator.chaos.store import Action, Record, Store
from controlplane.simulator.worlds.mix import TEAMS, Mix, nodes, quotas
from gpushare.gpu import WHOLE
from scheduler.model.decision import Evict, Place, Shrink
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Node, Snapshot
from scheduler.model.workload import ACTIVE, Assignment, Kind, Phase, Workload
from scheduler.policies import Decider

Commit = Callable[[Store, Sequence[Made], int, str], tuple[int, ...]]
TIMELINE = 40  # events shown with a failure
MAX_WAITING = 15  # arrivals pause then: rounds stay quick and queues stay interesting

# How often each event is tried; those that find nothing to do are drawn again.
WEIGHTS: Mapping[str, float] = {
    "submit": 12,
    "pass_time": 12,
    "observe": 16,
    "decide": 6,
    "commit": 10,
    "perform": 34,
    "rescale": 3,
    "bill": 1,
    "leader_changes": 0.6,
    **ODDS,
}


def pod_of(workload: Workload, worker: Assignment, record: Record) -> PodSpec:
    """The pod of one worker."""
    ask = workload.ask_of(worker.rank)
    return PodSpec(
        workload=workload.id,
        attempt=workload.attempt,
        rank=worker.rank,
        size=len(workload.placement),
        node=worker.node,
        gpus=worker.gpus,
        milli=0 if worker.lender else ask.share.guarantee if ask.share else WHOLE,
        gpu_memory=ask.share.memory if ask.share else ask.gpu_memory if worker.lender else 0,
        cpu_milli=ask.cpu_milli,
        memory=ask.memory,
        namespace=workload.team,
        spec=record.spec,
        is_asleep=worker.asleep_at is not None,
        is_lent=bool(worker.lender),
    )


@dataclass(frozen=True)
class Parts:
    """What a run is made of; the tests plant their bugs here."""

    schedule: Schedule = field(default_factory=Decider)
    commit: Commit = fenced.commit
    take_in: Callable[[Store, Observation], bool] = watching.take_in
    store: Callable[[Snapshot], Store] = Store
    pod: Callable[[Workload, Assignment, Record], PodSpec] = pod_of


@dataclass(frozen=True)
class World:
    """The circumstances of a run. ask_again_every: rounds between two that are asked S17 and S18."""

    nodes: tuple[Node, ...] = field(default_factory=nodes)
    settings: Settings = Settings()
    odds: Odds = Odds()
    weights: Mapping[str, float] = field(default_factory=lambda: WEIGHTS)
    max_waiting: int = MAX_WAITING
    largest_gang: int = 32
    ask_again_every: int = 20


class InvariantBroken(AssertionError):  # noqa: N818  (what happened, not a mistake)
    """What broke, in which event of which seed, and what had happened before."""

    def __init__(self, seed: int, event: int, violations: Sequence[Violation], timeline: Sequence[str]) -> None:
        self.seed, self.event, self.violations, self.timeline = seed, event, tuple(violations), tuple(timeline)
        lines = [f"  {v.name} {v.subject}: {v.message}" for v in violations]
        super().__init__("\n".join([f"seed {seed}, event {event}:", *lines, "before:", *(f"  {t}" for t in timeline)]))


@dataclass(frozen=True, slots=True)
class _Pending:
    """A round that is decided and not committed: what it saw, under which epoch."""

    made: Round
    epoch: int


class Runner:
    """One run. `run(events)` goes on from where the last call ended."""

    def __init__(self, seed: int, world: World | None = None, parts: Parts | None = None) -> None:
        self.seed = seed
        self.world = world or World()
        self.parts = parts or Parts()
        self.rng = np.random.default_rng(seed)
        self.mix = Mix(self.rng, self.world.largest_gang)
        self.cluster = SimulatedCluster(self.world.nodes, Conditions(seed=seed, has_requests=False))
        self.line = BadLine(self.cluster, self.rng, self.world.odds)
        quotas_ = quotas(self.world.nodes)
        self.store = self.parts.store(Snapshot.build(START, self.world.nodes, TEAMS, quotas_, ()))
        self.scene = Scene(self.store, self.cluster, self.rng, quotas_)
        self.pods: dict[str, tuple[PodSeen, ...]] = {}
        self.partly_up: dict[str, float] = {}
        self.counts: Counter[str] = Counter()
        self.events = 0
        self.rounds = 0
        self._cursor: str | None = None
        self._mirror: str | None = None
        self._pending: _Pending | None = None
        self._made: Round | None = None
        self._asks_again = False
        self._footprints = Footprints()
        self._timeline: deque[str] = deque(maxlen=TIMELINE)
        self._next: deque[int] = deque()
        self._names = tuple(self.world.weights)
        odds = np.array([self.world.weights[name] for name in self._names])
        self._odds = odds / odds.sum()

    # --- running ------------------------------------------------------------------------------

    def run(self, events: int) -> Counter[str]:
        """Let so many events happen; raises InvariantBroken at the first that breaks something."""
        until = self.events + events
        while self.events < until:
            if not self._next:
                self._next.extend(self.rng.choice(len(self._names), size=256, p=self._odds).tolist())
            self.happen(self._names[self._next.popleft()])
        return self.counts

    def happen(self, name: str) -> bool:
        """Let one event happen and check; False, and no event, if there is nothing for it to do."""
        before = self.store.snapshot
        self.store.begin()
        self._made = None
        mishap = MISHAPS.get(name)
        told = mishap(self.scene) if mishap else getattr(self, f"_{name}")()
        if told is None:
            return False
        self.store.flush()
        self.events += 1
        self.counts[name] += 1
        self._timeline.append(f"{self.events} {self.store.at - START:.0f}s {name}: {told}")
        self._look_at_pods()
        self._check(before)
        return True

    def state(self, before: Snapshot | None = None) -> State:
        """What the invariants look at; without `before`, everything."""
        store = self.store
        partial = before is not None
        return State(
            snapshot=store.snapshot,
            before=before,
            pods=self.pods,
            partly_up=self.partly_up,
            ended=store.ended,
            submitted=store.submitted,
            transitions=tuple(store.transitions) if partial else None,
            writes=tuple(store.writes),
            accounts=store.accounts(),
            rate=store.rate,
            claims=tuple(store.claims),
            round=self._made,
            settings=self.world.settings,
            only=frozenset(store.touched) if partial else None,
            footprints=self._footprints if partial else Footprints(),
        )

    def violations(self) -> tuple[Violation, ...]:
        """What is broken as things stand, everything looked at: what an audit would find."""
        return check_these(self.state(), ALWAYS)

    def _check(self, before: Snapshot) -> None:
        store = self.store
        is_same = store.snapshot is before and not (store.touched or store.writes or self._made)
        if is_same:
            return  # nothing that an invariant looks at has changed
        state = self.state(before)
        found = check_these(state, ALWAYS)
        made = self._made
        if made is not None:
            if any(isinstance(d, Evict) for d in made.decisions):
                found += s8_legality(state, max_left_out=1)
            if self._asks_again:
                found += s17_idempotence(state) + s18_determinism(state)
        if not found and self.events % 1000 == 0:
            found = self.violations()
        if found:
            raise InvariantBroken(self.seed, self.events, found, self._timeline)
        self.store.claims = open_claims(self.store.claims, self.store.snapshot)

    def _look_at_pods(self) -> None:
        """Follow the cluster itself, past the bad line: what it really runs."""
        seen = self.cluster.observe(self._mirror)
        self._mirror = seen.cursor
        changed: dict[str, dict[str, PodSeen]] = {}
        for pod in seen.pods:
            pods = changed.setdefault(pod.workload, {p.name: p for p in self.pods.get(pod.workload, ())})
            if pod.phase not in ALIVE:
                pods.pop(pod.name, None)
            else:
                pods[pod.name] = pod
        for uid, pods in changed.items():
            self.store.touched.add(uid)
            self.pods[uid] = tuple(pods.values())
            if not pods:
                del self.pods[uid]
        for uid in self.store.touched:
            self._note_part(uid, seen.at)

    def _note_part(self, uid: str, now: float) -> None:
        workload = self.store.snapshot.workloads.get(uid)
        least = workload.gang.min + workload.role_members if workload else 0
        if workload is not None and workload.phase in ACTIVE and 0 < len(self.pods.get(uid, ())) < least:
            self.partly_up.setdefault(uid, now)
        else:
            self.partly_up.pop(uid, None)

    # --- loops --------------------------------------------------------------------------------

    def _submit(self) -> str | None:
        waiting = sum(w.phase == Phase.QUEUED for w in self.store.snapshot.workloads.values())
        if waiting >= self.world.max_waiting:
            return None
        job = self.mix.draw(self.store.at)
        self.store.add(job.workload, Record(job.spec, job.retries), "user")
        w = job.workload
        return f"{w.id} {w.team} {w.kind} {w.gang.min}..{w.gang.count} x {w.ask.milli} priority {w.priority}"

    def _pass_time(self) -> str:
        now = self.cluster.now()
        due = self.cluster.next_event()
        ahead = now + float(self.rng.integers(1, 30))
        to = ahead if due is None or self.rng.random() < 0.3 else min(max(due, now + 1), now + 20)
        self.cluster.advance(to)
        return f"to {to - START:.0f}s"

    def _observe(self) -> str:
        try:
            seen = self.line.observe(self._cursor)
        except ClusterUnreachable:
            return "unreachable"
        was_late = not self.parts.take_in(self.store, seen)
        if not was_late:
            self._cursor = seen.cursor
        what = "late" if was_late else "whole" if seen.is_full else "next"
        return f"{what}, {len(seen.pods)} pods, {len(seen.nodes)} nodes of {seen.at - START:.0f}s"

    def _decide(self) -> str | None:
        if self._pending is not None:
            return None
        settings = self.world.settings
        snapshot = self.store.snapshot
        decisions = tuple(self.parts.schedule(snapshot, settings))
        if not decisions:
            return "nothing"
        self.rounds += 1
        self._asks_again = self.rounds % self.world.ask_again_every == 0
        self._made = Round(snapshot, decisions, settings, self.parts.schedule)
        self._pending = _Pending(self._made, self.store.epoch)
        return "; ".join(f"{kind_of(d)} {d.workload}" for d in decisions)

    def _commit(self) -> str | None:
        if self._pending is None:
            return None
        pending, self._pending = self._pending, None
        decisions = pending.made.decisions
        stale = self.parts.commit(self.store, decisions, pending.epoch, "schedule")
        for i, decision in enumerate(decisions):
            self.counts[f"stale {kind_of(decision)}" if i in stale else kind_of(decision)] += 1
        return f"{len(decisions) - len(stale)} applied, {len(stale)} stale"

    def _perform(self) -> str | None:
        if not self.store.outbox:
            return None
        chosen = self.store.outbox[int(self.rng.integers(len(self.store.outbox)))]
        # Commands for one workload keep their order; those for different ones need not.
        action = next(a for a in self.store.outbox if a.workload == chosen.workload)
        told = f"{action.verb} {action.workload}-{action.attempt} ranks {action.ranks}"
        try:
            self._do(action)
        except ClusterUnreachable:
            return f"{told} fails"
        self.store.outbox.remove(action)
        return told

    def _do(self, action: Action) -> None:
        if action.verb == "stop":
            self.line.stop(action.workload, action.attempt, action.ranks, action.grace)
            if action.workload in self.store.records:
                until = self.cluster.now() + action.grace + STOP_AGAIN_SECONDS
                self.store.records[action.workload].stops[action.attempt] = until
            return
        workload = self.store.get(action.workload)
        if workload is None or workload.attempt != action.attempt:
            return
        if action.verb != "start":
            self.line.tell(action, workload.ask)
            return
        seats = [a for a in workload.placement if a.rank in action.ranks and not a.leaving and not a.reserved]
        record = self.store.records[workload.id]
        self.line.start([self.parts.pod(workload, a, record) for a in seats])
        record.performed.update((a.rank, self.cluster.now()) for a in seats)

    def _rescale(self) -> str | None:
        """Another number of replicas for one service: what the autoscaler decides."""
        services = [w for w in self.store.snapshot.workloads.values() if w.kind == Kind.INFERENCE and w.phase in ACTIVE]
        if not services:
            return None
        w = services[int(self.rng.integers(len(services)))]
        wanted = int(self.rng.integers(1, w.gang.max + 1))
        if w.awake is not None:
            return self._rearrange(w, wanted)
        decision: Scale | Shrink = resized(w, wanted, "")
        staying = [a.rank for a in w.placement if not a.leaving]
        if wanted < len(staying) <= w.gang.count and self.rng.random() < 0.5:
            # The same said by ranks: these stop, and the number of wanted replicas follows in a decision of its own.
            decision = Shrink(w.id, w.version, tuple(staying[wanted:]))
            self.parts.commit(self.store, [decision], self.store.epoch, "scale")
            again = self.store.get(w.id)
            if again is not None:
                self.parts.commit(self.store, [resized(again, wanted, "")], self.store.epoch, "scale")
        else:
            self.parts.commit(self.store, [decision], self.store.epoch, "scale")
        self.counts[kind_of(decision)] += 1
        return f"{kind_of(decision)} {w.id} {w.gang.count} -> {wanted}"

    def _rearrange(self, w: Workload, wanted: int) -> str | None:
        """So many replicas of a service with standby are to serve; what borrows the others' GPUs leaves."""
        workloads = self.store.snapshot.workloads
        lent = borrowed(workloads.values()).get(w.id, {})
        loaded = [a.rank for a in w.placement if self.rng.random() < 0.9]
        change = rearranged(w, Wanted(wanted), loaded, lent)
        if change is None:
            return None
        back = taken_back([change], workloads, self.cluster.now())
        self.parts.commit(self.store, [change, *back], self.store.epoch, "scale")
        self.counts["Wake" if (change.awake or 0) > (w.awake or 0) else "Sleep"] += 1
        self.counts["taken back"] += len(back)
        self.counts.update(kind_of(decision) for decision in back)
        return f"{w.id} {w.awake} -> {change.awake} of {change.workers} serve, {len(back)} give back"

    def _bill(self) -> str | None:
        held = [w.id for w in self.store.snapshot.workloads.values() if w.placement]
        if not held:
            return None
        for uid in held:
            self.store.bill(uid)
        return f"{len(held)} workloads"

    def _leader_changes(self) -> str:
        self.store.epoch += 1
        return f"epoch {self.store.epoch}"


def kind_of(decision: Made) -> str:
    """A decision's kind as it is counted."""
    if isinstance(decision, Place):
        if any(worker.lender for worker in decision.workers):
            return "Lend" if decision.workers[0].rank else "Start on lent"
        return "Place after" if decision.after else "Place"
    if isinstance(decision, Evict):
        return f"Evict {decision.reason}"
    return type(decision).__name__
