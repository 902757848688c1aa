"""What decides in the mix: Weft with production's settings, and what it is compared with.

All play in one engine on the same draws, and none is told a training's true speed or length. What is submitted differs
as it does in real clusters: where nothing shares a GPU a notebook asks for a whole one, and where nothing is elastic a
training has exactly the workers that it asks for.

- `native`: kube-scheduler as it comes; `native, one worker`: trainings ask for one worker, so that none waits for the
  rest of its own; `native, partial`: one with a parameter server goes on with the workers it has.
- `gang`: with coscheduling. `binpack`: gangs whole, on the fewest nodes, services and notebooks where they fit best; a
  gang that does not fit is skipped. `hpa`: Kubernetes' autoscaler by requests a second, 1 to 6 replicas.
- `kueue-like`: the same with binpack, and a service of which a replica has no room preempts the newest training whole.
- `dragon`, `edragon`: 1 to 4 workers; edragon gives a service that waits the workers of trainings.
- `pool`: notebooks have half a GPU each, two on each of four GPUs of one node.
- `default+scaling(2)`, `(6)`: what the poster compares its service with: kube-scheduler as it comes, HPA up to 2 or 6
  replicas. Its Default+KubeShare is `native, pool`: four fixed replicas beside notebooks that share GPUs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from controlplane.benchmarks.mix import draws
from controlplane.benchmarks.mix.planned import Planned
from controlplane.benchmarks.slo import policies as scalers
from controlplane.benchmarks.slo.judge import Policy as Scaler
from controlplane.benchmarks.slo.traces import Floats, Trace
from scheduler.model.decision import Decision, Evict, EvictReason
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import ACTIVE, LEAVING, Kind, Level, Topology, Workload
from scheduler.policies import Decider

MOST_WORKERS = 4  # of an elastic training
MOST_REPLICAS = 6
HPA_TARGET, HPA_WINDOW = 0.8, 300.0  # of what one replica can do; s over which fewer must have been wanted
HALF = 500  # milli-GPU of a notebook where two share one GPU

Decide = Callable[[Snapshot], Sequence[Decision]]


@dataclass(frozen=True, slots=True)
class Policy:
    """name: of the policy of `scheduler.policies` that decides. topology: of trainings.

    share: milli-GPU of a notebook, 0: a whole GPU; is_pooled: they lie on the pool, wherever the policy would put them.
    law: the autoscaler's law says how many replicas there are, else the HPA's rule or nothing does. standby: replicas
    kept loaded beyond those that serve. by_curve: a training is to be within one node where what is told of its speed
    says that a third worker elsewhere would make it slower. one_worker: see `native, one worker`. is_partial: of one
    that is not elastic, it goes on with the workers it has; else it starts with no fewer than it asks for.
    is_planned: trainings have what the planner says (planned.py). most: replicas of a service that is scaled.
    on_demand: a cell has a GPU of its node on which no other runs (ondemand.py). harvest: trainings compute beside.
    moves: running trainings are moved to make room in one piece.
    """

    name: str
    is_elastic: bool = False
    topology: Topology = Topology()
    share: int = 0
    is_pooled: bool = False
    law: bool = False
    hpa: bool = False
    standby: int = 0
    preempts: bool = False
    one_worker: bool = False
    is_partial: bool = False
    is_planned: bool = False
    by_curve: bool = False
    most: int = MOST_REPLICAS
    on_demand: bool = False
    harvest: bool = False
    moves: bool = True

    def decider(self, world: draws.World) -> Decide:
        """A new one, which remembers its own rounds only."""
        settings, decides = Settings(policy=self.name, harvest=self.harvest), Decider()
        if not self.moves:
            settings = replace(settings, max_moves=0)
        if self.is_planned:
            return Planned({one.name: one for one in world.trainings}, settings)
        if self.preempts:
            return lambda seen: make_way(seen, decides(seen, settings))
        return lambda seen: decides(seen, settings)


def make_way(seen: Snapshot, decisions: Sequence[Decision]) -> Sequence[Decision]:
    """Kueue's preemption within a queue: for each replica without room the newest trainings leave, whole."""
    after = seen.after(decisions).workloads.values()
    lack = sum(w.missing for w in after if w.kind is Kind.INFERENCE and w.is_waiting)
    staying = (w for w in after if w.phase not in LEAVING)
    held = {(a.node, gpu) for w in staying for a in w.placement if not a.leaving for gpu in a.gpus}
    lack -= sum(node.gpus for node in seen.inventory.nodes) - len(held)
    moved = {decision.workload for decision in decisions}
    running = [w for w in after if w.kind is Kind.TRAINING and w.phase in ACTIVE and w.id not in moved]
    found: list[Decision] = [*decisions]
    service = next((w for w in after if w.kind is Kind.INFERENCE), None)
    for victim in sorted(running, key=lambda w: (w.priority, -(w.started_at or seen.at), -w.seq)):
        if lack <= 0 or service is None:
            break
        found.append(Evict(victim.id, victim.version, EvictReason.PREEMPTED, service.id))
        lack -= sum(len(a.gpus) for a in victim.placement)
    return found


def hpa(requests: Floats) -> Scaler:
    """HPA by requests, told what one replica can do; requests: s that each takes."""
    known = Trace("mix", requests, requests, draws.SLOTS, draws.OBJECTIVE, 0.0)
    return scalers.hpa_requests(HPA_TARGET, HPA_WINDOW)(known, 0.0)


def min_replicas(policy: Policy, replicas: int) -> int:
    """The fewest that its service has."""
    return 1 if policy.law or policy.hpa else replicas


def asked_workers(policy: Policy, workers: int, has_server: bool) -> tuple[int, int, int]:
    """The count, the least and the most workers of a training that would have so many; see `Policy`."""
    if policy.one_worker:
        return 1, 1, 1
    if policy.is_elastic:
        return workers, workers if policy.is_partial else 1, max(MOST_WORKERS, workers)
    return workers, 1 if policy.is_partial and has_server else workers, workers


NEAR = Topology(prefer=Level.NODE)
WITHIN = Topology(require=Level.NODE)
NATIVE = Policy("native-k8s")
GANG = Policy("k8s+gang")
BINPACK = Policy("best-fit", topology=NEAR)
HPA = replace(BINPACK, hpa=True)
OURS = Policy("weft", is_elastic=True, by_curve=True, share=HALF, law=True, standby=5)
ON_DEMAND = replace(OURS, on_demand=True, is_pooled=True)
HARVEST = replace(ON_DEMAND, harvest=True)

ALONE: Mapping[str, Policy] = {
    "native": NATIVE,
    "native, one worker": replace(NATIVE, one_worker=True),
    "native, partial": replace(NATIVE, is_partial=True),
    "gang": GANG,
    "binpack": BINPACK,
    "binpack, hpa": HPA,
    "kueue-like": replace(HPA, preempts=True),
    "dragon": Policy("dragon", is_elastic=True, by_curve=True),
    "edragon": Policy("edragon", is_elastic=True, by_curve=True, hpa=True),
}
POOLED: Mapping[str, Policy] = {
    f"{name}, pool": replace(policy, share=HALF, is_pooled=True) for name, policy in ALONE.items()
}
POSTER: Mapping[str, Policy] = {
    "default+scaling(2)": replace(NATIVE, hpa=True, most=2),
    "default+scaling(6)": replace(NATIVE, hpa=True),
}
# What ours consists of, one after the other.
PARTS: Mapping[str, Policy] = {
    "+gang": GANG,
    "+locality": Policy("weft", topology=NEAR),
    "+sharing": Policy("weft", topology=NEAR, share=HALF),
    "+elastic": Policy("weft", by_curve=True, share=HALF, is_elastic=True),
    "+service to need": Policy("weft", by_curve=True, share=HALF, is_elastic=True, law=True),
}
# The same, and ours, where no running training is moved.
NO_MOVES: Mapping[str, Policy] = {
    f"{name}, no moves": replace(policy, moves=False)
    for name, policy in (*PARTS.items(), ("ours", OURS))
    if policy.name == "weft"
}
POLICIES: Mapping[str, Policy] = {
    "ours": OURS,
    "ours, no shares": replace(OURS, share=0),
    "ours, from 2 workers": replace(OURS, is_partial=True),
    "ours, planner": replace(OURS, is_planned=True),
    "ours, on demand": ON_DEMAND,
    "ours, harvest": HARVEST,
    **ALONE,
    **POOLED,
    **POSTER,
    **PARTS,
    **NO_MOVES,
}


def is_fully_placed(workload: Workload) -> bool:
    """Whether it has all the workers without which it makes no progress."""
    return sum(not (a.leaving or a.reserved) for a in workload.placement) >= workload.gang.min
