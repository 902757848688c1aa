"""Small worlds in the database, and a cluster whose pods do what a test says."""

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from controlplane.cluster.port import (
    Address,
    ClusterUnreachable,
    LogLine,
    Note,
    Observation,
    PodPhase,
    PodSeen,
    PodSpec,
    Split,
    pod_name,
)
from controlplane.jobspec.spec import Spec, parse
from controlplane.loops import account, actuate, observe
from controlplane.loops.lease import Lease
from controlplane.loops.wiring import Wiring
from controlplane.models import Action, Event, Placement, PriorityClass, Team, Workload
from controlplane.queries.scheduling import snapshot
from controlplane.services.scheduling import clusters, decisions, policy
from controlplane.services.scheduling.cycles import CycleInput
from controlplane.services.scheduling.decisions import Committed
from controlplane.services.scheduling.leases import HeldLease
from controlplane.services.workloads import submission
from controlplane.services.workloads.submission import Submission
from scheduler.model.decision import Evict, EvictReason, Place
from scheduler.model.snapshot import Node
from scheduler.model.workload import Assignment

START = 1_767_225_600.0
SILENT = "Silent"
ENDED = (PodPhase.SUCCEEDED, PodPhase.FAILED, PodPhase.GONE)
EIGHT_GPUS = Node("a", "main", "A100", 8, 81_920, 64_000, 262_144)


def node(name: str, **columns: Any) -> Node:
    return replace(EIGHT_GPUS, name=name, **columns)


@dataclass
class PodCluster:
    """A cluster of the port: pods stay Pending until `set`; `answers` may be turned off."""

    commands_at_once: ClassVar[int] = 1

    nodes: dict[str, Node] = field(default_factory=lambda: {n: node(n) for n in ("a", "b")})
    pods: dict[str, PodSeen] = field(default_factory=dict)
    at: float = START
    answers: bool = True
    refuses: bool = False
    answer: str = ""  # of its nodes to resizes: empty (done at once), INFEASIBLE, DEFERRED, or SILENT
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)  # CPU and memory that each pod has
    splits: list[Split] = field(default_factory=list)
    started: list[PodSpec] = field(default_factory=list)
    images: dict[str, str] = field(default_factory=dict)  # that each pod was made of
    calls: list[tuple[str, str]] = field(default_factory=list)
    serial: int = 0
    log: list[tuple[int, str]] = field(default_factory=list)
    nodes_changed: dict[str, int] = field(default_factory=dict)
    prepared: list[PodSpec] = field(default_factory=list)
    starting: set[str] = field(default_factory=set)
    told: list[Note] = field(default_factory=list)
    listeners: list[Callable[[], None]] = field(default_factory=list)

    def now(self) -> float:
        return self.at

    def observe(self, cursor: str | None) -> Observation:
        self._answer()
        cursor_now = str(self.serial + 1)
        if not cursor:
            return Observation(self.at, cursor_now, True, tuple(self.pods.values()), tuple(self.nodes.values()))
        since = int(cursor) - 1
        names = dict.fromkeys(name for serial, name in self.log if serial > since)
        nodes = tuple(self.nodes[n] for n, s in self.nodes_changed.items() if s > since and n in self.nodes)
        gone = tuple(n for n, s in self.nodes_changed.items() if s > since and n not in self.nodes)
        pods = tuple(self.pods[n] for n in names if n in self.pods)
        return Observation(self.at, cursor_now, False, pods, nodes, gone)

    def on_news(self, tell: Callable[[], None]) -> None:
        self.listeners.append(tell)

    def start(self, pods: Sequence[PodSpec]) -> None:
        self._answer()
        self.calls.append(("start", pods[0].workload))
        if self.refuses:
            raise RuntimeError("admission denied")
        for pod in pods:
            if pod.name not in self.pods:
                self.started.append(pod)
                seen = PodSeen(pod.workload, pod.attempt, pod.rank, pod.node, pod.gpus, PodPhase.PENDING)
                self.sizes[pod.name] = pod.cpu_milli, pod.memory
                self.images[pod.name] = str(pod.spec.get("image", ""))
                self._put(pod.name, seen)

    def stop(self, workload: str, attempt: int, ranks: Sequence[int], grace_seconds: float) -> None:
        self._answer()
        self.calls.append(("stop", workload))

    def resize(self, workload: str, attempt: int, rank: int, cpu_milli: int, memory: int) -> None:
        self._answer()
        self.calls.append(("resize", workload))
        if self.refuses:
            raise RuntimeError("admission denied")
        name, size = pod_name(workload, attempt, rank), (cpu_milli, memory)
        if name not in self.pods or self.pods[name].phase in ENDED:
            return
        if self.answer and size != self.sizes[name]:
            reason = "" if self.answer == SILENT else self.answer
            self._put(name, replace(self.pods[name], cpu_milli=None, memory=None, resize=reason, resize_message="Full"))
            return
        self.sizes[name] = size
        if self.pods[name].phase == PodPhase.RUNNING:
            shown = {"cpu_milli": cpu_milli, "memory": memory, "resize": "", "resize_message": ""}
            self._put(name, replace(self.pods[name], **shown))  # type: ignore[arg-type]

    def prepare(self, pods: Sequence[PodSpec], *, starting: Collection[str] = ()) -> None:
        self._answer()
        self.prepared, self.starting = list(pods), set(starting)

    def publish(self, notes: Sequence[Note]) -> None:
        self._answer()
        self.told.extend(notes)

    def held(self) -> frozenset[tuple[str, int]]:
        return frozenset()

    def split(self, split: Split) -> None:
        self._answer()
        self.splits.append(split)

    def limit(self, workload: str, attempt: int, ranks: Sequence[int], milli: int) -> None:
        self.calls.append(("limit", f"{workload}-{attempt}", tuple(ranks), milli))

    def rotate(self, workload: str, attempt: int, ranks: Sequence[int], *, on: bool) -> None:
        self.calls.append(("rotate", f"{workload}-{attempt}", tuple(ranks), on))

    def offload(
        self, workload: str, attempt: int, ranks: Sequence[int], memory: int, weights: int, *, on: bool
    ) -> None:
        self.calls.append(("offload", f"{workload}-{attempt}", tuple(ranks), memory, weights, on))

    def keep_address(self, address: Address, *, on: bool) -> None:
        self.calls.append(("keep_address", address.workload, on))

    def guard(self, address: Address, least: int) -> None:
        self.calls.append(("guard", address.workload, least))

    def cordon(self, node: str, on: bool) -> None:
        self.calls.append(("cordon", node))

    def logs(
        self, workload: str, attempt: int, rank: int | None, tail: int, since: float | None
    ) -> tuple[LogLine, ...]:
        return ()

    def set(self, workload: Workload, phase: PodPhase, *ranks: int, attempt: int = 0, **columns: Any) -> None:
        """Give the workload's pods (of these ranks, or all) this phase; GONE ones are told of once and dropped."""
        for name, pod in list(self.pods.items()):
            if pod.workload != str(workload.pk) or (ranks and pod.rank not in ranks):
                continue
            if pod.phase in ENDED or (attempt and pod.attempt != attempt):
                continue
            if phase == PodPhase.RUNNING:
                columns.setdefault("started_at", self.at)
                columns |= dict(zip(("cpu_milli", "memory"), self.sizes[name], strict=True))
            if phase in ENDED:
                columns.setdefault("ended_at", self.at)
            self._put(name, replace(pod, phase=phase, **columns))

    def lose(self, name: str) -> None:
        """A node disappears, and what ran there without a word."""
        del self.nodes[name]
        self.serial += 1
        self.nodes_changed[name] = self.serial
        self._ring()
        self.pods = {n: p for n, p in self.pods.items() if p.node != name}

    def change(self, name: str, **columns: Any) -> None:
        self.nodes[name] = replace(self.nodes[name], **columns)
        self.serial += 1
        self.nodes_changed[name] = self.serial
        self._ring()

    def forget(self, workload: Workload) -> None:
        """Its pods vanish without a trace."""
        self.pods = {n: p for n, p in self.pods.items() if p.workload != str(workload.pk)}

    def _put(self, name: str, pod: PodSeen) -> None:
        self.serial += 1
        self.pods[name] = pod
        self.log.append((self.serial, name))
        self._ring()

    def _ring(self) -> None:
        for tell in self.listeners:
            tell()

    def _answer(self) -> None:
        if not self.answers:
            raise ClusterUnreachable("no route to host")


class NoMetrics:
    def gpus(self) -> tuple[Any, ...]:
        return ()

    def training(self, workloads: Sequence[str]) -> tuple[Any, ...]:
        return ()

    def workers(self, workloads: Sequence[str]) -> tuple[Any, ...]:
        return ()

    def nodes(self) -> tuple[Any, ...]:
        return ()

    def checkpoints(self, workloads: Sequence[str]) -> tuple[Any, ...]:
        return ()

    def services(self, workloads: Sequence[str]) -> tuple[Any, ...]:
        return ()

    def scrapes(self, workloads: Sequence[str]) -> dict[str, Any]:
        return {}

    def pods(self, workloads: Sequence[str]) -> tuple[Any, ...]:
        return ()

    def revisions(self, promises: Mapping[str, tuple[float, float]]) -> tuple[Any, ...]:
        return ()


@dataclass
class World:
    """A database with two teams, a cluster with two nodes, and the loops over both."""

    cluster: PodCluster = field(default_factory=PodCluster)
    metrics: Any = field(default_factory=NoMetrics)
    wiring: Wiring = field(init=False)
    submitted: int = 0

    def __post_init__(self) -> None:
        self.wiring = Wiring(self.cluster, self.metrics, "test")
        for name in ("red", "blue"):
            Team.objects.create(name=name)
        PriorityClass.objects.create(name="normal", value=100, is_default=True)
        PriorityClass.objects.create(name="high", value=200)
        self.observe()

    def restart(self) -> None:
        """The process is killed and another takes over."""
        self.wiring = Wiring(self.cluster, self.metrics, "test")

    def lease(self, name: str = "schedule") -> HeldLease:
        held = self.wiring.kept.setdefault(f"lease:{name}", Lease(name, "test")).hold()
        assert held is not None
        return held

    def later(self, seconds: float = 1.0) -> None:
        self.cluster.at += seconds

    def observe(self, **changes: Any) -> None:
        self.later()
        report = observe.run_once(self.wiring)
        assert not report.skipped, report

    def observe_all(self) -> None:
        """As `observe`, but by a full observation."""
        clusters.forget_cursor()
        self.observe()

    def actuate(self) -> None:
        report = actuate.run_once(self.wiring)
        assert not report.skipped, report

    def account(self) -> None:
        report = account.run_once(self.wiring)
        assert not report.skipped, report

    def decide(self, *made: Any) -> Committed:
        cycle = CycleInput("schedule", at=self.cluster.at, policy=policy.current()[1])
        return decisions.commit(made, lease=self.lease(), cycle=cycle)

    # --- steps ---------------------------------------------------------------

    def submit(self, name: str, **asked: Any) -> Workload:
        """Submit a job file; its uid follows from its name."""
        uid = uuid.uuid5(uuid.NAMESPACE_OID, f"{name}/{self.submitted}")
        self.submitted += 1
        (made,) = submission.submit_all([Submission(job(name, **asked), actor="alice", at=self.cluster.at, uid=uid)])
        return made

    def place(self, workload: Workload, *nodes: str, after: Sequence[Workload] = (), first: int | None = None) -> None:
        workload.refresh_from_db()
        start = workload.next_rank if first is None else first
        start = start if workload.phase in ("Running", "Scaling", "Degraded", "Starting") else 0
        workers = tuple(
            Assignment(start + i, n, tuple(range(workload.gpus)) if workload.gpus else (0,))
            for i, n in enumerate(nodes)
        )
        made = self.decide(Place(str(workload.pk), workload.version, workers, tuple(str(other.pk) for other in after)))
        assert not made.stale, made

    def evict(self, workload: Workload, by: Workload) -> None:
        workload.refresh_from_db()
        made = self.decide(Evict(str(workload.pk), workload.version, EvictReason.PREEMPTED, str(by.pk)))
        assert not made.stale, made

    def run(self, workload: Workload, *nodes: str) -> None:
        """Place, start and see running."""
        self.place(workload, *nodes)
        self.actuate()
        self.cluster.set(workload, PodPhase.RUNNING)
        self.observe()
        workload.refresh_from_db()
        assert workload.phase == "Running", workload.phase

    def pods(self, workload: Workload, phase: PodPhase, *ranks: int, **columns: Any) -> None:
        """The cluster does something with its pods, and it is observed."""
        self.later()
        self.cluster.set(workload, phase, *ranks, **columns)
        self.observe()


def job(name: str, team: str = "red", kind: str = "training", **asked: Any) -> Spec:
    """A parsed job file; `gpus`, `workers` (a number) and any field of a job file."""
    document: dict[str, Any] = {"type": kind, "name": name, "team": team, "image": "registry.example/app:1"}
    resources = asked.pop("resources", {"gpus": asked.pop("gpus", 1), "cpu": 1, "memory": "1Gi"})
    if isinstance(asked.get("workers"), int):
        asked["workers"] = {"count": asked["workers"]}
    if kind == "inference":
        document |= {"port": 8000, "objective": {"p95_latency": "200ms", "availability": 99.9, "window": "28d"}}
    if kind == "notebook":
        del document["image"]
    return parse({**document, "resources": resources, **asked}, allow_simulated=True)


def phase(workload: Workload) -> str:
    return str(Workload.objects.values_list("phase", flat=True).get(pk=workload.pk))


def story(workload: Workload) -> list[str]:
    """The kinds of its events, in order."""
    return list(Event.objects.filter(workload=workload.pk).order_by("id").values_list("kind", flat=True))


def open_actions(workload: Workload) -> list[str]:
    rows = Action.objects.filter(workload=workload.pk, done_at__isnull=True).order_by("id")
    return list(rows.values_list("verb", flat=True))


def seen_by_scheduler(workload: Workload) -> Any:
    return snapshot.full().workloads.get(str(workload.pk))


def held(workload: Workload) -> int:
    """How many places it holds or is promised."""
    return Placement.objects.filter(workload=workload).exclude(state="Released").count()
