"""Who gets which GPU when a cell begins: GPUs on demand as production decides it, and what stock clusters do.

What a policy is told is `engine.Seen`: neither how long a cell is nor when the next one comes. The user who deletes a
notebook before a long gap is the exception, in favour of what is compared: users may know that.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from controlplane.benchmarks.notebooks.engine import Given, Seen
from controlplane.benchmarks.notebooks.sessions import GIB
from gpushare import ondemand, residency
from gpushare.ondemand import Rules, Way
from gpushare.residency import Gpu, Node, Notebook

DEVICE = 80 * GIB  # MiB
HOST = 512 * GIB  # MiB that notebooks may book of a node with eight GPUs
RESUME, RESTART = (8.0, 15.0), (15.0, 45.0)  # s from the volume, and of a pod after a cull: median and p95
Z95 = 1.645
PROMISED = 20  # milli-GPU of each notebook
LOSS = 0.03  # of a GPU's time, where a token goes round


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of moving device memory: a fixed part, and GiB in a second. factor: of both, to see what hangs on it."""

    within: tuple[float, float] = (0.3, 10.0)
    across: tuple[float, float] | None = None  # of a process between nodes, where it could be moved; None: it cannot
    factor: float = 1.0

    def seconds(self, memory: int, kind: tuple[float, float]) -> float:
        """Of so many MiB."""
        return self.factor * (kind[0] + memory / GIB / kind[1])


COSTS = Costs()


def lognormal(rng: random.Random, times: tuple[float, float]) -> float:
    """By median and p95."""
    return times[0] * math.exp(rng.gauss(0.0, 1.0) * math.log(times[1] / times[0]) / Z95)


class OnDemand:
    """Production's rules (gpushare.ondemand) on a cluster of such nodes. young_first False: cells share evenly."""

    loss = LOSS

    def __init__(
        self, nodes: Sequence[int], seed: int, rules: Rules, costs: Costs = COSTS, *, young_first: bool = True
    ) -> None:
        """GPUs of each node."""
        self._rules, self._costs, self._young_first = rules, costs, young_first
        self._rng = random.Random(f"{seed}:switches")  # noqa: S311
        self.nodes = [Node(tuple(Gpu(DEVICE) for _ in range(gpus)), HOST * gpus // 8) for gpus in nodes]
        self._first = [sum(nodes[:index]) for index in range(len(nodes))]
        self._node_of = [index for index, gpus in enumerate(nodes) for _ in range(gpus)]
        self._where: dict[str, int] = {}

    def begin(self, seen: Seen, at: float) -> Given | None:
        """As production would start it."""
        node = self._where.get(seen.notebook)
        notebook = Notebook(seen.notebook, seen.memory, int(seen.idle_since))
        start = ondemand.choose(self.nodes, notebook, node, int(at), self._rules)
        if start is None:
            return None
        seconds = self._seconds(seen, start)
        if start.node != node:
            if node is not None:
                self.nodes[node] = residency.leave(self.nodes[node], seen.notebook)
            self.nodes[start.node] = residency.enter(self.nodes[start.node], notebook)
            self._where[seen.notebook] = start.node
        self.nodes[start.node] = residency.begin(
            self.nodes[start.node], seen.notebook, start.gpu, int(at), start.evicted
        )
        return Given(self._first[start.node] + start.gpu, seconds, start.way is Way.VOLUME)

    def end(self, notebook: str, at: float) -> None:
        """It stays on its GPU, idle."""
        node = self._where[notebook]
        self.nodes[node] = residency.end(self.nodes[node], notebook, int(at))

    def delete(self, notebook: str, at: float) -> None:
        """It is gone."""
        del at
        node = self._where.pop(notebook)
        self.nodes[node] = residency.leave(self.nodes[node], notebook)

    def tick(self, at: float) -> None:
        """Park what was idle for long."""
        for node in self.nodes:
            for name in ondemand.to_park(node, int(at), self._rules):
                self.delete(name, at)

    def parts(self, gpu: int, cells: Mapping[str, float], at: float) -> tuple[dict[str, float], float | None]:
        """Young cells go first; as production tells the node."""
        if not self._young_first:
            return dict.fromkeys(cells, 1 / len(cells)), None
        node = self._node_of[gpu]
        device = self.nodes[node].gpus[gpu - self._first[node]]
        # What is still on its way computes nothing yet: the others have its part.
        device = replace(device, residents=tuple([one for one in device.residents if one.name in cells]))
        given = ondemand.parts(device, dict.fromkeys(cells, PROMISED), int(at), self._rules)
        whole = sum(given.values())
        ages = [one.since + self._rules.young for one in device.residents if at < one.since + self._rules.young]
        return {name: part / whole for name, part in given.items()}, min(ages, default=None)

    def _seconds(self, seen: Seen, start: ondemand.Start) -> float:
        costs, node = self._costs, self.nodes[start.node]
        seconds = sum(costs.seconds(node.find(name)[1].memory, costs.within) for name in start.evicted)
        if seen.is_first or start.way is Way.STAY:
            return seconds
        if start.way is Way.SWITCH:
            return seconds + costs.seconds(seen.memory, costs.within)
        if costs.across is not None and seen.notebook in self._where:
            return seconds + costs.seconds(seen.memory, costs.across)
        return seconds + costs.factor * lognormal(self._rng, RESUME)


class Sliced:
    """A notebook holds one of `slices` slots of a GPU from its start to its cull; cells of a GPU share it evenly.

    culls_after: s of idle time, None: never. It goes to the GPU with the fewest notebooks, as NVIDIA's plugin has it.
    Nothing is lost when slices change hands.
    """

    loss = 0.0

    def __init__(self, gpus: int, seed: int, slices: int, culls_after: float | None) -> None:
        """All slots are free."""
        self._slices, self._culls_after = slices, culls_after
        self._rng = random.Random(f"{seed}:restarts")  # noqa: S311
        self._held = [0] * gpus
        self._where: dict[str, int] = {}
        self._idle: dict[str, float] = {}

    def begin(self, seen: Seen, at: float) -> Given | None:
        """Where it is, else in a slot."""
        del at
        self._idle.pop(seen.notebook, None)
        if (gpu := self._where.get(seen.notebook)) is not None:
            return Given(gpu, 0.0, restarts=False)
        gpu = min(range(len(self._held)), key=self._held.__getitem__)
        if self._held[gpu] >= self._slices:
            return None
        self._held[gpu] += 1
        self._where[seen.notebook] = gpu
        return Given(gpu, 0.0 if seen.is_first else lognormal(self._rng, RESTART), restarts=True)

    def end(self, notebook: str, at: float) -> None:
        """It is idle."""
        self._idle[notebook] = at

    def delete(self, notebook: str, at: float) -> None:
        """Its slot is free."""
        del at
        self._idle.pop(notebook, None)
        self._held[self._where.pop(notebook)] -= 1

    def tick(self, at: float) -> None:
        """Cull."""
        if self._culls_after is None:
            return
        for notebook in [one for one, since in self._idle.items() if at - since >= self._culls_after]:
            self.delete(notebook, at)

    def parts(self, gpu: int, cells: Mapping[str, float], at: float) -> tuple[dict[str, float], float | None]:
        """Slices of equal length."""
        del gpu, at
        return dict.fromkeys(cells, 1 / len(cells)), None
