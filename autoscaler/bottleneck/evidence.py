"""The part of a step that would go if a bottleneck were removed, class by class."""

from collections.abc import Mapping
from dataclasses import dataclass

from autoscaler.bottleneck.constants import DEFAULT, Constants
from autoscaler.bottleneck.window import Bottleneck, Levels, Window

WAITS = (Bottleneck.INPUT_CPU, Bottleneck.STORAGE)
EXCHANGES = (Bottleneck.NETWORK, Bottleneck.PARAMETER_SERVER)


@dataclass(frozen=True, slots=True)
class Shares:
    """Parts of the mean step, 0..1. None: not known."""

    data_wait: float | None
    sync: float | None  # of the worker that waits least for others: the exchange itself


def shares(window: Window) -> Shares | None:
    """What the reporters of a window say; None if there are none."""
    steps = [worker.step for worker in window.workers if worker.step > 0]
    if not steps:
        return None
    mean = sum(steps) / len(steps)
    waits = [worker.data_wait for worker in window.workers if worker.data_wait is not None]
    syncs = [worker.sync for worker in window.workers if worker.sync is not None]
    return Shares(
        data_wait=min(sum(waits) / len(waits) / mean, 1.0) if waits else None,
        sync=min(min(syncs) / mean, 1.0) if syncs else None,
    )


def removable(window: Window, levels: Levels, constants: Constants = DEFAULT) -> Mapping[Bottleneck, float]:
    """The part above what a healthy job has, for each class that can be told in this window; may be below 0.

    `levels` are smoothed. A class that the levels speak against has minus its least: it loses as fast as it can win.
    """
    told = shares(window)
    if told is None:
        return {}
    found: dict[Bottleneck, float] = {}
    if told.data_wait is not None:
        guilty = of_wait(levels, constants)
        found |= {one: (told.data_wait if one is guilty else 0.0) - constants.least_wait for one in WAITS}
    if told.sync is not None:
        guilty = of_exchange(levels, window.nodes, constants)
        found |= {one: (told.sync if one is guilty else 0.0) - constants.least_sync for one in EXCHANGES}
    if levels.sm and told.data_wait is not None and told.sync is not None:
        waits = told.data_wait + told.sync
        idle = 1.0 - max(levels.sm) / constants.busy if waits < constants.waits else 0.0
        found[Bottleneck.TOO_SMALL] = idle - constants.least_idle
    return found


def of_wait(levels: Levels, constants: Constants = DEFAULT) -> Bottleneck | None:
    """What input would be waited for; None if neither CPU nor storage is busy enough."""
    is_starved = (levels.cpu or 0.0) > constants.cpu and (levels.throttled or 0.0) > constants.throttled
    if (levels.disk or 0.0) > (constants.disk_full if is_starved else constants.disk):
        return Bottleneck.STORAGE
    return Bottleneck.INPUT_CPU if is_starved else None


def of_exchange(levels: Levels, nodes: int, constants: Constants = DEFAULT) -> Bottleneck | None:
    """What an exchange would be waited for."""
    if (levels.server_cpu or 0.0) > constants.server_cpu:
        return Bottleneck.PARAMETER_SERVER
    is_busy = levels.nic is None or levels.nic > constants.nic  # where no line is measured, the nodes have to do
    return Bottleneck.NETWORK if nodes > 1 and is_busy else None
