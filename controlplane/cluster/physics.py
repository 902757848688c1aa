"""How fast things run in the simulated cluster: step times, shared devices, start delays.

Pure functions of their arguments. The numbers are ours: plausible, made up, and in no way a measurement, but for how
long a borrower takes to give a lent GPU back.

Training is synchronous data parallelism: in each step every worker computes on its own batch, then all exchange
gradients and wait for each other. So a gang is as fast as its slowest device, and makes no progress at all unless
every worker runs. The input pipeline works in parallel with the devices.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.cluster import draws, reclaims
from controlplane.cluster.serving.traffic import Sizes
from gpushare.gpu import WHOLE
from scheduler.model.workload import Kind, Level

# Compute speed of one device, A100 = 1, as an average over our profiles. A profile may say otherwise.
MODEL_SPEED: Mapping[str, float] = {
    "H100": 1.9, "A100": 1.0, "L40S": 0.8, "A10": 0.5, "V100": 0.5, "V100M16": 0.5, "V100M32": 0.5, "P100": 0.25,
    "T4": 0.2, "G2": 0.5, "G3": 0.8,
}  # fmt: skip
# How many times longer gradients take than inside one node (NVLink counts as a node here, switched at once).
DISTANCE: Mapping[Level, float] = {
    Level.NVLINK: 0.5,
    Level.NODE: 1.0,
    Level.RACK: 3.0,
    Level.ZONE: 5.0,
    Level.CLUSTER: 8.0,
}
LATENCY_PART = 0.01  # each further device adds this part of the exchange: rounds of a ring, stragglers
OVERLAP = 2.0  # exponent of (Tc^g + Tn^g)^(1/g): how far computing hides the exchange (Pollux, OSDI'21, eq. 12)
INTERFERENCE = 0.03  # part of its compute that each co-tenant of a shared device costs by caches and switches
# Seconds from creation to running containers: image pull, volumes, for a service also loading the model.
START_MEDIAN: Mapping[Kind, float] = {Kind.TRAINING: 20.0, Kind.NOTEBOOK: 10.0, Kind.INFERENCE: 30.0}
START_SIGMA = 0.5
START_MIN, START_MAX = 5.0, 60.0


@dataclass(frozen=True, slots=True)
class TrainingProfile:
    """A training program. Seconds are per step of one worker on one whole A100 of its own.

    step_seconds: compute; speed: compute speed by GPU model where it is not MODEL_SPEED. sync_seconds: exchange of
    gradients between two devices of one node. input_core_seconds: CPU time to prepare one step's input per device.
    input_disk_seconds: time in which its node's disk reads one step's input, per device.
    batch: samples per device and step; with another one (a job file may name it) the part batch_part of the compute and
    all input go with it. noise_batches: the gradient noise scale, in such batches of one device.
    duty: part of the compute time in which kernels run. memory: MiB per device.
    failure_rate: part of attempts that die of something not their own.
    """

    name: str
    step_seconds: float = 0.25
    sync_seconds: float = 0.02
    input_core_seconds: float = 0.1
    input_disk_seconds: float = 0.0
    batch: int = 64
    batch_part: float = 0.7
    noise_batches: float = 32.0
    duty: float = 0.9
    memory: int = 12_000
    checkpoint_seconds: float = 5.0
    failure_rate: float = 0.0
    loss: tuple[float, float] = (4.0, 0.5)  # at the start; where it ends
    speed: Mapping[str, float] = field(default_factory=dict)

    @property
    def noise(self) -> float:
        """The gradient noise scale, samples."""
        return self.noise_batches * self.batch

    def compute_seconds(self, model: str) -> float:
        """Of one step on a whole device of this model; an unknown model is as fast as an A100."""
        return self.step_seconds / self.speed.get(model, MODEL_SPEED.get(model, 1.0))

    def longer(self, batch: float | None) -> float:
        """How many times as long it computes with so many samples of a device; None: its own batch."""
        return 1.0 if batch is None else 1.0 - self.batch_part + self.batch_part * batch / self.batch


@dataclass(frozen=True, slots=True)
class NotebookProfile:
    """A person at a notebook: cells that run at duty `busy`, then time to think. Parts of time, 0..1."""

    name: str
    busy: float = 0.6
    active_ratio: float = 0.25  # of the minutes of a session in which a cell runs
    session_seconds: float = 7200.0  # median until the person goes away and leaves it open
    memory: int = 4_000

    @property
    def mean_duty(self) -> float:
        """Over a session."""
        return self.busy * self.active_ratio


@dataclass(frozen=True, slots=True)
class ServiceProfile:
    """A model behind an address; its people sized it, so numbers are of the share and model that a replica asks for.

    service_seconds: of one request; parallel: requests at once in one replica. growth: None, they do not disturb each
    other; else they are one batch, which each request but the first makes longer by this part. sizes: how requests
    differ. load: requests that come by and by, as a part of what the most replicas can answer, for services that say
    nothing of their rate.
    """

    name: str
    service_seconds: float = 0.05
    parallel: int = 4
    growth: float | None = None
    sizes: Sizes = Sizes()
    load: float = 0.35
    memory: int = 16_000
    speed: Mapping[str, float] = field(default_factory=dict)

    @property
    def batch(self) -> int:
        """Requests that a replica serves together."""
        return 1 if self.growth is None else self.parallel

    @property
    def max_per_second(self) -> float:
        """Requests that one replica can answer, whose sizes are all the mean."""
        longer = 0.0 if self.growth is None else self.growth * (self.parallel - 1)
        return self.parallel / (self.service_seconds * (1 + longer))

    def seconds_on(self, model: str, reference: str, ratio: float) -> float:
        """Of one request on a device of this model with this many times the compute that was asked for."""
        return self.service_seconds * self._speed(reference) / self._speed(model) / ratio

    def _speed(self, model: str) -> float:
        return self.speed.get(model, MODEL_SPEED.get(model, 1.0))


Profile = TrainingProfile | NotebookProfile | ServiceProfile
GENERIC: Mapping[Kind, Profile] = {
    Kind.TRAINING: TrainingProfile("generic-training"),
    Kind.NOTEBOOK: NotebookProfile("generic-notebook"),
    Kind.INFERENCE: ServiceProfile("generic-service"),
}


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a gang runs: devices in all, the slowest model, how far apart, CPU per device.

    granted is the part (0..1) of a device's compute that the worst placed worker gets; slowdown >= 1 is what its
    neighbours, or its node, cost beyond that. on_one_node: devices on the node that has most of them. batch: samples of
    one device in a step; None: the program's own.
    """

    devices: int
    model: str
    level: Level
    cores_per_device: float
    granted: float = 1.0
    slowdown: float = 1.0
    on_one_node: int = 1
    batch: float | None = None

    def inputs(self, profile: TrainingProfile) -> float:
        """How many times as much input a step of a device has as the program's own batch."""
        return 1.0 if self.batch is None else self.batch / profile.batch


@dataclass(frozen=True, slots=True)
class Step:
    """One training step in seconds. data_wait and sync are what they add to the compute.

    by_disk: whether it is the disk that input is waited for, not the CPU.
    """

    compute: float
    sync: float
    data_wait: float
    by_disk: bool = False

    @property
    def seconds(self) -> float:
        """The whole step."""
        return self.compute + self.sync + self.data_wait


def step(profile: TrainingProfile, layout: Layout) -> Step:
    """How long one step takes there."""
    compute = compute_seconds(profile, layout.model, layout.slowdown, layout.granted, layout.batch)
    exchange = exchange_seconds(profile, layout)
    both = (compute**OVERLAP + exchange**OVERLAP) ** (1 / OVERLAP) if exchange else compute
    cores = layout.cores_per_device
    inputs = layout.inputs(profile)
    prepare = inputs * profile.input_core_seconds / cores if cores > 0 else 0.0  # no CPU asked for = no limit set
    read = inputs * profile.input_disk_seconds * layout.on_one_node
    return Step(compute, both - compute, max(0.0, prepare - both, read - both), read > prepare)


def compute_seconds(
    profile: TrainingProfile, model: str, slowdown: float, granted: float, batch: float | None = None
) -> float:
    """How long one worker computes for a step, with this part (0..1) of each of its devices."""
    return profile.compute_seconds(model) * slowdown / min(1.0, granted / profile.duty) * profile.longer(batch)


def exchange_seconds(profile: TrainingProfile, layout: Layout) -> float:
    """A ring all-reduce: 2 (K - 1) / K of the gradients pass each link, at the widest distance's speed."""
    count = layout.devices
    if count < 2:
        return 0.0
    ring = 2 * (count - 1) / count * (1 + LATENCY_PART * (count - 2))
    return profile.sync_seconds * DISTANCE[layout.level] * ring


def samples_per_second(profile: TrainingProfile, layout: Layout) -> float:
    """Throughput of the whole gang."""
    batch = profile.batch if layout.batch is None else layout.batch
    return layout.devices * batch / step(profile, layout).seconds


def granted(index: int, demands: Sequence[float], guarantees: Sequence[float], limits: Sequence[float]) -> float:
    """What one tenant of a device gets of its compute, 0..1: its guarantee first, then of what others leave idle.

    What is left over is divided by guarantee among those that want more, none above its limit. What has no guarantee
    gets what all others leave.
    """
    got = [min(d, g) for d, g in zip(demands, guarantees, strict=True)]
    left = 1.0 - sum(got)
    for _ in demands:  # each pass satisfies one tenant at least, or divides all
        wants = [i for i, d in enumerate(demands) if min(d, limits[i]) - got[i] > 1e-9]
        if not wants or left <= 1e-9:
            break
        weight = sum(guarantees[i] for i in wants)
        parts = {i: guarantees[i] / weight if weight else 1 / len(wants) for i in wants}
        extra = {i: min(min(demands[i], limits[i]) - got[i], left * parts[i]) for i in wants}
        for i, more in extra.items():
            got[i] += more
        left -= sum(extra.values())
    return got[index]


def slowdown(tenants: int) -> float:
    """What sharing a device with others costs beyond the division of its time."""
    return 1.0 + INTERFERENCE * max(0, tenants - 1)


def start_seconds(kind: Kind, seed: int, pod: str) -> float:
    """From a pod's creation until its containers run: whole seconds, always the same for one pod."""
    drawn = draws.lognormal(START_MEDIAN[kind], START_SIGMA, seed, "start", pod)
    return float(math.ceil(min(max(drawn, START_MIN), START_MAX)))


def give_back_seconds(seed: int, pod: str, *, saves: bool) -> float:
    """From the decision until a worker on a lent GPU is gone, as measured (reclaims.py); the same for one pod."""
    spread = reclaims.measured().seconds["save" if saves else "leave"]["gone"]
    return spread.at(draws.uniform(seed, "give back", pod))


def gpu_ratio(milli: int) -> float:
    """Milli-GPU as a part of one device."""
    return milli / WHOLE
