"""What is known of one training in one window."""

from dataclasses import dataclass
from enum import StrEnum

from autoscaler.bottleneck.constants import DEFAULT, Constants


class Bottleneck(StrEnum):
    """What a training's steps are bound by. GPU compute is the healthy one."""

    GPU_COMPUTE = "gpu_compute"
    INPUT_CPU = "input_cpu"
    STORAGE = "storage"
    NETWORK = "network"
    PARAMETER_SERVER = "parameter_server"
    TOO_SMALL = "too_small"
    STRAGGLER = "straggler"


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker's means in a window, by its reporter: seconds a step. None: not known."""

    step: float
    data_wait: float | None = None
    sync: float | None = None

    @property
    def own(self) -> float | None:
        """The time in which it did its own work; None where the exchange, which hides it, is not known."""
        return None if self.sync is None else max(self.step - self.sync - (self.data_wait or 0.0), 0.0)


@dataclass(frozen=True, slots=True)
class Levels:
    """How busy what the training uses is, 0..1; from Prometheus. None: not known, or there is none."""

    cpu: float | None = None  # of the workers' CPU limits
    throttled: float | None = None  # of their CPU periods
    disk: float | None = None  # of the time, of the disk or volume they read
    nic: float | None = None  # of the line rate, of their nodes' busiest interface
    server_cpu: float | None = None  # of the busiest parameter server's CPU limit
    sm: tuple[float, ...] = ()  # of each worker's GPUs; a worker a place

    @property
    def gpu(self) -> float | None:
        """Of all its GPUs, on average."""
        return sum(self.sm) / len(self.sm) if self.sm else None


@dataclass(frozen=True, slots=True)
class Window:
    """All of one window. `nodes` are those that its workers are on; `ranks` the workers', none: their places."""

    workers: tuple[Worker, ...] = ()
    levels: Levels = Levels()
    nodes: int = 1
    ranks: tuple[int, ...] = ()


def smoothed(before: Levels, now: Levels, constants: Constants = DEFAULT) -> Levels:
    """The levels so far: an exponential mean; what is not known now stays."""
    part = constants.smooth
    return Levels(
        cpu=_mean(before.cpu, now.cpu, part),
        throttled=_mean(before.throttled, now.throttled, part),
        disk=_mean(before.disk, now.disk, part),
        nic=_mean(before.nic, now.nic, part),
        server_cpu=_mean(before.server_cpu, now.server_cpu, part),
        sm=_means(before.sm, now.sm, part),
    )


def _mean(before: float | None, now: float | None, part: float) -> float | None:
    if now is None or before is None:
        return before if now is None else now
    return before + part * (now - before)


def _means(before: tuple[float, ...], now: tuple[float, ...], part: float) -> tuple[float, ...]:
    if len(before) != len(now):
        return now or before
    return tuple(one + part * (other - one) for one, other in zip(before, now, strict=True))
