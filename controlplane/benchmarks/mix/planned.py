"""Trainings placed by the planner (autoscaler/elasticity) instead of by the scheduler's elastic gangs.

All else is the scheduler's and the autoscaler's. A plan is made each minute, and when a training came or ended or a
service took a GPU back; in between it is followed as GPUs become free. Workers come and go in place where the plan
allows it, else the training saves itself, leaves, and starts again where it is to be.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from autoscaler.elasticity.configurations import configurations
from autoscaler.elasticity.inputs import read_jobs, read_nodes
from autoscaler.elasticity.memory import Memory
from autoscaler.elasticity.places import Place as Parts
from autoscaler.elasticity.plan import planned
from controlplane.benchmarks.mix.draws import Training
from scheduler.fit.gang import ranked
from scheduler.model.decision import Decision, Evict, EvictReason, Place, Shrink
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import ACTIVE, Assignment, Kind, Phase, Workload
from scheduler.policies import Decider

TICK = 60.0
LEND_AFTER = Settings().lend_after_seconds
Device = tuple[int, str]  # its index on the node, and the service that lends it
Free = dict[str, list[Device]]  # by node


class Planned:
    """A policy's memory from round to round. trainings: what their users tell of them, by id."""

    def __init__(self, trainings: Mapping[str, Training], settings: Settings) -> None:
        self.trainings, self.settings = trainings, settings
        self.decides = Decider()
        self.memory = Memory()
        self.target: dict[Hashable, Parts] = {}
        self.next_at, self.known, self.room = 0.0, frozenset[str](), dict[str, int]()

    def __call__(self, seen: Snapshot) -> Sequence[Decision]:
        """Decide a round."""
        jobs = {uid: w for uid, w in seen.workloads.items() if w.kind is Kind.TRAINING}
        if not jobs:
            return self.decides(seen, self.settings)
        devices = _devices(seen, jobs)
        room = {node: len(some) for node, some in devices.items()}
        if seen.at >= self.next_at or jobs.keys() != self.known or room != self.room:
            self._plan(seen, jobs, room)
        return self._follow(seen, jobs, devices)

    def _plan(self, seen: Snapshot, jobs: Mapping[str, Workload], room: Mapping[str, int]) -> None:
        self.next_at, self.known, self.room = seen.at + TICK, frozenset(jobs), dict(room)
        index = {node.name: number for number, node in enumerate(seen.inventory.nodes)}
        nodes = read_nodes(
            {"id": ("t4", index[name]), "gpu_type": "t4", "gpus": gpus} for name, gpus in room.items() if gpus
        )
        offered = configurations(nodes)
        asked = read_jobs([_row(seen.at, w, self.trainings[uid]) for uid, w in jobs.items()], offered.types)
        current: dict[Hashable, Parts] = {}
        left = dict(room)
        for uid, w in sorted(jobs.items(), key=lambda one: one[1].seq):
            held = _held(w)
            if held and all(gpus <= left.get(node, 0) for node, gpus in held.items()):
                current[uid] = tuple((("t4", index[node]), gpus) for node, gpus in sorted(held.items()))
                for node, gpus in held.items():
                    left[node] -= gpus
        found = planned(seen.at, nodes, offered, asked, current, self.memory)
        self.target = dict(found)

    def _follow(
        self, seen: Snapshot, jobs: Mapping[str, Workload], devices: Mapping[str, Sequence[Device]]
    ) -> Sequence[Decision]:
        names = [node.name for node in seen.inventory.nodes]
        used = {(a.node, a.gpus[0]) for w in jobs.values() for a in w.placement}
        free = {node: [one for one in some if (node, one[0]) not in used] for node, some in devices.items()}
        found: list[Decision] = []
        for uid, w in sorted(jobs.items(), key=lambda one: one[1].seq):
            wanted = {names[node[1]]: gpus for node, gpus in self.target.get(uid, ())}
            held = _held(w)
            if w.phase is Phase.QUEUED and wanted:
                self._start(seen, w, wanted, free, found)
            elif w.phase is Phase.RUNNING and held != wanted and not any(a.leaving for a in w.placement):
                self._change(seen, w, held, wanted, free, found)
        return found

    def _start(
        self,
        seen: Snapshot,
        w: Workload,
        wanted: Mapping[str, int],
        free: Free,
        found: list[Decision],
    ) -> None:
        if all(len(free[node]) >= gpus for node, gpus in wanted.items()):
            found.append(Place(w.id, w.version, _take(seen, w, wanted, free)))

    def _change(
        self,
        seen: Snapshot,
        w: Workload,
        held: Mapping[str, int],
        wanted: Mapping[str, int],
        free: Free,
        found: list[Decision],
    ) -> None:
        more = {node: gpus - held.get(node, 0) for node, gpus in wanted.items()}
        fewer = {node: gpus - wanted.get(node, 0) for node, gpus in held.items()}
        if not wanted or (max(fewer.values()) > 0 and max(more.values()) > 0):
            found.append(Evict(w.id, w.version, EvictReason.CONSOLIDATED, "", "The plan has it elsewhere."))
        elif max(fewer.values()) > 0:
            ranks: list[int] = []
            for node, gpus in fewer.items():
                here = sorted((a for a in w.placement if a.node == node), key=lambda a: (bool(a.lender), a.rank))
                ranks += [a.rank for a in here[len(here) - gpus :]] if gpus > 0 else []
            if min(a.rank for a in w.placement) in ranks:
                found.append(Evict(w.id, w.version, EvictReason.CONSOLIDATED, "", "The plan has it elsewhere."))
            else:
                found.append(Shrink(w.id, w.version, tuple(sorted(ranks)), "The plan gives it fewer workers."))
        elif all(len(free[node]) >= gpus for node, gpus in more.items()):
            found.append(Place(w.id, w.version, _take(seen, w, more, free)))


def _row(at: float, w: Workload, training: Training) -> dict[str, Any]:
    one = training.estimate[1, 1]

    def speedup(nodes: Any, gpus: Any) -> Any:
        pairs = np.broadcast(nodes, gpus)
        told = [training.estimate.get((int(n), int(g)), 0.0) / one for n, g in pairs]
        return np.array(told).reshape(pairs.shape)

    return {
        "id": w.id, "model": training.name, "submitted": w.submitted_at, "age": at - w.submitted_at,
        "attained_gpu_s": w.attained / 1000, "restarts": max(0, w.attempt - 1), "max_gpus": {"t4": w.gang.max},
        "restart_cost_s": training.restart_estimate,
        "restarting": w.phase in ACTIVE and w.phase is not Phase.RUNNING, "ref_rate": {"t4": one},
        "requested_gpus": w.gang.count, "goodput": {"t4": speedup},
    }  # fmt: skip


def _held(w: Workload) -> dict[str, int]:
    held: dict[str, int] = {}
    for a in w.placement if w.phase in ACTIVE else ():
        if not a.leaving:
            held[a.node] = held.get(a.node, 0) + 1
    return held


def _devices(seen: Snapshot, jobs: Mapping[str, Workload]) -> dict[str, list[Device]]:
    """What trainings may have on each node: what no other holds, then sleeping replicas' GPUs."""
    taken: dict[tuple[str, int], bool] = {}
    lent: dict[str, list[Device]] = {}
    borrowed = {(a.node, a.gpus[0]) for w in jobs.values() for a in w.placement if a.lender and not a.leaving}
    for w in seen.workloads.values():
        if w.id in jobs:
            continue
        for a in w.placement:
            for gpu in a.gpus:
                taken[a.node, gpu] = True
                is_old = a.asleep_at is not None and (a.asleep_at <= seen.at - LEND_AFTER or (a.node, gpu) in borrowed)
                if is_old and not a.leaving and w.phase is Phase.RUNNING:
                    lent.setdefault(a.node, []).append((gpu, w.id))
    return {
        node.name: [
            *((gpu, "") for gpu in range(node.gpus) if (node.name, gpu) not in taken), *lent.get(node.name, [])
        ]
        for node in seen.inventory.nodes
    }  # fmt: skip


def _take(seen: Snapshot, w: Workload, wanted: Mapping[str, int], free: Free) -> tuple[Assignment, ...]:
    index = seen.inventory.index
    some = [(node, free[node].pop(0)) for node, gpus in sorted(wanted.items()) for _ in range(max(0, gpus))]
    some.sort(key=lambda one: bool(one[1][1]))  # those of its own first: the gang meets at its lowest rank
    workers = ranked(seen.inventory, w, [(index[node], (device[0],)) for node, device in some])
    return tuple(replace(worker, lender=one[1][1]) for worker, one in zip(workers, some, strict=True))
