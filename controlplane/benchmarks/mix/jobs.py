"""The mix as workloads of the scheduler: the cluster, what is submitted, and what must always hold of it."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from controlplane.benchmarks.mix.draws import Training, World
from controlplane.benchmarks.mix.ondemand import Timeline, timeline
from controlplane.benchmarks.mix.policies import NEAR, WITHIN, Policy, asked_workers, min_replicas
from controlplane.benchmarks.mix.speeds import ParameterServer
from gpushare.gpu import WHOLE, Share
from scheduler.model.demand import Demand, as_counted
from scheduler.model.snapshot import Node, Snapshot
from scheduler.model.team import Quota, Team
from scheduler.model.workload import ACTIVE, LEAVING, Assignment, Gang, Kind, Phase, ResourceRequest, Topology, Workload
from scheduler.placement.forecast import ENOUGH, forecast, next_count

TEAM, POOL, SERVICE = "lab", "t4", "service"
NODES, NODE_GPUS = 4, 4
CORE, GIB = 1000, 1024
T4_MEMORY = 15 * GIB
# Of each pod; with a GPU that a service lends, the training's memory has to fit beside the model.
ASK_TRAINING = ResourceRequest(gpus=1, gpu_memory=8 * GIB, cpu_milli=4 * CORE, memory=16 * GIB)
ASK_REPLICA = ResourceRequest(gpus=1, gpu_memory=4 * GIB, cpu_milli=4 * CORE, memory=16 * GIB)
ASK_NOTEBOOK = 3 * GIB  # of a GPU, where it asks for a share; two, and a training's worker, fit on one
NOTEBOOK_CORES, NOTEBOOK_MEMORY = 4 * CORE, 16 * GIB
PRIORITY = {Kind.TRAINING: 100, Kind.NOTEBOOK: 200, Kind.INFERENCE: 300}  # the standard classes
LONGEST_CELLS = 60_000.0  # s over which cells are drawn
FIRST = 100  # the trainings' place in the order of submission, behind all that runs from the beginning


def cluster(times: int = 1) -> tuple[tuple[Node, ...], tuple[Team, ...], tuple[Quota, ...]]:
    """4 nodes with 4 T4 each, or so many times as many; one team that owns all."""
    nodes = tuple(
        Node(f"n{number}", POOL, "T4", NODE_GPUS, T4_MEMORY, 64 * CORE, 256 * GIB, nvlink=0)
        for number in range(NODES * times)
    )
    return nodes, (Team(TEAM),), (Quota(TEAM, POOL, len(nodes) * NODE_GPUS * WHOLE),)


def at_first(world: World, policy: Policy) -> Iterator[Workload]:
    """What runs from the beginning: the notebooks, then the service if there is one."""
    for number in range(world.notebooks):
        yield _notebook(number, policy, NODES * world.times)
    replicas = world.replicas
    if not replicas:
        return
    scales = policy.law or policy.hpa
    most = policy.most * world.times if scales else replicas
    standby = policy.standby * world.times
    with_standby = min(most, replicas + standby)
    yield Workload(
        SERVICE, SERVICE, TEAM, Kind.INFERENCE, ASK_REPLICA,
        Gang(with_standby, min_replicas(policy, replicas), most),
        priority=PRIORITY[Kind.INFERENCE], preemptible=False, seq=world.notebooks,
        awake=replicas if standby else None, standby=standby,
    )  # fmt: skip


def _notebook(number: int, policy: Policy, nodes: int) -> Workload:
    share = Share(policy.share, WHOLE, ASK_NOTEBOOK) if policy.share else None
    ask = ResourceRequest(0 if share else 1, share, 0, NOTEBOOK_CORES, NOTEBOOK_MEMORY)
    name = f"notebook-{number}"
    placement: tuple[Assignment, ...] = ()
    if policy.is_pooled:
        each = WHOLE // policy.share
        device = number // each
        placement = (Assignment(0, f"n{nodes - 1 - device // NODE_GPUS}", (device % NODE_GPUS,)),)
    return Workload(
        name, name, TEAM, Kind.NOTEBOOK, ask, Gang(), priority=PRIORITY[Kind.NOTEBOOK], preemptible=False,
        phase=Phase.ADMITTED if placement else Phase.QUEUED, attempt=1 if placement else 0, seq=number,
        placement=placement, next_rank=len(placement),
    )  # fmt: skip


def training(one: Training, number: int, policy: Policy) -> Workload:
    """As its user submits it: with what is expected of its length, not what it will take."""
    workers = (policy.is_elastic and one.elastic) or one.workers
    count, least, most = asked_workers(policy, workers, isinstance(one.speed, ParameterServer))
    return Workload(
        one.name, one.name, TEAM, Kind.TRAINING, ASK_TRAINING, Gang(count, least, most), topology_of(one, policy),
        priority=PRIORITY[Kind.TRAINING], seq=FIRST + number, submitted_at=one.at, queued_at=one.at,
        expected_seconds=one.expected, checkpoint_interval=600.0, asynchronous=isinstance(one.speed, ParameterServer),
    )  # fmt: skip


def topology_of(one: Training, policy: Policy) -> Topology:
    """Where its workers are to be. by its curve: within one node, if a third worker elsewhere would make it slower."""
    if not policy.by_curve:
        return policy.topology
    return WITHIN if one.estimate[2, 3] < one.estimate[1, 2] else NEAR


def could_grow(w: Workload) -> bool:
    """Whether time alone may bring it more workers."""
    return w.kind is Kind.TRAINING and w.phase in ACTIVE and len(w.placement) < max(w.gang.max, w.gang.count)


def notebook_places(snapshot: Snapshot) -> dict[str, tuple[str, int]]:
    """Where each notebook is."""
    return {
        uid: (w.placement[0].node, w.placement[0].gpus[0])
        for uid, w in snapshot.workloads.items()
        if w.kind is Kind.NOTEBOOK and w.placement
    }


def cells_on_demand(snapshot: Snapshot, world: World, policy: Policy) -> Timeline:
    """What the cells do where a GPU is theirs on demand."""
    left = T4_MEMORY - (ASK_TRAINING.gpu_memory if policy.harvest else 0)
    return timeline(notebook_places(snapshot), world.seed, LONGEST_CELLS, ASK_NOTEBOOK, left, harvested=policy.harvest)


def check(snapshot: Snapshot) -> None:
    """That no GPU is held twice. Raises AssertionError."""
    held: Counter[tuple[str, int]] = Counter()
    lent: Counter[tuple[str, int]] = Counter()
    asleep: set[tuple[str, int]] = set()
    for workload in snapshot.workloads.values():
        if workload.phase not in ACTIVE | LEAVING:
            continue
        for a in workload.placement:
            for gpu in a.gpus if not a.reserved else ():
                (lent if a.lender else held)[a.node, gpu] += (
                    workload.ask.share.guarantee if workload.ask.share else WHOLE
                )
                asleep |= {(a.node, gpu)} if a.asleep_at is not None else set()
    over = {place: milli for place, milli in held.items() if milli > WHOLE}
    over |= {place: milli for place, milli in lent.items() if milli > WHOLE}
    if over:
        raise AssertionError(f"held twice at {snapshot.at:.0f} s: {over}")


@dataclass
class Demands:
    """What was asked for until now, as the scheduler is told it: see controlplane/queries/scheduling/demand.py."""

    asked: Counter[ResourceRequest] = field(default_factory=Counter)
    came: int = 0
    count_at: int = ENOUGH

    def count(self, workload: Workload, snapshot: Snapshot) -> Demand | None:
        """One more; the new demand where it is worth counting again."""
        self.asked[as_counted(workload.ask)] += max(1, workload.gang.count)
        self.came += 1
        if self.came < self.count_at:
            return None
        self.count_at = next_count(self.came)
        return forecast(self.asked, snapshot)
