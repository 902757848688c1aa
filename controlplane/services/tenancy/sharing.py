"""What holds shares on the nodes there are, and what a pod is told of it."""

from collections.abc import Callable
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


def by_node() -> Callable[[str, Share], dict[str, Any]]:
    """What a pod is told of a share by its node: `enforcer` and `profile` of PodSpec. One query, with the first use."""
    known: dict[str, tuple[Enforcer, Device]] = {}

    def told(node: str, share: Share) -> dict[str, Any]:
        if not known:
            columns = ("name", "pool__enforcer", "enforcer", "enforces_limits", "gpu_model", "gpu_memory")
            for name, chosen, says, on, model, memory in Node.objects.values_list(*columns):
                known[name] = enforcer_of(chosen, says, enforces=on), Device(model, memory)
        enforcer, device = known.get(node, (Enforcer.ADVISORY, Device("", 0)))
        given = part(enforcer, share, device)
        return {"enforcer": enforcer.value, "profile": "" if isinstance(given, NotGiven) else given.profile}

    return told
