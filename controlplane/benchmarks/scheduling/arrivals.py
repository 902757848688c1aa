"""Alibaba's pods arriving one at a time on its 1,213 machines with GPUs, under the semantics of FGD's evaluation.

Machines are empty at first and listed in an order that the seed permutes. Pods, sorted by name, are shuffled by the
seed; then pods are drawn from them with replacement until the next would pass 130 % of the cluster's GPUs. Nothing
leaves, nothing moves, and a pod that does not fit is dropped.
"""

import csv
import gzip
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from controlplane.benchmarks.harness.figure import BenchmarkError
from gpushare.gpu import WHOLE, Share
from gpushare.packing import Bools
from scheduler.model.snapshot import Inventory, Node
from scheduler.model.workload import ResourceRequest
from scheduler.placement.fleet import Kind, devices_of, empty_fleet, kinds_of, take, want_of
from scheduler.placement.rows import BITS, Fleet, Want

OVERLOAD = 1.3  # arrived over the cluster's GPUs, where a run ends
LARGE = 8  # GPUs of the pods whose failures are counted


class Scorer(Protocol):
    """Says where a worker goes."""

    def choose(self, fleet: Fleet, want: Want, allowed: Bools) -> tuple[int, int] | None:
        """The node and device, or None if it fits nowhere."""


@dataclass(frozen=True, slots=True)
class World:
    """Machines in the order of one seed, all empty, and the pods that come."""

    nodes: tuple[Node, ...]
    asks: tuple[ResourceRequest, ...]  # the list's own pods, by name
    arrivals: tuple[ResourceRequest, ...]

    @property
    def gpus(self) -> int:
        """Devices of all machines."""
        return sum(node.gpus for node in self.nodes)

    @property
    def capacity(self) -> int:
        """Their milli-GPU."""
        return WHOLE * self.gpus


@dataclass(slots=True)
class Filled:
    """How one run went. Milli-GPU; large pods by when they arrived: [before 100 % load, in all]."""

    capacity: int
    load: int = 0  # arrived so far
    at_100: int = 0
    final: int = 0
    large: list[int] = field(default_factory=lambda: [0, 0])
    large_failed: list[int] = field(default_factory=lambda: [0, 0])

    def count(self, ask: ResourceRequest, *, is_placed: bool) -> None:
        """A pod arrived."""
        is_early = self.load < self.capacity
        self.load += ask.milli
        if is_placed:
            self.final += ask.milli
            self.at_100 = self.final if is_early else self.at_100
        if ask.gpus == LARGE:
            for counts in (self.large,) if is_placed else (self.large, self.large_failed):
                counts[0] += is_early
                counts[1] += 1


def read_nodes(path: Path) -> tuple[Node, ...]:
    """The machines with GPUs of a node list. Raises BenchmarkError."""
    rows = _rows(path, ("sn", "cpu_milli", "memory_mib", "gpu", "model"))
    nodes = (
        Node(row["sn"], "", row["model"], int(row["gpu"]), 0, int(row["cpu_milli"]), int(row["memory_mib"]))
        for row in rows
    )
    return tuple(node for node in nodes if node.gpus)


def read_pods(path: Path) -> tuple[ResourceRequest, ...]:
    """What the pods of a list ask, by name. Raises BenchmarkError."""
    rows = _rows(path, ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"))
    return tuple(_ask(row) for row in sorted(rows, key=lambda row: row["name"]))


def world_of(nodes: Sequence[Node], asks: Sequence[ResourceRequest], seed: int) -> World:
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


def fill(world: World, scorer_of: Callable[[World, Fleet, tuple[Kind, ...]], Scorer]) -> Filled:
    """Let all pods arrive, each placed on any machine by a scorer alone."""
    fleet, kinds = fleet_of(world.nodes)
    scorer = scorer_of(world, fleet, kinds)
    wants = {ask: want_of(ask, kinds) for ask in world.asks}
    everywhere = np.ones(len(world.nodes), dtype=np.bool_)
    done = Filled(world.capacity)
    for ask in world.arrivals:
        want = wants[ask]
        place = scorer.choose(fleet, want, everywhere)
        if place is not None:
            take(fleet, place[0], devices_of(fleet, *place, want.numbers), want.numbers)
        done.count(ask, is_placed=place is not None)
    return done


def _ask(row: dict[str, str]) -> ResourceRequest:
    gpus, milli = int(row["num_gpu"]), int(row["gpu_milli"] or 0)
    models = tuple(sorted(model for model in (row.get("gpu_spec") or "").split("|") if model))
    is_share = gpus == 1 and milli < WHOLE
    share = Share(milli, milli, 0) if is_share else None
    return ResourceRequest(0 if is_share else gpus, share, 0, int(row["cpu_milli"]), int(row["memory_mib"]), models)


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
