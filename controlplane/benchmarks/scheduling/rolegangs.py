"""What it costs to place a gang with roles: workers with parameter servers and a launcher, on Alibaba's machines.

The machines first take pods of the list, one after the other, until `TAKEN` of their GPUs are held. Then gangs come;
each is looked for with its role members, and in the same state once more as its workers alone. What is found with
role members is taken, so that the later gangs find less. A decision is the whole of one claimant's: every GPU model,
quota, and places for all members or for none.
"""

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, islice, product

from controlplane.benchmarks.scheduling.arrivals import World
from gpushare.gpu import WHOLE
from scheduler.fit.claim import Places, find
from scheduler.model.settings import Settings
from scheduler.model.snapshot import IDLE, Snapshot
from scheduler.model.team import Team
from scheduler.model.workload import Gang, Kind, Level, ResourceRequest, Role, Topology, Workload
from scheduler.state.session import Session

TAKEN = 0.5  # of all GPUs, by the list's own pods
GANGS = 400
TEAM = "t"
SERVER, LAUNCHER = ResourceRequest(cpu_milli=8000, memory=32 * 1024), ResourceRequest(cpu_milli=1000, memory=2 * 1024)
SHAPES = tuple(product((1, 2, 4, 8, 16), (1, 2, 4, 8)))  # workers, GPUs of each
ROLES = ((Role("launcher", LAUNCHER),), (Role("ps", SERVER, 2),), (Role("ps", SERVER, 4), Role("launcher", LAUNCHER)))
NEAR = (Topology(), Topology(prefer=Level.NODE))


@dataclass
class Cost:
    """Processor seconds of each decision, and how many found places: with role members, and the workers alone."""

    machines: int
    taken: float  # part of the GPUs when the first gang came
    with_roles: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    found: int = 0
    found_alone: int = 0

    @property
    def p99_ms(self) -> float:
        """Of the decisions with role members."""
        return 1000 * _p99(self.with_roles)

    @property
    def note(self) -> str:
        """The figures in a line."""
        taken = f"{100 * self.taken:.0f} % of their GPUs held at first"
        return (
            f"gangs with roles, {len(self.with_roles)} on {self.machines} machines, {taken}, the processor's time of a "
            f"decision: {_times(self.with_roles)} ({self.found} placed); the same workers without role members: "
            f"{_times(self.alone)} ({self.found_alone} could be placed)"
        )


def measure(world: World, count: int = GANGS) -> Cost:
    """Fill the machines of a world, then place so many gangs."""
    pods = [_workload(f"p{number}", ask, Gang(), Topology()) for number, ask in enumerate(world.arrivals)]
    gangs = list(islice(_gangs(), count))
    session = Session(Snapshot.build(0.0, world.nodes, (Team(TEAM),), (), (*pods, *gangs)), Settings())
    cost = Cost(len(world.nodes), _fill(session, pods, WHOLE * world.gpus))
    for gang in gangs:
        places, seconds = _timed(session, gang)
        cost.with_roles.append(seconds)
        bare, seconds = _timed(session, replace(gang, roles=()))
        cost.alone.append(seconds)
        cost.found += places is not None
        cost.found_alone += bare is not None
        if places is not None:
            session.plan.place(gang, places, set())
    return cost


def _fill(session: Session, pods: Sequence[Workload], capacity: int) -> float:
    """Place pods of the list until `TAKEN` of the milli-GPU are held; the part that is."""
    held = 0
    for pod in pods:
        if held >= TAKEN * capacity:
            break
        if (places := find(session, pod, IDLE)) is not None:
            session.plan.place(pod, places, set())
            held += pod.ask.milli
    return held / capacity


def _gangs() -> Iterator[Workload]:
    """Every shape with every set of roles, near and anywhere, over and over."""
    for number, ((workers, gpus), roles, near) in enumerate(cycle(product(SHAPES, ROLES, NEAR))):
        ask = ResourceRequest(gpus=gpus, cpu_milli=4000 * gpus, memory=16 * 1024 * gpus)
        yield replace(_workload(f"g{number}", ask, Gang(workers, workers, workers), near), roles=roles)


def _workload(uid: str, ask: ResourceRequest, gang: Gang, topology: Topology) -> Workload:
    return Workload(uid, uid, TEAM, Kind.TRAINING, ask, gang, topology)


def _timed(session: Session, gang: Workload) -> tuple[Places | None, float]:
    before = time.process_time()
    places = find(session, gang, IDLE)
    return places, time.process_time() - before


def _times(seconds: Sequence[float]) -> str:
    mean, longest = 1000 * statistics.fmean(seconds), 1000 * max(seconds)
    return f"mean {mean:.2f} ms, p99 {1000 * _p99(seconds):.2f}, longest {longest:.1f}"


def _p99(times: Sequence[float]) -> float:
    return sorted(times)[int(len(times) * 0.99) - 1]
