"""A database full of work, as pages meet it: phases, shares, history, events, objectives, people of each role."""

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any

import numpy as np
from django.contrib.auth.hashers import make_password

from controlplane.jobspec.podsets import roles_values
from controlplane.jobspec.spec import parse
from controlplane.models import (
    ClusterState,
    Event,
    Gpu,
    Membership,
    Node,
    NodePool,
    Placement,
    PlacementState,
    PriorityClass,
    Quota,
    Role,
    ServiceWindow,
    Team,
    TeamSample,
    Usage,
    User,
    Workload,
)
from scheduler.model.workload import ACTIVE, ENDED, LEAVING, Phase

START = 1_767_225_600.0
NOW = START + 8 * 3600 + 130
PASSWORD = "correct horse battery"
TEAMS = {"nlp": (0, 44), "vision": (1, 36), "search": (2, 24), "speech": (3, 16)}
PHASES = (
    (Phase.RUNNING, 30), (Phase.QUEUED, 14), (Phase.SUCCEEDED, 6), (Phase.STARTING, 3), (Phase.RESERVED, 2),
    (Phase.CHECKPOINTING, 1), (Phase.SUSPENDED, 2), (Phase.FAILED, 2), (Phase.STOPPED, 1), (Phase.DEGRADED, 1),
    (Phase.HELD, 1),
)  # fmt: skip
WHY = (
    ("WaitingForQuota", "nlp holds all 44 GPUs of its quota; 8 are lent to vision and come back when sweep-3 ends."),
    ("BehindHigherPriority", "gang-7 is before it in team nlp."),
    ("Fragmented", "It needs 4 GPUs on one node; the best node has 3 free."),
    ("TopologyPlacementFailed", "It needs 16 GPUs in one rack; rack-1 has 12 free."),
    ("WaitingForCapacity", "It needs 8 A100; 2 are free."),
)
NAMES = ("bert-base", "gpt-small", "eval-nightly", "tokenise", "sweep", "dlrm", "asr-ft", "detector-ft", "rank-v2")


@cache
def _hashed() -> str:
    return make_password(PASSWORD)  # once: Argon2 is slow on purpose


def make_team(name: str, colour: int = 0, parent: Team | None = None) -> Team:
    return Team.objects.create(name=name, colour=colour, parent=parent)


def make_user(name: str, *, admin: bool = False, **roles: Role) -> User:
    """A user with a role in each of these teams."""
    user = User.objects.create(username=name, password=_hashed(), is_superuser=admin, is_staff=admin)
    for team, role in roles.items():
        Membership.objects.create(user=user, team=Team.objects.get(name=team), role=role)
    return user


def document(kind: str, name: str, team: str, **more: Any) -> dict[str, Any]:
    """A job file of this kind."""
    shape: dict[str, Any] = {"type": kind, "name": name, "team": team, "image": "registry.example/work:1"}
    if kind == "notebook":
        shape["resources"] = {
            "gpu_share": {"guarantee": 0.25, "limit": 1.0, "memory": "8Gi"},
            "cpu": 4,
            "memory": "16Gi",
        }
    else:
        shape["resources"] = {"gpus": 1, "cpu": 8, "memory": "64Gi"}
    if kind == "inference":
        shape["replicas"] = {"min": 1, "max": 4}
        shape["objective"] = {"p95_latency": "200ms", "availability": 99.0, "window": "1d"}
    return {**shape, **more}


@dataclass
class World:
    """The filled database; `people` by name."""

    seed: int = 1
    people: dict[str, User] = field(default_factory=dict)
    teams: dict[str, Team] = field(default_factory=dict)
    seq: int = 0
    free: list[tuple[str, str, int]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    classes: dict[str, PriorityClass] = field(default_factory=dict)

    def base(self) -> "World":
        """Teams, people, pools, nodes and quotas; nothing submitted."""
        ClusterState.objects.create(preset="demo", is_simulated=True, now=NOW, speed=60, observed_at=datetime.now(UTC))
        for name, value in (("low", 100), ("normal", 200), ("high", 300), ("serving", 400)):
            self.classes[name] = PriorityClass.objects.create(
                name=name, value=value, is_default=name == "normal", preemptible=name != "serving"
            )
        roots = {"research": make_team("research", 6), "product": make_team("product", 7)}
        for i, (name, (colour, _)) in enumerate(TEAMS.items()):
            self.teams[name] = make_team(name, colour, roots["research" if i < 2 else "product"])
        self._machines()
        self.people = {
            "admin": make_user("admin", admin=True),
            "ada": make_user("ada", nlp=Role.ADMIN),
            "mel": make_user("mel", nlp=Role.MEMBER),
            "vic": make_user("vic", nlp=Role.VIEWER),
            "out": make_user("out", speech=Role.MEMBER),
        }
        return self

    def _machines(self) -> None:
        pools = {
            "a100": NodePool.objects.create(name="a100", gpu_model="A100", price_per_gpu_hour="3.67"),
            "l40s": NodePool.objects.create(name="l40s", gpu_model="L40S", price_per_gpu_hour="1.90"),
        }
        for i in range(20):
            pool, count = ("a100", 8) if i < 10 else ("l40s", 4)
            node = Node.objects.create(
                name=f"{pool}-{i % 10:02}", pool=pools[pool], gpu_model=pools[pool].gpu_model, gpu_count=count,
                gpu_memory=81_920, cpu_milli=96_000, memory=1_048_576, rack=f"rack-{i % 4}", zone=f"zone-{'ab'[i % 2]}",
                ready=i != 13, schedulable=i != 6, lost_gpus=[3] if i == 2 else [],
            )  # fmt: skip
            if node.ready and node.schedulable:
                self.free += [(node.name, pool, g) for g in range(count) if g not in node.lost_gpus]
        for name, (_, gpus) in TEAMS.items():
            big = gpus * 2 // 3
            Quota.objects.create(team=self.teams[name], pool=pools["a100"], nominal=big * 1000)
            Quota.objects.create(team=self.teams[name], pool=pools["l40s"], nominal=(gpus - big) * 1000)

    def fill(self, count: int = 60) -> "World":
        """Workloads in all phases with what belongs to them, and the history of a day."""
        rng = np.random.default_rng(self.seed)
        phases = [phase for phase, weight in PHASES for _ in range(weight)]
        rows = []
        for i in range(count):
            phase = phases[int(rng.integers(len(phases)))] if i >= len(PHASES) else PHASES[i][0]
            rows.append(self.workload(rng, phase, i))
        self.services(rng)
        Event.objects.bulk_create(self.events, batch_size=500)
        self._measure(rng)
        self._history(rng)
        return self

    def workload(self, rng: np.random.Generator, phase: Phase, i: int) -> Workload:
        """One workload in this phase, placed if that phase holds capacity."""
        team = list(TEAMS)[int(rng.integers(4))] if i % 3 else "nlp"
        kind = "notebook" if i % 7 == 3 else "training"
        name = f"{NAMES[i % len(NAMES)]}-{i}"
        workers = 1 if kind == "notebook" else int(rng.choice([1, 1, 2, 4]))
        more: dict[str, Any] = {}
        if kind == "training":
            more["resources"] = {"gpus": int(rng.choice([1, 1, 2])), "cpu": 8, "memory": "64Gi"}
            more["checkpoint"] = {"interval": "10m", "grace": "60s"}
        if workers > 1:
            more |= {"workers": {"count": workers}, "topology": {"require": "rack"}}
        row = self.add(document(kind, name, team, **more), phase, age=float(rng.integers(60, 7200)), number=i)
        if phase in ACTIVE | LEAVING:
            self.place(row, PlacementState.LEAVING if phase in LEAVING else PlacementState.BOUND)
        elif phase == Phase.RESERVED:
            self.place(row, PlacementState.RESERVED)
        return row

    def add(self, doc: dict[str, Any], phase: Phase = Phase.QUEUED, age: float = 600, number: int = 0) -> Workload:
        """A row as a submission makes it, moved to a phase, with its events."""
        spec = parse(doc)
        ask, gang = spec.resources, spec.workers
        self.seq += 1
        at = NOW - age
        is_waiting = phase in (Phase.QUEUED, Phase.HELD)
        has_run = phase in ACTIVE | LEAVING | ENDED | {Phase.SUSPENDED}
        reason, message = WHY[number % len(WHY)] if is_waiting else ("", "")
        row = Workload.objects.create(
            seq=self.seq, team=self.teams[spec.team], name=spec.name, kind=spec.type.value,
            priority_class=self.classes[spec.priority_class or "normal"], priority=200,
            created_by=self.people.get("mel"), spec=spec.document(), gpus=ask.gpus,
            share_guarantee=ask.share.guarantee if ask.share else 0, share_limit=ask.share.limit if ask.share else 0,
            gpu_memory=ask.share.memory if ask.share else 0, cpu_milli=ask.cpu_milli, memory=ask.memory,
            gpu_models=list(ask.models), workers=gang.count, workers_min=gang.min, workers_max=gang.max,
            roles=roles_values(spec.roles), batch=spec.batch.size if spec.batch else None,
            topology_require=spec.topology.require, phase=phase.value, reason=reason, message=message,
            checkpoint_interval=spec.checkpoint.interval, attempt=int(has_run), submitted_at=at, queued_at=at,
            started_at=at + age / 3 if has_run else None, first_started_at=at + age / 3 if has_run else None,
            checkpointed_at=NOW - 420 if has_run else None, progress=0.4 if has_run else None,
            ended_at=NOW - 30 if phase in ENDED else None, exit_code={"Succeeded": 0, "Failed": 137}.get(phase.value),
        )  # fmt: skip
        self._tell(row, at, age, is_waiting)
        return row

    def _tell(self, row: Workload, at: float, age: float, is_waiting: bool) -> None:
        steps: list[tuple[str, str, float]] = [("Submitted", "Queued", 0)]
        if row.attempt:
            steps += [("Admitted", "Admitted", 0.28), ("Starting", "Starting", 0.3), ("Running", "Running", 1 / 3)]
        if row.phase not in ("Queued", "Running"):
            steps.append((row.phase, row.phase, 0.95))
        if is_waiting:
            steps.append(("Waiting", row.phase, 0.2))
        self.events += [
            Event(
                at=datetime.now(UTC), cluster_at=at + age * part, kind=kind, phase=phase, team=row.team.name,
                actor="mel" if kind == "Submitted" else "loop:schedule", workload=row.pk, name=row.name,
                reason=row.reason if kind == "Waiting" else "", message=row.message if kind == "Waiting" else "",
            )
            for kind, phase, part in steps
        ]  # fmt: skip

    def place(self, row: Workload, state: str) -> None:
        """Give its workers the next free devices; a share takes a part of one."""
        for rank in range(row.workers):
            need = max(1, row.gpus)
            if len(self.free) < need:
                return
            node, pool, _ = self.free[0]
            mine = [slot for slot in self.free if slot[0] == node][:need]
            if len(mine) < need:
                self.free = [slot for slot in self.free if slot[0] != node]
                mine = self.free[:need]
            if not row.share_guarantee:
                self.free = [slot for slot in self.free if slot not in mine]
            Placement.objects.create(
                workload=row, attempt=1, rank=rank, node=mine[0][0], pool=mine[0][1], gpus=[g for _, _, g in mine],
                milli=row.share_guarantee or need * 1000, state=state,
                pod_phase="" if state == PlacementState.RESERVED else "Running",
                bound_at=None if state == PlacementState.RESERVED else row.started_at or NOW,
            )  # fmt: skip

    def services(self, rng: np.random.Generator) -> None:
        """One service a team, each standing differently."""
        for i, (team, bad) in enumerate(zip(TEAMS, (0.002, 0.008, 0.019, 0.0), strict=True)):
            name = ("chat", "image-tag", "ranker", "asr")[i]
            row = self.add(document("inference", name, team), Phase.RUNNING, age=20_000)
            self.place(row, PlacementState.BOUND)
            ServiceWindow.objects.bulk_create(
                ServiceWindow(
                    workload=row.pk, start=NOW - 60 * (k + 1), requests=6000, over=int(bad * rng.uniform(3000, 9000)),
                    p95_seconds=0.12 + 8 * bad, requests_per_second=100, replicas=1, wanted=1,
                )
                for k in range(120)
            )  # fmt: skip

    def _measure(self, rng: np.random.Generator) -> None:
        Gpu.objects.bulk_create(
            Gpu(node=node, index=i, duty=float(rng.uniform(0.5, 1)), memory_used=int(rng.integers(1000, 80_000)))
            for node in Node.objects.all()
            for i in range(node.gpu_count)
            if node.ready
        )

    def _history(self, rng: np.random.Generator) -> None:
        samples, used = [], []
        for k in range(0, 8 * 60):
            at = NOW - 60.0 * k
            for i, (name, (_, gpus)) in enumerate(TEAMS.items()):
                held = int(gpus * 1000 * (0.75 + 0.35 * np.sin(k / 70 + i * 1.3)))
                samples.append(
                    TeamSample(
                        team=self.teams[name], at=at, nominal=gpus * 1000, held=held,
                        computing=int(held * rng.uniform(0.72, 0.85)), waiting=int(4 + 3 * np.sin(k / 50 + i)),
                    )
                )  # fmt: skip
        for hour in range(8):
            for name in TEAMS:
                used.append(
                    Usage(
                        team=self.teams[name], workload=uuid.uuid4(), name=f"past-{hour}", user="mel", pool="a100",
                        hour=int(START + hour * 3600), held=20_000 * 3600, computed=17_500 * 3600,
                    )
                )  # fmt: skip
        TeamSample.objects.bulk_create(samples, batch_size=500)
        Usage.objects.bulk_create(used)
