"""A cluster that exists in memory only (or in one file): both ports, and a clock that moves when it is told to.

Discrete events: nothing happens between two calls of `advance`, and what happens in it is a function of the commands,
the times they came at, and the seed. Times are whole seconds from 2026-01-01T00:00:00Z. One instance belongs to one
thread; with a store, any number of instances, in one process or in several, are the same cluster.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from autoscaler.latency import Within
from autoscaler.observed import Scrape, Signal
from controlplane.cluster import podlogs, requests, speed, telemetry
from controlplane.cluster.entities import Entity, Machine, Pod, Volume
from controlplane.cluster.lifecycle import Lifecycle
from controlplane.cluster.podcommands import PodCommands
from controlplane.cluster.port import (
    Address,
    GpuUse,
    LogLine,
    NodeUse,
    Note,
    Observation,
    PodPhase,
    PodSeen,
    PodSpec,
    PodUse,
    RevisionUse,
    Saved,
    ServiceUse,
    Split,
    TrainingUse,
    WorkerUse,
    pod_name,
)
from controlplane.cluster.serving.outcomes import Totals
from controlplane.cluster.work import Profiles
from controlplane.cluster.world import START, Conditions, World
from gpushare.gpu import WHOLE
from scheduler.model.snapshot import Node

__all__ = ["START", "Conditions", "SimulatedCluster", "Store"]


@dataclass(frozen=True, slots=True)
class Head:
    """The numbers of a world that are not rows."""

    now: float
    revision: int
    forgotten: int
    overcommits: int


@dataclass(frozen=True, slots=True)
class Changed:
    """What others wrote: the newest version, rows, keys of deleted rows; is_whole: everything there is."""

    version: int
    head: Head
    rows: tuple[Entity, ...]
    deleted: tuple[tuple[str, str], ...]
    is_whole: bool


class Store(Protocol):
    """Where a cluster keeps its rows; see store.ClusterStore."""

    def writing(self) -> AbstractContextManager[None]:
        """Be the only writer; on leaving, all or nothing is kept."""

    def changes(self, after: int) -> Changed | None:
        """What was written after this version; None for nothing."""

    def write(self, head: Head, rows: Mapping[tuple[str, str], Entity | None]) -> int:
        """Keep these rows (None: delete); returns the new version."""


class SimulatedCluster(PodCommands):
    """Both ports of `controlplane.cluster.port`. `nodes` count only when the store holds no cluster yet."""

    commands_at_once = 1

    def __init__(
        self,
        nodes: Sequence[Node] = (),
        conditions: Conditions | None = None,
        profiles: Profiles | None = None,
        store: Store | None = None,
    ) -> None:
        self._world = World(conditions or Conditions(), profiles or {})
        self._life = Lifecycle(self._world)
        self._store = store
        self._version = 0
        self._listeners: tuple[Callable[[], None], ...] = ()
        with self._writing():
            if not self._world.machines:
                self._world.put_nodes(nodes)

    # --- the clock ---------------------------------------------------------------------------

    def now(self) -> float:
        """The cluster's clock."""
        return self._read().now

    def next_event(self) -> float | None:
        """When something happens next by itself, or a request comes to a service that sleeps; never now."""
        world = self._read()
        moments = [at for at in (world.next_due(), requests.next_held(world)) if at is not None]
        return min(moments, default=None)

    def signals(self) -> dict[str, Signal]:
        """What the queues in front of services that sleep tell, where a request waits."""
        return requests.signals(self._read())

    def advance(self, to: float) -> None:
        """Let time pass up to `to`, rounded down to a whole second. The clock never goes back."""
        with self._writing() as world:
            whole = float(math.floor(to))
            if whole > world.now:
                self._life.advance(whole)

    # --- Cluster -----------------------------------------------------------------------------

    def observe(self, cursor: str | None) -> Observation:
        """Changes since cursor; everything for None or a cursor that is too old or not ours.

        A new checkpoint by itself is no change: it is seen with the pod's next change, or with everything.
        """
        world = self._read()
        after = int(cursor) if cursor and cursor.isdigit() else -1
        is_full = not world.forgotten <= after <= world.revision
        rows: Iterable[Entity] = world.changes.values() if is_full else reversed(list(world.since(after)))
        pods: list[PodSeen] = []
        nodes: list[Node] = []
        gone: list[str] = []
        for row in rows:
            if isinstance(row, Pod):
                pods.append(world.seen(row))
            elif isinstance(row, Machine) and not row.is_removed:
                nodes.append(row.node)
            elif isinstance(row, Machine) and not is_full:
                gone.append(row.key)
        return Observation(world.now, str(world.revision), is_full, tuple(pods), tuple(nodes), tuple(gone))

    def held(self) -> frozenset[tuple[str, int]]:
        """The devices with shares: its pods are its accounting, so nothing else has to hold them."""
        there = self._read().occupants.items()
        return frozenset(device for device, pods in there if any(p.milli < WHOLE or p.gpu_memory for p in pods))

    def on_news(self, tell: Callable[[], None]) -> None:
        """Have `tell` called after each change that is made through this instance; never of another's in the file."""
        self._listeners = (*self._listeners, tell)

    def start(self, pods: Sequence[PodSpec]) -> None:
        """Create these pods; those that exist already are left alone.

        A node that is lost makes a pod Gone with reason NodeLost. A device or node that is full makes it Failed with
        reason OutOfGpu, OutOfGpuMemory, OutOfCpu or OutOfMemory, which `overcommits` counts.
        """
        with self._writing():
            for pod in pods:
                self._life.create(pod)

    def prepare(self, pods: Sequence[PodSpec], *, starting: Collection[str] = ()) -> None:
        """Nothing: a pod is created and placed in one step here."""

    def publish(self, notes: Sequence[Note]) -> None:
        """Nothing: the pods of a simulated cluster are not described."""

    def stop(self, workload: str, attempt: int, ranks: Sequence[int], grace_seconds: float) -> None:
        """End these pods with a chance to checkpoint; those that are gone are done."""
        with self._writing():
            self._life.stop(workload, attempt, ranks, grace_seconds)

    def split(self, split: Split) -> None:
        """Draw each request of a service for one of two revisions, or for any replica again."""
        with self._writing():
            self._life.split(split.workload, split.revision, split.percent)

    def keep_address(self, address: Address, *, on: bool) -> None:
        """Have requests to a service come, and wait, while it has no replica; or no longer."""
        with self._writing() as world:
            requests.keep_address(world, address.workload, on=on)

    def guard(self, address: Address, least: int) -> None:
        """Nothing: no pod of a simulated cluster is evicted by others."""

    def cordon(self, node: str, on: bool) -> None:
        """Take a node out of (or back into) use for new work; pods that run there go on."""
        with self._writing() as world:
            machine = world.machines.get(node)
            if machine is not None and machine.node.schedulable == on:
                world.alter(machine, schedulable=not on)

    def logs(
        self, workload: str, attempt: int, rank: int | None, tail: int, since: float | None
    ) -> tuple[LogLine, ...]:
        """The last `tail` lines of one worker (None: of all, by time), those after `since` only.

        They are written when they are asked for; those of a pod that was forgotten are gone.
        """
        world = self._read()
        group = world.attempts.get((workload, attempt))
        if group is None or tail <= 0:
            return ()
        pods = [pod for number, pod in sorted(group.pods.items()) if rank is None or rank == number]
        return podlogs.lines(world, group, pods, tail, since)

    # --- Metrics -----------------------------------------------------------------------------

    def gpus(self) -> tuple[GpuUse, ...]:
        """Every device that reports: those of nodes that are lost, and lost devices, do not."""
        return telemetry.gpus(self._read())

    def training(self, workloads: Sequence[str]) -> tuple[TrainingUse, ...]:
        """Step times of these jobs; a job that makes no steps now has None, one that is not known is left out."""
        return telemetry.training(self._read(), workloads)

    def workers(self, workloads: Sequence[str]) -> tuple[WorkerUse, ...]:
        """Step times of the workers of these jobs; those of a job that makes no steps now are left out."""
        return telemetry.workers(self._read(), workloads)

    def nodes(self) -> tuple[NodeUse, ...]:
        """Disks and lines of the nodes that report."""
        return telemetry.nodes(self._read())

    def checkpoints(self, workloads: Sequence[str]) -> tuple[Saved, ...]:
        """Nothing: its pods say it where they are observed."""
        return ()

    def services(self, objectives: Mapping[str, Within | None] | Sequence[str]) -> tuple[ServiceUse, ...]:
        """Load and latency of these services; one that never answered is left out. Requests count against the
        objectives given here from the first time that one is given; without, the job files'."""
        if isinstance(objectives, Mapping) and requests.are_others(self._read(), objectives):
            with self._writing() as world:
                requests.hold_to(world, objectives)
        return telemetry.services(self._read(), objectives)

    def scrapes(self, workloads: Sequence[str]) -> dict[str, Scrape]:
        """What a gateway in front of these services would tell of their requests just now."""
        return telemetry.scrapes(self._read(), workloads)

    def pods(self, workloads: Sequence[str]) -> tuple[PodUse, ...]:
        """What the running pods of these workloads use."""
        return telemetry.pods(self._read(), workloads)

    def revisions(self, promises: Mapping[str, tuple[float, Within]]) -> tuple[RevisionUse, ...]:
        """What revisions of these services have answered since their requests are split."""
        return telemetry.revisions(self._read(), promises)

    # --- what only a simulated cluster can do ------------------------------------------------

    def size(self, workload: str, attempt: int, rank: int) -> tuple[int, int]:
        """A worker's CPU (milli) and memory (MiB) as they are now. Raises KeyError if there never was one."""
        pod = self._read().pods[pod_name(workload, attempt, rank)]
        return pod.cpu_milli, pod.memory

    def limit_of(self, workload: str, attempt: int, rank: int) -> int:
        """Milli-GPU that a worker on a share may use now. Raises KeyError if there never was one."""
        pod = self._read().pods[pod_name(workload, attempt, rank)]
        return round(WHOLE * speed.limit_of(self._world, pod))

    def batch_of(self, workload: str, attempt: int) -> int:
        """Examples of all workers in a step that the members of a training are told; 0: none are. Raises KeyError."""
        return self._read().attempts[workload, attempt].batch

    def split_of(self, workload: str) -> tuple[int, int] | None:
        """Which revision of a service gets how many percent of its requests; None: they are not split."""
        service = self._read().services.get(workload)
        return None if service is None or service.split is None else (service.split[0], service.split[1])

    def rotation(self, workload: str) -> set[int]:
        """The ranks of a service to which requests are sent."""
        pods = [p for p in self._read().pods.values() if p.workload == workload and p.phase == PodPhase.RUNNING]
        return {pod.rank for pod in pods if speed.is_serving(self._world, pod)}

    def has_address(self, workload: str) -> bool:
        """Whether requests to a service come anywhere: to a replica, or to the queue in front of it."""
        return requests.has_address(self._read(), workload)

    def answered(self, workloads: Iterable[str]) -> dict[str, Totals]:
        """What became of all requests of these services since each began."""
        return telemetry.answered(self._read(), workloads)

    @property
    def overcommits(self) -> int:
        """How many pods were started where they did not fit. A right scheduler keeps it at 0."""
        return self._read().overcommits

    def save(self, workload: str, done: float, at: float) -> None:
        """Have a training's checkpoint, with this part of its work done, be there from before."""
        with self._writing() as world:
            world.volumes[workload] = Volume(workload, done, at)
            world.keep(world.volumes[workload])

    def add_nodes(self, nodes: Sequence[Node]) -> None:
        """Add nodes, or change what is known of them."""
        with self._writing() as world:
            world.put_nodes(nodes)

    def remove_node(self, name: str) -> None:
        """Take a node away for good; its pods are gone."""
        with self._writing() as world:
            machine = world.machines[name]
            self._life.lose_node(machine)
            machine.is_removed, machine.due = True, None
            world.change(machine)

    def lose_node(self, name: str) -> None:
        """Make a node not ready; its pods are gone with reason NodeLost."""
        with self._writing() as world:
            self._life.lose_node(world.machines[name])

    def restore_node(self, name: str) -> None:
        """Make a node ready again, empty and with all its devices."""
        with self._writing() as world:
            self._life.restore_node(world.machines[name])

    def lose_gpu(self, node: str, index: int) -> None:
        """Break a device; the pods that use it fail with reason GpuLost."""
        with self._writing() as world:
            self._life.lose_gpu(world.machines[node], index)

    def refuse_resizes(self, node: str, reason: str) -> None:
        """Have a node answer all resizes with this reason of the port; empty: by the room it has, again."""
        with self._writing() as world:
            self._life.refuse_resizes(world.machines[node], reason)

    # --- inside ------------------------------------------------------------------------------

    def _read(self) -> World:
        if self._store is not None:
            self._refresh(self._store)
        return self._world

    @contextmanager
    def _writing(self) -> Iterator[World]:
        """One change of the world: kept as a whole, or, if it raises, not at all. Listeners are told afterwards."""
        before = self._world.revision
        with self._kept_whole() as world:
            yield world
        if self._world.revision != before:
            for tell in self._listeners:
                tell()

    @contextmanager
    def _kept_whole(self) -> Iterator[World]:
        world, store = self._world, self._store
        if store is None:
            yield world
            world.dirty.clear()
            return
        try:
            with store.writing():
                self._refresh(store)
                yield world
                if world.dirty or self._head() != self._written:
                    self._version = store.write(self._head(), world.dirty)
                    self._written = self._head()
            world.dirty.clear()
        except BaseException:
            world.clear()  # what is in memory is not what is kept: read it all again
            world.runs.clear()
            self._version = 0
            raise

    _written: Head | None = None

    def _head(self) -> Head:
        world = self._world
        return Head(world.now, world.revision, world.forgotten, world.overcommits)

    def _refresh(self, store: Store) -> None:
        changed = store.changes(self._version)
        if changed is None:
            return
        world = self._world
        if changed.is_whole:
            world.clear()
        for key in changed.deleted:
            world.dismiss(key)
        world.now, world.revision = changed.head.now, changed.head.revision
        world.forgotten, world.overcommits = changed.head.forgotten, changed.head.overcommits
        world.load(changed.rows)
        self._version, self._written = changed.version, changed.head
