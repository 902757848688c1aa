"""Two cells in which deciders die, stall half-way and come back, while racks move from cell to cell."""

import random
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F, Sum

from controlplane.cluster.port import PodPhase
from controlplane.domain.cycle import digest_of
from controlplane.domain.deciders import decider_of
from controlplane.loops import deciding, schedule
from controlplane.loops.keeper import SnapshotKeeper
from controlplane.loops.wiring import Wiring
from controlplane.models import Lease, NodePool, Placement, Quota, QuotaPart, Team, Workload
from controlplane.queries.audit.audit import violations
from controlplane.queries.cells import views
from controlplane.queries.scheduling import snapshot
from controlplane.services.errors import Refused
from controlplane.services.scheduling import decisions, inforce, leases, policy
from controlplane.services.scheduling.cycles import CycleInput
from controlplane.services.scheduling.leases import HeldLease, LeaseLost
from controlplane.services.tenancy import quotas
from scheduler.model.cell import CellView, names
from scheduler.model.decision import Decision
from scheduler.policies import decide_round
from tests.controlplane.state import NoMetrics, PodCluster, World, node

pytestmark = pytest.mark.django_db
RACKS = ("r1", "r2", "r3")
STEPS = 50


@dataclass
class Stalled:
    """A round that has read and decided, and has not committed yet."""

    lease: HeldLease
    cell: str
    made: tuple[Decision, ...]


@dataclass
class Chaos:
    """A world whose deciders are processes of their own; `turn` draws what happens next."""

    seed: int
    world: World = field(init=False)
    processes: list[Wiring] = field(default_factory=list)
    stalled: list[Stalled] = field(default_factory=list)
    fenced: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        nodes = {f"n{i}": node(f"n{i}", gpus=4, rack=RACKS[i % 3]) for i in range(6)}
        self.world = World(PodCluster(nodes=nodes))
        for team, milli in (("red", 12_000), ("blue", 9000)):
            row = Team.objects.get(name=team)
            quotas.save(team=row, pool=NodePool.objects.get(), nominal=milli, borrowing_limit=6000, actor="ann")
        self.processes = [self.process(f"p{i}") for i in range(2)]
        self.cut()

    def process(self, name: str) -> Wiring:
        return Wiring(self.world.cluster, NoMetrics(), name)

    # --- what may happen ----------------------------------------------------------------------

    def submit(self) -> None:
        gpus, workers = self.random.choice(((1, 1), (2, 1), (4, 1), (2, 3), (4, 4)))
        try:
            self.world.submit(
                f"job-{self.world.submitted}", team=self.random.choice(("red", "blue")), gpus=gpus, workers=workers
            )
        except Refused as refused:
            assert refused.code in ("NoCell", "NeverPlaceable"), refused

    def decide(self) -> None:
        self.world.later()
        schedule.run_once(self.random.choice(self.processes))

    def die(self) -> None:
        at = self.random.randrange(len(self.processes))
        self.expire(self.processes[at].holder)
        self.processes[at] = self.process(f"p{self.random.randrange(1000)}")

    def expire(self, holder: str) -> None:
        """Its time is over: what it is still about to commit must not count."""
        Lease.objects.filter(holder=holder).update(expires_at=F("expires_at") - timedelta(hours=1))

    def stall(self) -> None:
        """A process that no one knows of has taken a cell, reads, decides and stalls."""
        cell = self.random.choice(names(inforce.now().cells))
        name = decider_of(cell)
        Lease.objects.filter(name=name).update(expires_at=F("expires_at") - timedelta(hours=1))
        held = leases.acquire(name=name, holder=f"stalled-{self.random.random()}")
        now = inforce.now()
        assert held is not None
        held = replace(held, cells_number=now.cells_number)
        keeper = SnapshotKeeper(CellView(cell, now.cells) if now.cells else None)
        made, _ = decide_round(keeper.take(held, self.world.cluster.at).snapshot, now.policy.scheduling, keeper.memo)
        self.stalled.append(Stalled(held, cell, made))
        if self.random.random() < 0.5:
            self.expire(held.holder)

    def go_on(self) -> None:
        if self.stalled:
            one = self.stalled.pop(self.random.randrange(len(self.stalled)))
            cycle = CycleInput("schedule", at=self.world.cluster.at, cell=one.cell)
            try:
                decisions.commit(one.made, lease=one.lease, cycle=cycle)
            except LeaseLost:
                self.fenced += 1

    def cut(self) -> None:
        """Other cells."""
        found: dict[str, dict[str, list[str]]] = defaultdict(lambda: {"racks": []})
        for rack in RACKS:
            if cell := self.random.choice(("", "north", "south", "north", "south")):
                found[cell]["racks"].append(rack)
        try:
            policy.change(changes={"scheduling": {"cells": dict(found)}}, author="ann")
        except Refused as refused:
            assert refused.code == "NothingChanged"

    def carry(self) -> None:
        """A node is carried to another rack."""
        name = self.random.choice(sorted(self.world.cluster.nodes))
        there = self.world.cluster.nodes[name]
        rack = self.random.choice(RACKS)
        if len([n for n in self.world.cluster.nodes.values() if n.rack == there.rack]) > 1:
            self.world.cluster.nodes[name] = replace(there, rack=rack)
            self.world.observe_all()

    def work(self) -> None:
        self.world.actuate()
        for uid in Workload.objects.filter(phase="Starting").values_list("pk", flat=True):
            self.world.cluster.set(Workload.objects.get(pk=uid), PodPhase.RUNNING)
        self.world.observe()

    def finish(self) -> None:
        running = list(Workload.objects.filter(phase="Running").order_by("seq"))
        if running:
            self.world.pods(self.random.choice(running), PodPhase.SUCCEEDED)

    def share_out(self) -> None:
        process = self.random.choice(self.processes)
        process.kept["divide due"] = 0.0
        deciding.divide_when_due(process)

    def give_less(self) -> None:
        red = Team.objects.get(name="red")
        milli = self.random.choice((4000, 8000, 12_000))
        quotas.save(team=red, pool=NodePool.objects.get(), nominal=milli, borrowing_limit=6000, actor="ann")

    # --- what must always hold ----------------------------------------------------------------

    def check(self) -> None:
        for names_ in ({"state__in": ("Bound", "Leaving")}, {"state__in": ("Bound", "Reserved")}):
            held: dict[tuple[str, int], int] = defaultdict(int)
            for on, gpus in Placement.objects.filter(**names_).values_list("node", "gpus"):
                for index in gpus:
                    held[on, index] += 1
            assert max(held.values(), default=0) <= 1, held
        parts = QuotaPart.objects.order_by().values_list("quota").annotate(sum=Sum("nominal"))
        for quota, nominal in Quota.objects.values_list("pk", "nominal"):
            assert dict(parts).get(quota, 0) <= nominal

    def turn(self) -> None:
        happens: list[Any] = [
            *[self.submit] * 4, *[self.decide] * 5, *[self.work] * 3, self.finish, self.die, self.stall,
            *[self.go_on] * 2, self.cut, self.carry, *[self.share_out] * 2, self.give_less,
        ]  # fmt: skip
        self.random.choice(happens)()
        self.check()

    def settle(self) -> None:
        """All that stalls goes on, the dead are replaced, and rounds follow each other until all is at rest."""
        while self.stalled:
            self.go_on()
        Lease.objects.update(expires_at=F("expires_at") - timedelta(hours=1))
        self.processes = [self.process("last")]
        for _ in range(8):
            self.world.later(61)
            schedule.run_once(self.processes[0])
            self.work()
            self.check()
        self.world.later()
        schedule.run_once(self.processes[0])


@pytest.mark.parametrize("seed", range(6))
def test_whatever_dies_or_moves_nothing_is_placed_twice_and_no_workload_is_lost(seed: int) -> None:
    chaos = Chaos(seed)
    for _ in range(STEPS):
        chaos.turn()
    chaos.settle()
    seen: list[str] = []
    for view in views.every():
        kept = chaos.processes[0].kept["keeper" if view is None else f"keeper:{view.cell}"]
        number = inforce.cells_number()
        held = chaos.processes[0].kept[f"lease:{decider_of(view.cell if view else '')}"].hold()
        taken = kept.take(replace(held, cells_number=number), chaos.world.cluster.at).snapshot
        fresh = replace(snapshot.full(taken.at, view=view), history=taken.history)
        assert digest_of(taken) == digest_of(fresh)
        seen += taken.workloads
    live = Workload.objects.exclude(phase__in=("Succeeded", "Failed", "Stopped")).values_list("pk", flat=True)
    assert sorted(seen) == sorted(map(str, live))
    assert violations(last_rounds=20) == ()
