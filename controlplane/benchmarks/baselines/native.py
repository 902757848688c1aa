"""native-k8s on the cluster of like GPUs: kube-scheduler as it comes, which binds the workers of a training one by one.

Workers go in the order in which their trainings were submitted, those of trainings of the same moment by turns, each
to the node with most free GPUs. A training with some of its workers holds their GPUs and makes no progress until it has
all that it asked for. Where nothing runs and no worker was bound for 300 s, the youngest such training is killed and
queued again, as an operator would do. Nothing that runs is stopped.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from controlplane.benchmarks.baselines.held import Held
from controlplane.benchmarks.training.rounds import Plan

PATIENCE = 300.0  # s without a worker bound, then the youngest part of a gang is killed

Jobs = Sequence[Mapping[str, Any]]


class Native:
    """See above."""

    def __init__(self) -> None:
        self._bound: dict[Any, list[int]] = {}  # nodes of the workers of trainings that have not all of theirs
        self._queued: dict[Any, float] = {}  # since when, of those that were killed
        self._acted = 0.0

    def plan(self, now: float, jobs: Jobs, current: Plan) -> Plan:
        """See cluster16.Policy."""
        held = Held(current)
        for name, nodes in self._bound.items():
            for node in nodes:
                held.add(name, node)
        waiting = [job for job in jobs if job["id"] not in current]
        asked = {job["id"]: job["requested_gpus"] for job in waiting}
        before = sum(map(len, self._bound.values()))
        for name in self._pods(waiting):
            node = max(range(len(held.free)), key=held.free.__getitem__)
            if held.free[node] == 0:
                break
            held.add(name, node)
            self._bound.setdefault(name, []).append(node)
        if sum(map(len, self._bound.values())) > before or current:
            self._acted = now
        self._bound = {name: nodes for name, nodes in self._bound.items() if len(nodes) < asked[name]}
        if self._bound and now - self._acted >= PATIENCE:
            self._kill(now, waiting, held)
        return {name: parts for name, parts in held.plan().items() if name not in self._bound}

    event = plan

    def _pods(self, waiting: Jobs) -> Iterator[Any]:
        """The training of each worker that is not bound, in the order in which they are tried."""
        for _, together in groupby(sorted(waiting, key=self._order), key=self._since):
            left = {job["id"]: job["requested_gpus"] - len(self._bound.get(job["id"], ())) for job in together}
            while left:
                yield from left
                left = {name: gpus - 1 for name, gpus in left.items() if gpus > 1}

    def _kill(self, now: float, waiting: Jobs, held: Held) -> None:
        youngest = max((job for job in waiting if job["id"] in self._bound), key=self._order)["id"]
        held.drop(youngest)
        del self._bound[youngest]
        self._queued[youngest] = self._acted = now

    def _since(self, job: Mapping[str, Any]) -> float:
        return float(self._queued.get(job["id"], job["submitted"]))

    def _order(self, job: Mapping[str, Any]) -> tuple[float, str]:
        return self._since(job), str(job["id"])
