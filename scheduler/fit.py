"""What fits where: how many workers each node takes, and what could never fit on this cluster."""

from typing import NamedTuple

import numpy as np

from gpushare.gpu import WHOLE
from gpushare.packing import Bools, shares_that_fit
from scheduler.decision import Reason
from scheduler.plan import Free, Plan, free_of, is_idle
from scheduler.snapshot import COMPUTE, LATER, MEMORY, Flavor, Ints, Inventory
from scheduler.workload import Ask, Workload, least

MOST_KEPT = 10_000  # asks of which it is remembered what the empty cluster takes
MANY = 1 << 40  # workers a node takes that ask nothing of it


class Refusal(NamedTuple):
    """Why a workload cannot have what it asks: the code, the sentence, the figures in it."""

    reason: Reason
    message: str
    numbers: tuple[tuple[str, int | str], ...] = ()


def per_node(inventory: Inventory, ask: Ask, free: Free, allowed: Bools) -> Ints:
    """How many workers each allowed node takes. Shape [N]."""
    most = np.full(len(inventory.nodes), MANY, dtype=np.int64)
    if ask.cpu_milli:
        most = np.minimum(most, free.node[COMPUTE] // ask.cpu_milli)
    if ask.memory:
        most = np.minimum(most, free.node[MEMORY] // ask.memory)
    if ask.share:
        shares = shares_that_fit(free.gpu, ask.share)
        most = np.minimum(most, np.bincount(inventory.node_of, shares, len(most)).astype(np.int64))
    elif ask.gpus:
        most = np.minimum(most, free.idle // ask.gpus)
    return np.where(allowed, np.maximum(most, 0), 0)


def per_link(inventory: Inventory, ask: Ask, free: Free, nodes: Ints) -> Ints:
    """How many workers each NVLink domain takes; nodes is `per_node`. Shape [L]."""
    links = len(inventory.node_of_link)
    if ask.share:
        sums = np.bincount(inventory.link_of, shares_that_fit(free.gpu, ask.share), links)
    else:
        sums = np.bincount(inventory.link_of, is_idle(free.gpu), links) // max(1, ask.gpus)
    return np.minimum(sums.astype(np.int64), nodes[inventory.node_of_link])


def allowed_nodes(inventory: Inventory, ask: Ask, flavor: Flavor | None) -> Bools:
    """Nodes of the flavor that take new work and have devices with enough memory. Shape [N]."""
    if flavor is None:
        return inventory.usable
    return inventory.usable & flavor.nodes & (inventory.gpu_memory >= ask.least_memory)


def flavors(plan: Plan, workload: Workload) -> list[Flavor | None]:
    """The flavors a workload may use, best first; [None] for work without GPUs. All roles of a gang use the same one.

    Its own quota comes before borrowed, then its order of models, then the smallest GPU that does.
    """
    ask = workload.ask
    if not workload.uses_gpus:
        return [None]
    known = plan.options.get(workload.id)  # asked ten times in a turn
    if known is None or known[0] is not ask or known[1] is not workload.roles:
        plan.options[workload.id] = known = ask, workload.roles, _of_all_roles(plan, workload)
    fitting = known[2]
    if len(fitting) < 2:
        return [*fitting]
    need = workload.need_milli(least(workload))
    ranked = plan.ranked.get(workload.id)  # most times nothing has changed since it was asked last
    if ranked is not None and ranked[0] is known and ranked[1] == (plan.usage.state, need):
        return [*ranked[2]]
    order: list[tuple[tuple[bool, int, int, str], Flavor]] = []
    for flavor in fitting:
        room = plan.usage.within_nominal(workload.team, flavor.pool, LATER)
        rank = ask.models.index(flavor.model) if ask.models else 0
        order.append(((room < need, rank, flavor.gpu_memory, flavor.pool), flavor))
    best = [flavor for _, flavor in sorted(order, key=lambda pair: pair[0])]
    plan.ranked[workload.id] = known, (plan.usage.state, need), best
    return [*best]


def _of_all_roles(plan: Plan, workload: Workload) -> list[Flavor]:
    fitting = _fitting(plan, workload.ask)
    for role in workload.roles:
        theirs = _fitting(plan, role.ask)
        fitting = [flavor for flavor in fitting if flavor in theirs]
    return fitting


def _fitting(plan: Plan, ask: Ask) -> list[Flavor]:
    """The flavors whose model and memory do for an ask."""
    needed, models = ask.least_memory, ask.models
    return [f for f in plan.inventory.flavors if f.gpu_memory >= needed and (not models or f.model in models)]


def never(plan: Plan, workload: Workload) -> Refusal | None:
    """Why the workload could not start on this cluster even if it were empty, or None."""
    ask, inventory = workload.ask, plan.inventory
    if ask.milli:
        if not inventory.flavors:
            return Refusal(Reason.NO_MATCHING_FLAVOR, "The cluster has no GPUs.")
        fitting = [f for f in inventory.flavors if not ask.models or f.model in ask.models]
        if not fitting:
            have = ", ".join(sorted({f.model for f in inventory.flavors}))
            return Refusal(
                Reason.NO_MATCHING_FLAVOR, f"No node has {' or '.join(ask.models)} GPUs; the cluster has {have}."
            )
        largest = max(f.gpu_memory for f in fitting)
        if largest < ask.least_memory:
            needs = ask.least_memory
            return Refusal(
                Reason.GPU_MEMORY_DOES_NOT_FIT,
                f"Needs {needs} MiB of memory on a GPU; the largest allowed GPU has {largest} MiB.",
                (("needs_mib", needs), ("largest_mib", largest)),
            )
    wanted = least(workload)
    count, usable = _held_at_most(plan, workload)
    if count < wanted:
        return _too_big(plan, workload, count)
    if usable < wanted:
        what = "worker" if wanted == 1 else "workers"
        return Refusal(
            Reason.WAITING_FOR_NODES,
            f"Needs {wanted} {what}; the nodes that are ready and take work could hold {usable}. "
            f"Others are down, cordoned or have lost GPUs.",
            (("needs_workers", wanted), ("fit_workers", usable)),
        )
    return None


def _held_at_most(plan: Plan, workload: Workload) -> tuple[int, int]:
    """Workers that the empty cluster takes: with all nodes as they should be, and as they are."""
    kept, ask = plan.hold_at_most, workload.ask
    if ask not in kept:
        if len(kept) > MOST_KEPT:
            kept.clear()
        kept[ask] = (
            _most_workers(plan, workload, empty(plan, is_whole=True), True),
            _most_workers(plan, workload, empty(plan, is_whole=False), False),
        )
    return kept[ask]


def empty(plan: Plan, is_whole: bool) -> Free:
    """The cluster without any work; is_whole: as if no device were lost either."""
    inventory = plan.inventory
    gpu = inventory.gpu_capacity
    if is_whole:
        sizes = np.diff(inventory.offset)
        gpu = np.stack([np.full(len(inventory.node_of), WHOLE, dtype=np.int64), np.repeat(inventory.gpu_memory, sizes)])
        return Free(gpu, inventory.node_capacity, sizes)
    return free_of(inventory, gpu, inventory.node_capacity)


def _most_workers(plan: Plan, workload: Workload, free: Free, also_unusable: bool) -> int:
    inventory, ask = plan.inventory, workload.ask
    most = 0
    for flavor in flavors(plan, workload):
        if also_unusable:
            allowed = np.ones(len(inventory.nodes), dtype=np.bool_) if flavor is None else flavor.nodes
            allowed = allowed & (inventory.gpu_memory >= ask.least_memory) if flavor else allowed
        else:
            allowed = allowed_nodes(inventory, ask, flavor)
        most = max(most, int(per_node(inventory, ask, free, allowed).sum()))
    return most


def _too_big(plan: Plan, workload: Workload, count: int) -> Refusal:
    ask, wanted = workload.ask, least(workload)
    if count:
        return Refusal(
            Reason.NO_MATCHING_FLAVOR,
            f"Needs {wanted} workers of {ask_text(ask)}; the whole cluster could hold {count}.",
            (("needs_workers", wanted), ("fit_workers", count)),
        )
    gpus = max((n.gpus for n in plan.inventory.nodes if not ask.models or n.model in ask.models), default=0)
    cpu = int(plan.inventory.node_capacity[COMPUTE].max(initial=0))
    memory = int(plan.inventory.node_capacity[MEMORY].max(initial=0))
    return Refusal(
        Reason.NO_MATCHING_FLAVOR,
        f"One worker needs {ask_text(ask)}; the largest nodes have {gpus} GPUs, {cpu / 1000:g} cores, {memory} MiB.",
        (("needs_gpus", ask.gpus), ("node_gpus", gpus), ("node_cpu_milli", cpu), ("node_memory_mib", memory)),
    )


def ask_text(ask: Ask) -> str:
    """One worker's ask in words: `4 GPUs`, `0.5 of a GPU with 8000 MiB`, `2 cores`."""
    if ask.share:
        memory = f" with {ask.share.memory} MiB" if ask.share.memory else ""
        return f"{ask.share.guarantee / 1000:g} of a GPU{memory}"
    if ask.gpus:
        return f"{ask.gpus} GPU{'s' if ask.gpus > 1 else ''}"
    return f"{ask.cpu_milli / 1000:g} cores and {ask.memory} MiB"
