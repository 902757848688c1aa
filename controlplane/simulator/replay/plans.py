"""Trainings on the one replay engine where a plan, as of `autoscaler.planner`, says which of them has which GPUs.

The engine keeps time, and the life cycle is production's: what is to run elsewhere is evicted, leaves and is queued,
and is placed again; nothing holds a GPU that another one holds. How fast work runs on what it has is its owner's.
"""

from collections.abc import Callable, Mapping, Sequence

from controlplane.simulator.replay.engine import Replay
from gpushare.gpu import WHOLE
from scheduler.model.decision import Decision, Evict, EvictReason, Place
from scheduler.model.snapshot import Node, Snapshot
from scheduler.model.team import Quota, Team
from scheduler.model.workload import Assignment, Gang, Kind, ResourceRequest, Workload

Places = Sequence[tuple[str, int]]  # nodes, and how many GPUs of each

TEAM, POOL, MODEL = "lab", "gpus", "GPU"
MEMORY = 16 * 1024  # MiB of a GPU; nothing here asks for so much
ASK = ResourceRequest(gpus=1)  # of a worker: one GPU


class Plans:
    """A cluster of these nodes (name: GPUs), one team's. given: told of each workload whose GPUs changed."""

    def __init__(self, nodes: Mapping[str, int], given: Callable[[str], None]) -> None:
        self._nodes, self._given = dict(nodes), given
        self._leaves: list[str] = []
        self._starts: Mapping[str, Places] = {}
        found = [Node(name, POOL, MODEL, gpus, MEMORY, 0, 0) for name, gpus in nodes.items()]
        quota = Quota(TEAM, POOL, sum(nodes.values()) * WHOLE)
        self.replay = Replay(Snapshot.build(0.0, found, (Team(TEAM),), (quota,), ()), self._decide, self)

    def submit(self, uid: str) -> None:
        """A training comes, which runs with any number of workers."""
        at, seq = self.replay.at, len(self.replay.memory.records)
        gang = Gang(1, 1, sum(self._nodes.values()))
        self.replay.submit(Workload(uid, uid, TEAM, Kind.TRAINING, ASK, gang, seq=seq, submitted_at=at, queued_at=at))

    def follow(self, changes: Mapping[str, Places]) -> None:
        """Have each of these run there from now on, with a start; nowhere: it waits. All others stay as they are.

        What there is not enough of, the later ones go without.
        """
        self._leaves = [uid for uid in changes if self.held(uid)]
        self._starts = {uid: places for uid, places in changes.items() if places}
        if self._leaves:
            self.replay.round()
        if self._starts:
            self.replay.round()

    def end(self, uid: str) -> None:
        """It has done its work."""
        self.replay.end(uid)

    def held(self, uid: str) -> dict[str, int]:
        """Its GPUs by node."""
        workload = self.replay.get(uid)
        found: dict[str, int] = {}
        for worker in workload.placement if workload is not None else ():
            found[worker.node] = found.get(worker.node, 0) + len(worker.gpus)
        return found

    # --- what the cluster does at once (engine.Timing) ------------------------------------------

    def start(self, workload: Workload) -> None:
        """Its workers run."""
        self.replay.run(workload.id)
        self._given(workload.id)

    def stop(self, workload: Workload) -> None:
        """Its workers are gone."""
        self.replay.leave(workload.id)
        self._given(workload.id)

    # --- rounds -----------------------------------------------------------------------------------

    def _decide(self, seen: Snapshot) -> list[Decision]:
        if self._leaves:
            leaves, self._leaves = self._leaves, []
            return [self._evict(seen.workloads[uid]) for uid in leaves]
        free = {name: set(range(gpus)) for name, gpus in self._nodes.items()}
        for workload in seen.workloads.values():
            for worker in workload.placement:
                free[worker.node] -= set(worker.gpus)
        found: list[Decision] = []
        for uid, places in self._starts.items():
            devices = [(node, gpu) for node, gpus in places for gpu in sorted(free[node])[:gpus]]
            if len(devices) == sum(gpus for _, gpus in places):
                for node, gpu in devices:
                    free[node].discard(gpu)
                workers = tuple(Assignment(rank, node, (gpu,)) for rank, (node, gpu) in enumerate(devices))
                found.append(Place(uid, seen.workloads[uid].version, workers))
        return found

    def _evict(self, workload: Workload) -> Evict:
        reason = EvictReason.REALLOCATED if workload.id in self._starts else EvictReason.PREEMPTED
        return Evict(workload.id, workload.version, reason, "")
