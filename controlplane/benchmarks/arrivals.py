"""Alibaba's pods arriving one at a time on its 1,213 machines with GPUs, under the semantics of FGD's evaluation.

Machines are empty at first and listed in an order that the seed permutes. Pods, sorted by name, are shuffled by the
seed; then pods are drawn from them with replacement until the next would pass 130 % of the cluster's GPUs. Nothing
leaves, nothing moves, and a pod that does not fit is dropped.
"""

import csv
import gzip
import io
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from controlplane.benchmarks.figure import BenchmarkError
from gpushare.gpu import WHOLE, Share
from gpushare.packing import Bools
from scheduler.demand import Demand, demand_of
from scheduler.placement import loops
from scheduler.placement.fits import FirstFit
from scheduler.placement.fleet import Kind, devices_of, empty_fleet, kinds_of, take, want_of
from scheduler.placement.rows import BITS, Fleet, Want
from scheduler.placement.worth import Worth
from scheduler.snapshot import Inventory, Node
from scheduler.workload import Ask

OVERLOAD = 1.3  # arrived over the cluster's GPUs, where a run ends
LEARN_FROM, LEARN_AGAIN = 50, 1.3  # pods seen before the first forecast, and growth until the next
LARGE = 8  # GPUs of the pods whose failures are counted


class Scorer(Protocol):
    """Says where a worker goes."""

    def choose(self, fleet: Fleet, want: Want, allowed: Bools) -> tuple[int, int] | None:
        """The node and device, or None if it fits nowhere."""


@dataclass(frozen=True, slots=True)
class World:
    """Machines in the order of one seed, all empty, and the pods that come."""

    nodes: tuple[Node, ...]
    asks: tuple[Ask, ...]  # the list's own pods, by name
    arrivals: tuple[Ask, ...]

    @property
    def gpus(self) -> int:
        """Devices of all machines."""
        return sum(node.gpus for node in self.nodes)


@dataclass(slots=True)
class Filled:
    """How one run went. Milli-GPU; large pods by when they arrived: (before 100 % load, in all)."""

    at_100: int = 0
    final: int = 0
    large: list[int] = field(default_factory=lambda: [0, 0])
    large_failed: list[int] = field(default_factory=lambda: [0, 0])
    # Of each decision: on the clock, and of the processor, since other work on the machine makes decisions wait.
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)


def read_nodes(path: Path) -> tuple[Node, ...]:
    """The machines with GPUs of a node list. Raises BenchmarkError."""
    rows = _rows(path, ("sn", "cpu_milli", "memory_mib", "gpu", "model"))
    nodes = (
        Node(row["sn"], "", row["model"], int(row["gpu"]), 0, int(row["cpu_milli"]), int(row["memory_mib"]))
        for row in rows
    )
    return tuple(node for node in nodes if node.gpus)


def read_pods(path: Path) -> tuple[Ask, ...]:
    """What the pods of a list ask, by name. Raises BenchmarkError."""
    rows = _rows(path, ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"))
    return tuple(_ask(row) for row in sorted(rows, key=lambda row: row["name"]))


def world_of(nodes: Sequence[Node], asks: Sequence[Ask], seed: int) -> World:
    """One seed's machines and arrivals."""
    draw = np.random.default_rng(seed)
    arrivals = [asks[i] for i in draw.permutation(len(asks)).tolist()]
    load = sum(ask.milli for ask in arrivals)
    most = OVERLOAD * WHOLE * sum(node.gpus for node in nodes)
    while True:
        ask = asks[int(draw.integers(len(asks)))]
        if load + ask.milli > most:
            break
        load += ask.milli
        arrivals.append(ask)
    order = np.random.default_rng([seed, len(nodes)]).permutation(len(nodes)).tolist()
    return World(tuple(nodes[i] for i in order), tuple(asks), tuple(arrivals))


def fleet_of(nodes: Sequence[Node]) -> tuple[Fleet, tuple[Kind, ...]]:
    """These machines, empty."""
    inventory = Inventory(tuple(nodes))
    kinds = kinds_of(inventory)
    fleet = empty_fleet(inventory, kinds)
    fleet.host[:] = inventory.node_capacity.T
    for row, node in zip(fleet.gpu, nodes, strict=True):
        row[: node.gpus] = WHOLE << BITS
    return fleet, kinds


class Learning:
    """Our own scorer, which knows of the pods only what it has seen: first fit at first, then by worth."""

    def __init__(self, fleet: Fleet, kinds: Sequence[Kind], nodes: Sequence[Node]) -> None:
        self._fleet, self._kinds = fleet, kinds
        self._sizes = np.array([node.gpus for node in nodes], dtype=np.int64)
        self._seen: Counter[Ask] = Counter()
        self._next = float(LEARN_FROM)
        self._scorer: Scorer = FirstFit()

    def before(self, ask: Ask) -> None:
        """A pod arrives: forecast anew if enough have come since the last time."""
        if self._seen.total() >= self._next:
            self._next = self._seen.total() * LEARN_AGAIN
            demand = self.demand()
            self._scorer = Worth(demand, self._kinds, self._fleet, self._sizes)
        self._seen[ask] += 1

    def demand(self) -> Demand:
        """What was seen so far, and how much of it the cluster takes now."""
        wants = {ask: want_of(ask, self._kinds) for ask in self._seen}
        slots = {ask: int(loops.total_slots(self._fleet, *want)) for ask, want in wants.items()}
        return demand_of(self._seen, slots)

    def choose(self, fleet: Fleet, want: Want, allowed: Bools) -> tuple[int, int] | None:
        """The node and device for one pod, or None if it fits nowhere."""
        return self._scorer.choose(fleet, want, allowed)

    def score(self, want: Want, allowed: Bools) -> float | None:
        """What `choose` goes by; 0 before the first forecast, None if the pod fits nowhere."""
        if isinstance(self._scorer, Worth):
            found = self._scorer.offer(self._fleet, want, allowed)
            return None if found is None else found[2]
        return 0.0


def fill(world: World, scorer_of: Callable[[World, Fleet, tuple[Kind, ...]], Scorer]) -> Filled:
    """Let all pods arrive and place them."""
    fleet, kinds = fleet_of(world.nodes)
    scorer = scorer_of(world, fleet, kinds)
    learns = scorer if isinstance(scorer, Learning) else None
    wants = {ask: want_of(ask, kinds) for ask in world.asks}
    everywhere = np.ones(len(world.nodes), dtype=np.bool_)
    capacity, load, done = world.gpus * WHOLE, 0, Filled()
    for ask in world.arrivals:
        want, began, began_cpu = wants[ask], time.perf_counter(), time.thread_time()
        if learns is not None:
            learns.before(ask)
        place = scorer.choose(fleet, want, everywhere)
        done.seconds.append(time.perf_counter() - began)
        done.cpu_seconds.append(time.thread_time() - began_cpu)
        is_early, load = load < capacity, load + ask.milli
        if ask.gpus == LARGE:
            _count(done.large, is_early)
        if place is not None:
            take(fleet, place[0], devices_of(fleet, *place, want.numbers), want.numbers)
            done.final += ask.milli
            done.at_100 = done.final if is_early else done.at_100
        elif ask.gpus == LARGE:
            _count(done.large_failed, is_early)
    return done


def _count(counts: list[int], is_early: bool) -> None:
    counts[0] += is_early
    counts[1] += 1


def _ask(row: dict[str, str]) -> Ask:
    gpus, milli = int(row["num_gpu"]), int(row["gpu_milli"] or 0)
    models = tuple(sorted(model for model in (row.get("gpu_spec") or "").split("|") if model))
    is_share = gpus == 1 and milli < WHOLE
    share = Share(milli, milli, 0) if is_share else None
    return Ask(0 if is_share else gpus, share, 0, int(row["cpu_milli"]), int(row["memory_mib"]), models)


def _rows(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    except FileNotFoundError:
        raise BenchmarkError(
            f"There is no file {path}. Set WEFT_DATA to the folder with the traces, or name files."
        ) from None
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise BenchmarkError(f"{path} cannot be read ({error}). Use a UTF-8 CSV file, or one in gzip.") from None
    rows = list(csv.DictReader(io.StringIO(text)))
    missing = [column for column in columns if not rows or column not in rows[0]]
    if missing:
        raise BenchmarkError(f"{path} has no rows or no column {missing[0]}. Its columns must be {', '.join(columns)}.")
    return rows
