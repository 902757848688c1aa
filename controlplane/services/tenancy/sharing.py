"""What holds shares on the nodes there are, and what a pod is told of it."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from controlplane.models import Node, Takes
from gpushare.backends.catalogue import enforcer_of
from gpushare.backends.gives import Device, NotGiven, part
from gpushare.gpu import Enforcer, Share


@dataclass(frozen=True, slots=True)
class Sharing:
    """Nodes that take shares: of which pool, what holds shares there, and their GPUs."""

    pool: str
    enforcer: Enforcer
    device: Device


def kinds() -> tuple[Sharing, ...]:
    """The nodes that take shares, by kind."""
    takes = Node.objects.filter(takes_shares=True, gpu_count__gt=0).exclude(pool__takes=Takes.WHOLE)
    columns = ("pool__name", "pool__enforcer", "enforcer", "enforces_limits", "gpu_model", "gpu_memory")
    kinds = takes.order_by(*columns).values_list(*columns).distinct()
    return tuple(
        Sharing(pool, enforcer_of(chosen, says, enforces=on), Device(model, memory))
        for pool, chosen, says, on, model, memory in kinds
    )


def by_node(names: Collection[str]) -> Callable[[str, Share], dict[str, Any]]:
    """What a pod is told of a share by one of these nodes: `enforcer` and `profile` of PodSpec, and for one on demand
    the GPUs that it may use. One query, with the first use."""
    known: dict[str, tuple[Enforcer, Device, tuple[int, ...]]] = {}

    def told(node: str, share: Share) -> dict[str, Any]:
        if not known:
            columns = ("name", "pool__enforcer", "enforcer", "enforces_limits", "gpu_model", "gpu_memory")
            more = ("gpu_count", "lost_gpus")
            nodes = Node.objects.filter(name__among=list(names)).values_list(*columns, *more)
            for name, chosen, says, on, model, memory, count, lost in nodes:
                well = tuple(index for index in range(count) if index not in lost)
                known[name] = enforcer_of(chosen, says, enforces=on), Device(model, memory), well
        enforcer, device, well = known.get(node, (Enforcer.ADVISORY, Device("", 0), ()))
        given = part(enforcer, share, device)
        said = {"enforcer": enforcer.value, "profile": "" if isinstance(given, NotGiven) else given.profile}
        return said | ({"on_demand": device.memory, "reach": well} if share.on_demand else {})

    return told
