"""What slows each running training: looked at once a minute of the cluster's clock, and kept with its evidence.

A look counts one window (autoscaler/bottleneck): the parts of a step that its program reports, over the last minute,
and how busy its workers' CPUs and GPUs were. A training whose program reports nothing is not looked at. Another attempt
begins anew: it may lie elsewhere. docs/diagnosis.md.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from autoscaler.bottleneck.advice import told
from autoscaler.bottleneck.detect import Diagnosis, observe
from autoscaler.bottleneck.window import Bottleneck, Levels, Window, Worker
from controlplane.cluster.port import PodUse, TrainingUse
from controlplane.domain import diagnosisstate
from controlplane.jobspec.podsets import role_ask
from controlplane.models import TrainingDiagnosis, Workload, bulk
from controlplane.services.audit import events
from controlplane.services.audit.events import Entry
from controlplane.services.scheduling.leases import HeldLease
from controlplane.services.workloads.samples import Seat
from scheduler.model.workload import Kind, Phase

PERIOD = 60.0  # s of the cluster's clock between two looks: a rate of its program's counters is over so long
ACTOR = "loop:account"
_RUNNING = {"phase": Phase.RUNNING, "kind": Kind.TRAINING}
_COLUMNS = ("uid", "attempt", "team__name", "name", "cpu_milli", "roles")
_KEPT = ("workload", "attempt", "at", "since", "bottleneck", "state")


@dataclass(frozen=True, slots=True)
class Watched:
    """A running training. cpu_milli: each worker's; nodes: those that its workers are on."""

    uid: UUID
    attempt: int
    team: str
    name: str
    cpu_milli: int
    roles: Sequence[Any]
    nodes: int

    def asked(self, rank: int) -> tuple[int, bool]:
        """(1/1000 cores of this member, whether it is one of a role)."""
        ask = role_ask(self.roles, rank)
        return (self.cpu_milli, False) if ask is None else (ask.cpu_milli, True)


def watched(seats: Iterable[Seat]) -> tuple[Watched, ...]:
    """The trainings to look at, of those that have these running workers. One query."""
    nodes: dict[UUID, set[str]] = {}
    for seat in seats:
        nodes.setdefault(seat.workload, set()).add(seat.node)
    rows = bulk.select(Workload, _COLUMNS, _RUNNING, order=("seq",))
    return tuple(
        Watched(uid, attempt, team, name, cpu_milli, roles, len(nodes[uid]))
        for uid, attempt, team, name, cpu_milli, roles in rows
        if uid in nodes
    )


def window(training: Watched, use: TrainingUse, pods: Iterable[PodUse]) -> Window | None:
    """What one minute shows of a training; None where its program says nothing of its steps."""
    if use.attempt != training.attempt or not use.step_seconds:
        return None
    wait, sync = use.data_wait_ratio, use.sync_ratio
    step = use.step_seconds
    worker = Worker(step, None if wait is None else wait * step, None if sync is None else sync * step)
    return Window((worker,), _levels(training, pods), training.nodes)


def note(
    *,
    at: float,
    trainings: Sequence[Watched],
    uses: Iterable[TrainingUse],
    pods: Iterable[PodUse],
    lease: HeldLease,
) -> int:
    """Count one window of each, and tell people where another bottleneck is named; tells of how many. LeaseLost."""
    of_pods: dict[tuple[str, int], list[PodUse]] = {}
    for pod in pods:
        of_pods.setdefault((pod.workload, pod.attempt), []).append(pod)
    said = {use.workload: use for use in uses}
    seen: list[tuple[Watched, Window]] = []
    for one in trainings:
        use = said.get(str(one.uid))
        found = None if use is None else window(one, use, of_pods.get((str(one.uid), one.attempt), ()))
        if found is not None:
            seen.append((one, found))
    if seen:
        with transaction.atomic():
            lease.check()
            _keep(at, seen)
    return len(seen)


def _keep(at: float, seen: Sequence[tuple[Watched, Window]]) -> None:
    known: dict[UUID, tuple[Any, ...]] = {}
    for part in bulk.chunks(sorted(one.uid for one, _ in seen)):
        columns = ("workload", "attempt", "since", "bottleneck", "state")
        rows = bulk.select(TrainingDiagnosis, columns, {"workload__among": part})
        known |= {uid: rest for uid, *rest in rows}
    added: list[tuple[Any, ...]] = []
    changed: list[tuple[Any, ...]] = []
    entries: list[Entry] = []
    for one, found in seen:
        attempt, since, named, state = known.get(one.uid, (0, at, "", {}))
        before = diagnosisstate.state_of(state) if attempt == one.attempt else Diagnosis()
        now = observe(before, found)
        name = "" if now.bottleneck is None else now.bottleneck.value
        is_same = name == named and attempt == one.attempt
        row = (one.uid, one.attempt, at, since if is_same else at, name, diagnosisstate.plain(now))
        if one.uid in known:
            changed.append((*row[1:], one.uid))
        else:
            added.append(row)
        if now.slowed_by is not None and now.slowed_by is not before.slowed_by:
            entries.append(_entry(at, one, now, now.slowed_by))
    bulk.update(TrainingDiagnosis, _KEPT[1:], ("workload",), changed)
    bulk.insert(TrainingDiagnosis, _KEPT, added)
    events.write(entries)


def _entry(at: float, one: Watched, now: Diagnosis, why: Bottleneck) -> Entry:
    data = {"removable": round(now.evidence[why].removable, 3)}
    who = one.team, one.uid, one.name
    return Entry(at, ACTOR, "Diagnosed", *who, Phase.RUNNING.value, why.value, told(now), data=data)


def _levels(training: Watched, pods: Iterable[PodUse]) -> Levels:
    """The workers' CPUs together, the busiest server's, and each worker's GPUs, by rank."""
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
        sm=tuple(duty for _, duty in sorted(duties)),
    )
