"""What slows each running training: looked at once a minute of the cluster's clock, and kept with its evidence.

A look counts one window (autoscaler/bottleneck): the parts of a step that its workers report, over the last minute, and
how busy their CPUs and GPUs and their nodes' disks and lines were. Of a training whose program reports nothing only the
latter, and only where its team has changes tried (`silent`): they are hypotheses. Another attempt begins anew: it may
lie elsewhere. docs/diagnosis.md.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from django.db import transaction

from autoscaler.bottleneck.advice import told
from autoscaler.bottleneck.detect import Diagnosis, observe
from autoscaler.bottleneck.window import Bottleneck, Levels, Window, Worker
from autoscaler.throughput import goodput
from autoscaler.throughput.goodput import Gradients
from controlplane.cluster.port import NodeUse, PodUse, TrainingUse, WorkerUse
from controlplane.domain import diagnosisstate
from controlplane.jobspec.podsets import role_ask
from controlplane.models import Reallocation, TrainingDiagnosis, Workload, bulk
from controlplane.services.audit import events
from controlplane.services.audit.events import Entry
from controlplane.services.scheduling.leases import HeldLease
from controlplane.services.workloads.samples import Seat
from scheduler.model.workload import Kind, Phase

Use = TypeVar("Use", PodUse, WorkerUse)
ACTOR = "loop:account"
_RUNNING = {"phase": Phase.RUNNING, "kind": Kind.TRAINING}
_COLUMNS = ("uid", "attempt", "team__name", "name", "cpu_milli", "roles")
_KEPT = ("workload", "attempt", "at", "since", "bottleneck", "state")


@dataclass(frozen=True, slots=True)
class Watched:
    """A running training. cpu_milli: each worker's; nodes: those that its members are on; seats: how many run."""

    uid: UUID
    attempt: int
    team: str
    name: str
    cpu_milli: int
    roles: Sequence[Any]
    nodes: tuple[str, ...]
    seats: int

    @property
    def workers(self) -> int:
        """Those of its running members that are in no role."""
        return self.seats - sum(int(count) for _, count, _ in self.roles)

    def asked(self, rank: int) -> tuple[int, bool]:
        """(1/1000 cores of this member, whether it is one of a role)."""
        ask = role_ask(self.roles, rank)
        return (self.cpu_milli, False) if ask is None else (ask.cpu_milli, True)


def watched(seats: Iterable[Seat]) -> tuple[Watched, ...]:
    """The trainings to look at, of those that have these running workers. One query."""
    nodes: dict[UUID, list[str]] = {}
    for seat in seats:
        nodes.setdefault(seat.workload, []).append(seat.node)
    rows = bulk.select(Workload, _COLUMNS, _RUNNING, order=("seq",))
    return tuple(
        Watched(uid, attempt, team, name, cpu_milli, roles, tuple(sorted(set(nodes[uid]))), len(nodes[uid]))
        for uid, attempt, team, name, cpu_milli, roles in rows
        if uid in nodes
    )


@dataclass(frozen=True, slots=True)
class Measured:
    """What metrics say of all that is watched, over the last minute."""

    trainings: Iterable[TrainingUse]
    workers: Iterable[WorkerUse] = ()
    pods: Iterable[PodUse] = ()
    nodes: Iterable[NodeUse] = ()


def window(
    training: Watched,
    use: TrainingUse,
    workers: Sequence[WorkerUse],
    pods: Iterable[PodUse],
    nodes: Mapping[str, NodeUse],
) -> Window | None:
    """What one minute shows of a training; None where its program says nothing of its steps.

    Its workers are compared only where each of them says how long its steps take; else they are one, by their mean.
    """
    if use.attempt != training.attempt or not use.step_seconds:
        return None
    levels = _levels(training, workers, pods, [nodes[name] for name in training.nodes if name in nodes])
    told = sorted((one for one in workers if not training.asked(one.rank)[1]), key=lambda one: one.rank)
    if len(told) != training.workers:
        return Window((_worker(use, use.step_seconds),), levels, len(training.nodes))
    members = tuple(_worker(one, one.step_seconds or use.step_seconds) for one in told)
    return Window(members, levels, len(training.nodes), tuple(one.rank for one in told))


def _of_levels(training: Watched, pods: Iterable[PodUse], nodes: Mapping[str, NodeUse]) -> Window:
    levels = _levels(training, (), pods, [nodes[name] for name in training.nodes if name in nodes])
    return Window((), levels, len(training.nodes))


def silent(found: Iterable[Watched], told: Collection[str]) -> frozenset[UUID]:
    """Those of which nothing tells the steps, of teams that have changes tried. A query if there are any."""
    rest = [one.uid for one in found if str(one.uid) not in told]
    if not rest:
        return frozenset()
    wanted = Workload.objects.filter(pk__among=rest, team__reallocation=Reallocation.AUTOMATIC)
    return frozenset(wanted.values_list("pk", flat=True))


def _worker(use: TrainingUse | WorkerUse, step: float) -> Worker:
    wait, sync = use.data_wait_ratio, use.sync_ratio
    return Worker(step, None if wait is None else wait * step, None if sync is None else sync * step)


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look found of one training. A window without workers: nothing reports its steps.

    gradients: the noise that its program tells, over the looks at this attempt.
    """

    training: Watched
    window: Window
    diagnosis: Diagnosis
    gradients: Gradients | None = None


def note(
    *,
    at: float,
    trainings: Sequence[Watched],
    measured: Measured,
    lease: HeldLease,
    silent: Collection[UUID] = (),
) -> list[Looked]:
    """Count one window of each that says something, and tell people where another bottleneck is named. LeaseLost.

    silent: those of which levels are worth a look where nothing reports their steps.
    """
    of_pods, of_workers = _by_attempt(measured.pods), _by_attempt(measured.workers)
    said = {use.workload: use for use in measured.trainings}
    nodes = {node.node: node for node in measured.nodes}
    seen: list[tuple[Watched, Window]] = []
    for one in trainings:
        use, key = said.get(str(one.uid)), (str(one.uid), one.attempt)
        found = None if use is None else window(one, use, of_workers.get(key, ()), of_pods.get(key, ()), nodes)
        if found is None and one.uid in silent:
            found = _of_levels(one, of_pods.get(key, ()), nodes)
        if found is not None:
            seen.append((one, found))
    if not seen:
        return []
    with transaction.atomic():
        lease.check()
        return _keep(at, seen, said)


def _by_attempt(uses: Iterable[Use]) -> dict[tuple[str, int], list[Use]]:
    found: dict[tuple[str, int], list[Use]] = {}
    for use in uses:
        found.setdefault((use.workload, use.attempt), []).append(use)
    return found


def _noise(use: TrainingUse | None) -> tuple[float | None, float | None]:
    """The noise of its gradients and the batch of all its workers, samples."""
    if use is None or not use.samples_per_second or not use.step_seconds:
        return None, None
    return use.gradient_noise, use.samples_per_second * use.step_seconds


def _keep(at: float, seen: Sequence[tuple[Watched, Window]], said: Mapping[str, TrainingUse]) -> list[Looked]:
    known: dict[UUID, tuple[Any, ...]] = {}
    for part in bulk.chunks(sorted(one.uid for one, _ in seen)):
        columns = ("workload", "attempt", "since", "bottleneck", "state")
        rows = bulk.select(TrainingDiagnosis, columns, {"workload__among": part})
        known |= {uid: rest for uid, *rest in rows}
    added: list[tuple[Any, ...]] = []
    changed: list[tuple[Any, ...]] = []
    entries: list[Entry] = []
    looked: list[Looked] = []
    for one, found in seen:
        attempt, since, named, state = known.get(one.uid, (0, at, "", {}))
        before = diagnosisstate.state_of(state) if attempt == one.attempt else Diagnosis()
        now = observe(before, found)
        name = "" if now.bottleneck is None else now.bottleneck.value
        is_same = name == named and attempt == one.attempt
        known_noise = diagnosisstate.gradients_of(state) if attempt == one.attempt else None
        gradients = goodput.seen(known_noise, *_noise(said.get(str(one.uid))))
        looked.append(Looked(one, found, now, gradients))
        row = (one.uid, one.attempt, at, since if is_same else at, name, diagnosisstate.plain(now, gradients))
        if one.uid in known:
            changed.append((*row[1:], one.uid))
        else:
            added.append((*row, {}))
        if now.slowed_by is not None and now.slowed_by is not before.slowed_by:
            entries.append(_entry(at, one, now, now.slowed_by))
    bulk.update(TrainingDiagnosis, _KEPT[1:], ("workload",), changed)
    bulk.insert(TrainingDiagnosis, (*_KEPT, "course"), added)
    events.write(entries)
    return looked


def _entry(at: float, one: Watched, now: Diagnosis, why: Bottleneck) -> Entry:
    data = {"removable": round(now.evidence[why].removable, 3)}
    who = one.team, one.uid, one.name
    return Entry(at, ACTOR, "Diagnosed", *who, Phase.RUNNING.value, why.value, told(now), data=data)


def _levels(
    training: Watched, workers: Sequence[WorkerUse], pods: Iterable[PodUse], nodes: Sequence[NodeUse]
) -> Levels:
    """The workers' CPUs together, the busiest server's, each worker's GPUs by rank, and the busiest disk and line.

    Its own waiting for IO stands beside its nodes' disks: a volume of the network is no disk of theirs.
    """
    used = limit = 0
    throttled: list[float] = []
    servers: list[float] = []
    duties: list[tuple[int, float]] = []
    for pod in pods:
        cpu_milli, is_server = training.asked(pod.rank)
        if is_server:
            if pod.cpu_milli is not None and cpu_milli:
                servers.append(min(pod.cpu_milli / cpu_milli, 1.0))
            continue
        if pod.cpu_milli is not None and cpu_milli:
            used, limit = used + pod.cpu_milli, limit + cpu_milli
        if pod.throttled_ratio is not None:
            throttled.append(pod.throttled_ratio)
        if pod.duty is not None:
            duties.append((pod.rank, pod.duty))
    return Levels(
        cpu=min(used / limit, 1.0) if limit else None,
        throttled=sum(throttled) / len(throttled) if throttled else None,
        server_cpu=max(servers, default=None),
        disk=max([*_known(one.disk_ratio for one in nodes), *_known(one.io_ratio for one in workers)], default=None),
        nic=max(_known(one.line_ratio for one in nodes), default=None),
        sm=tuple(duty for _, duty in sorted(duties)),
    )


def _known(values: Iterable[float | None]) -> list[float]:
    """Those that are."""
    return [value for value in values if value is not None]
