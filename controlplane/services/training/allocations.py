"""Rows as the core of reallocation sees them: what a training has, and what of it may be changed within its budgets."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from autoscaler.bottleneck.window import Bottleneck
from autoscaler.reallocate.budgets import Budget, Level, Resources
from autoscaler.reallocate.candidates import Freedom, Room, Slow
from autoscaler.reallocate.choice import Training
from autoscaler.throughput.allocation import Allocation
from autoscaler.throughput.goodput import Gradients
from controlplane.jobspec import batch
from controlplane.jobspec.podsets import ask_of, role_ask
from controlplane.lifecycle import resizing
from controlplane.lifecycle.state import BOUND
from controlplane.models import Node, Placement, PlacementState, Quota, Workload, bulk, restarts
from gpushare.gpu import WHOLE
from scheduler.model.sharing import holds_parameters
from scheduler.model.workload import Phase

CORE = 1000  # 1/1000 cores
LEAST_REMAINING = 0.1  # of how long it ran: a training that runs longer than expected may run on
Cores = int | str


@dataclass(frozen=True, slots=True)
class Place:
    """One worker: its node and how many whole GPUs it has there; 0: a share."""

    rank: int
    node: str
    gpus: int


def places(workloads: Collection[UUID]) -> Mapping[UUID, Sequence[Place]]:
    """The running members of each, by rank. One query."""
    found: dict[UUID, list[Place]] = {}
    asked = {"workload_id__among": sorted(workloads), "state": BOUND, "pod_phase": Phase.RUNNING.value}
    columns = ("workload_id", "rank", "node", "gpus", "milli")
    for uid, rank, node, gpus, milli in bulk.select(Placement, columns, asked, order=("workload_id", "rank")):
        found.setdefault(uid, []).append(Place(rank, node, len(gpus) if milli >= WHOLE * len(gpus) else 0))
    return found


def of(workload: Workload, members: Iterable[Place], known: Collection[str] = ()) -> Allocation | None:
    """What its workers are to have; None where that is no whole GPUs, alike for each. A batch that its job file does
    not name counts as one example.

    known: nodes that it was moved off, or is to be: those count that it is on no more.
    """
    roles = sum(count for _, count, _ in workload.roles)
    workers = [place for place in members if place.rank >= roles]
    if not workers or any(place.gpus != workers[0].gpus or not place.gpus for place in workers):
        return None
    on: dict[str, int] = {}
    for place in workers:
        on[place.node] = on.get(place.node, 0) + place.gpus
    gpus, off = list(on.values()), tuple(sorted({*known} - on.keys()))
    count, servers = sum(workload.goes_to or ()) or len(workers), roles
    if workload.goes_to:
        servers = sum(workload.role_counts or ()) or roles
        gpus, off = [count * workers[0].gpus for count in workload.goes_to], tuple(sorted(workload.off or ()))
    ask = role_ask(workload.roles, 0) if roles else None
    milli, _ = resizing.wanted(workload)
    examples = workload.batch_wanted if workload.goes_to and workload.batch_wanted else workload.batch
    found = Allocation(
        gpus=tuple(sorted(gpus, reverse=True)),
        workers=count,
        batch=1,
        cpu=milli / CORE,
        servers=servers,
        server_cpu=0.0 if ask is None else ask.cpu_milli / CORE,
        off=off,
    )
    return found if examples is None else found.examples_of(examples)


def examples_of(workload: Workload, allocation: Allocation) -> int:
    """Of all workers in a step with this allocation: as its job file says where that comes to the same."""
    named = batch.stored(workload.spec)
    is_as_named = named is not None and allocation.examples_of(named.size) == allocation
    return named.size if named and is_as_named else allocation.examples


def batches(workload: Workload, now: Allocation) -> tuple[int, int] | None:
    """With how many examples of one GPU its job file lets it run; None: as it is."""
    named = batch.stored(workload.spec)
    if named is None or named.min == named.max or workload.batch is None:
        return None
    return max(1, -(-named.min // now.total)), max(1, named.max // now.total)


def server_counts(workload: Workload, now: Allocation) -> tuple[int, int] | None:
    """With how many parameter servers it may run, where these are its one role and have no GPUs; None: as it is.

    More of them than workers have nothing more to share.
    """
    if len(workload.roles) != 1:
        return None
    name, _, ask = workload.roles[0]
    return (1, max(now.workers, now.servers)) if holds_parameters(name, ask_of(ask).milli) else None


def may_move(workload: Workload) -> bool:
    """Whether it may be started again elsewhere to run faster: it saves its work, and nothing else owns its pods."""
    saves = workload.checkpoint_interval is not None and workload.preemptible
    return saves and not workload.managed_by and not workload.finishing


def cores(cpu: float) -> Cores:
    """As a job file says it."""
    milli = round(cpu * CORE)
    return milli // CORE if milli % CORE == 0 else f"{milli}m"


@dataclass(frozen=True, slots=True)
class Offer:
    """What may be changed of a training: by_loop by itself, anywhere by its people."""

    by_loop: Training
    anywhere: Training


@dataclass(frozen=True, slots=True)
class Found:
    """What a diagnosis named. slow: the node on which a worker is slow, and the part of a step that would go.

    is_hypothesis: from levels alone, to be probed in place before anything restarts. noise: of its gradients, if its
    program tells it: without that it is not known what a larger batch is worth.
    """

    bottleneck: Bottleneck | None
    slow: tuple[str, float] | None = None
    is_hypothesis: bool = False
    noise: Gradients | None = None


def offer(workload: Workload, now: Allocation, members: Iterable[Place], at: float, found: Found) -> Offer:
    """By the loop the CPU of its workers, in place, up to their GPUs' part of their nodes' CPUs, and if it saves its
    work the nodes of its pool that its GPUs are on, the number of its parameter servers and, where its job file leaves
    that free and it tells the noise of its gradients, its batch; by its people in any case.

    Budgets are dominant shares of its node pool: its own is the part of the GPUs that it has; its team's the part that
    the team owns by its quota, with all that runs of the team; the cluster's is all. Six queries.
    """
    mine = {place.node: 0 for place in members}
    for place in members:
        mine[place.node] += place.gpus
    pool = Node.objects.filter(name__in=list(mine)[:1]).values_list("pool_id", flat=True).first()
    columns = ("name", "gpu_count", "cpu_milli", "lost_gpus", "ready", "schedulable")
    rows = bulk.select(Node, columns, {"pool_id": pool})
    nodes = {name: (gpus, milli / CORE) for name, gpus, milli, *_ in rows}
    capacity = Resources(sum(gpus for gpus, _ in nodes.values()), sum(cpu for _, cpu in nodes.values()))
    others = [row for row in held(nodes) if row.workload != workload.pk]
    taken = dict.fromkeys(nodes, 0.0)
    for row in others:
        taken[row.node] += row.cores
    devices = not_idle({name: lost for name, _, _, lost, *_ in rows}, others)
    rooms = tuple(Room(gpus, nodes[name][1] - taken[name]) for name, gpus in mine.items() if name in nodes)
    everywhere = {
        name: Room(nodes[name][0] - len(devices[name]), nodes[name][1] - taken[name])
        for name, *_, ready, schedulable in rows
        if name in mine or (ready and schedulable)
    }
    slow = found.slow and Slow(*found.slow, tuple(room for name, room in everywhere.items() if name != found.slow[0]))
    each = [nodes[name][1] / nodes[name][0] for name in mine if name in nodes and nodes[name][0]]
    nominal = Quota.objects.filter(team=workload.team_id, pool_id=pool).values_list("nominal", flat=True).first() or 0
    most_cpu = now.of_worker * min(each, default=0.0)
    is_theirs = found.bottleneck is Bottleneck.PARAMETER_SERVER  # a restart for them is worth it where they are named
    counts = server_counts(workload, now) if is_theirs else None
    can_move = may_move(workload)
    noise = found.noise if workload.batch is not None and not found.is_hypothesis else None
    free = None if noise is None else batches(workload, now)
    freedom = Freedom(
        can_move, most_cpu, slow, rooms, counts if can_move else None, _fewer(workload, now),
        free if can_move else None, workload.batch,
    )  # fmt: skip
    by_loop = Training(
        freedom=freedom,
        rooms=tuple(everywhere.values()),
        budgets=(
            Budget(Level.TRAINING, capacity, _part(now.total, capacity.gpus)),
            Budget(Level.TEAM, capacity, _part(nominal / WHOLE, capacity.gpus), _sum(others, workload.team_id)),
            Budget(Level.CLUSTER, capacity, 1.0, _sum(others)),
        ),
        remaining=remaining(workload, at),
        restart=restarts.known(workload).seconds,
        noise=noise,
        bottleneck=found.bottleneck,
        cpu_in_place=True,
        is_probe=found.is_hypothesis,
    )  # fmt: skip
    return Offer(by_loop, replace(by_loop, freedom=replace(freedom, can_move=True, servers=counts, batch=free)))


def _fewer(workload: Workload, now: Allocation) -> tuple[int, int] | None:
    """With how many workers an elastic training may run: not with more, as it grows by itself where there is room.

    None where it has a fixed number, or the plan of its team's trainings says how many it has (planning.py).
    """
    is_elastic = workload.workers_min < max(workload.workers, workload.workers_max)
    is_free = is_elastic and not workload.managed_by and workload.workers_planned is None
    return (workload.workers_min, now.workers) if is_free else None


def remaining(workload: Workload, at: float) -> float:
    """For how many s it is expected to run on: by its progress, else by what it asked for, else as long as it ran."""
    ran = max(at - (workload.started_at if workload.started_at is not None else at), 0.0)
    if workload.progress:
        return ran * (1 - workload.progress) / workload.progress
    if workload.expected_seconds is not None:
        return max(workload.expected_seconds - ran, LEAST_REMAINING * ran)
    return ran


@dataclass(frozen=True, slots=True)
class Held:
    """What one member of a workload takes on its node. gpus: whole ones, a share as its part; cores: CPU."""

    workload: UUID
    team: int
    node: str
    devices: tuple[int, ...]
    gpus: float
    cores: float


def held(nodes: Collection[str]) -> list[Held]:
    """What is taken on these nodes: also by what is starting or leaving. One query."""
    taken = Placement.objects.filter(node__among=sorted(nodes)).exclude(state=PlacementState.RELEASED)
    of_workload = ("workload__team_id", "workload__cpu_milli", "workload__roles")
    columns = ("workload_id", "node", "gpus", "milli", "rank", *of_workload)
    found = []
    for uid, node, gpus, milli, rank, team, cpu_milli, roles in taken.values_list(*columns):
        ask = role_ask(roles, rank) if roles else None
        cpu = cpu_milli if ask is None else ask.cpu_milli
        found.append(Held(uid, team, node, tuple(gpus), milli / WHOLE if gpus else 0.0, cpu / CORE))
    return found


def not_idle(lost: Mapping[str, Iterable[int]], taken: Iterable[Held]) -> dict[str, set[int]]:
    """The devices of each node that are lost, or on which anything is."""
    found = {node: set(devices) for node, devices in lost.items()}
    for row in taken:
        found[row.node] |= set(row.devices)
    return found


def _sum(rows: Iterable[Held], team: int | None = None) -> Resources:
    mine = [row for row in rows if team in (None, row.team)]
    return Resources(sum(row.gpus for row in mine), sum(row.cores for row in mine))


def _part(gpus: float, of: float) -> float:
    return gpus / of if of else 0.0
