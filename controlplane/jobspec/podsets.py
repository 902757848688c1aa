"""What the roles of a gang ask, as JSON values: in the row of a workload and in stored rounds."""

from collections.abc import Iterable
from typing import Any

from gpushare.gpu import NO_LABELS, Labels, Share
from scheduler.model.workload import MAIN_ROLE, ResourceRequest, Role


def ask_values(ask: ResourceRequest) -> tuple[Any, ...]:
    """[GPUs, share or null, MiB of a GPU, 1/1000 cores, MiB, models]; a share is [guarantee, limit, MiB, labels]; one
    on demand [guarantee, limit, 0, "", MiB].

    Then what its team demands of what holds a share, if it does.
    """
    labels: tuple[Any, ...] = (labels_text(ask.labels),) if ask.labels else ()
    if ask.share and ask.share.on_demand:
        labels = ("", ask.share.on_demand)
    share = ask.share and (ask.share.guarantee, ask.share.limit, ask.share.memory, *labels)
    demands = (ask.demands,) if ask.demands else ()
    return (ask.gpus, share, ask.gpu_memory, ask.cpu_milli, ask.memory, ask.models, *demands)


def ask_of(values: Any) -> ResourceRequest:
    """The ask that `ask_values` wrote."""
    devices, share, gpu_memory, cpu_milli, memory, models, *demands = values
    held = tuple(demands[0]) if demands else ()
    part = Share(*share[:3], *map(labels_of, share[3:4]), *share[4:]) if share else None
    return ResourceRequest(devices, part, gpu_memory, cpu_milli, memory, tuple(models), held)


def labels_text(labels: Labels) -> str:
    """Affinity, anti-affinity and exclusion of a share, between commas; empty without any. No label has a comma."""
    return ",".join((labels.affinity, labels.anti_affinity, labels.exclusion)) if labels else ""


def labels_of(text: str) -> Labels:
    """The labels that `labels_text` wrote."""
    return Labels(*text.split(",")) if text else NO_LABELS


def share_of_row(guarantee: int, limit: int, memory: int, labels: str = "", *, on_demand: bool = False) -> Share | None:
    """The share that the columns of a workload's row say; None: it has none. memory: MiB that it may have on a GPU."""
    if not guarantee:
        return None
    if on_demand:
        return Share(guarantee, limit, 0, on_demand=memory)
    return Share(guarantee, limit, memory, labels_of(labels))


def roles_values(roles: Iterable[Role]) -> list[list[Any]]:
    """For each role [name, count, ask]."""
    return [[role.name, role.count, ask_values(role.ask)] for role in roles]


def role_ask(values: Iterable[Any], rank: int) -> ResourceRequest | None:
    """What the role member with this rank asks; None for a worker."""
    for _, count, ask in values:
        if rank < count:
            return ask_of(ask)
        rank -= count
    return None


def role_of(values: Iterable[Any], rank: int) -> tuple[str, int]:
    """The role of the member with this rank, and its number within the role, from 0."""
    for name, count, _ in values:
        if rank < count:
            return name, rank
        rank -= count
    return MAIN_ROLE, rank


def recounted(values: Iterable[Any], counts: Iterable[int]) -> list[list[Any]]:
    """The same roles with so many members each, in their order."""
    return [[name, count, ask] for (name, _, ask), count in zip(values, counts, strict=True)]


def roles_of(values: Iterable[Any]) -> tuple[Role, ...]:
    """The roles that `roles_values` wrote."""
    return tuple(Role(name, ask_of(ask), count) for name, count, ask in values)
