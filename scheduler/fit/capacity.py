"""What fits where: how many workers each node takes, and what could never fit on this cluster."""

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np

from gpushare.backends.catalogue import demands_text
from gpushare.gpu import WHOLE, Share
from gpushare.packing import Bools, shares_that_fit
from scheduler.model.decision import Reason
from scheduler.model.snapshot import COMPUTE, FUTURE_IDLE, MEMORY, Flavor, Ints, Inventory
from scheduler.model.workload import ResourceRequest, Role, Workload, least
from scheduler.quota.tree import Usage
from scheduler.state.free import Free, free_of, is_idle
from scheduler.state.passes import Host, shares_on, workers_on

MAX_KEPT = 10_000  # asks of which it is remembered what the empty cluster takes


class Refusal(NamedTuple):
    """Why a workload cannot have what it asks: the code, the sentence, the figures in it."""

    reason: Reason
    message: str
    numbers: tuple[tuple[str, int | str], ...] = ()


def per_node(inventory: Inventory, ask: ResourceRequest, free: Free, allowed: Bools) -> Ints:
    """How many workers each allowed node takes. Shape [N]."""
    if not ask.share:
        return workers_on(free.node, free.idle, allowed, Host(ask.cpu_milli, ask.memory, ask.gpus))
    hosts = workers_on(free.node, free.idle, allowed, Host(ask.cpu_milli, ask.memory, 0))
    return np.minimum(hosts, shares_on(inventory, free.gpu, ask.share))


def per_link(inventory: Inventory, ask: ResourceRequest, free: Free, nodes: Ints) -> Ints:
    """How many workers each NVLink domain takes; nodes is `per_node`. Shape [L]."""
    links = len(inventory.node_of_link)
    if ask.share:
        sums = gathered(ask, shares_that_fit(free.gpu, ask.share), inventory.link_of, links)
    else:
        sums = np.bincount(inventory.link_of, is_idle(free.gpu), links).astype(np.int64) // max(1, ask.gpus)
    return np.minimum(sums, nodes[inventory.node_of_link])


def gathered(ask: ResourceRequest, room: Ints, part_of: Ints, count: int) -> Ints:
    """How many workers each of `count` parts takes, by the room in its pieces: the most of one where all go on one.

    room: of each piece; part_of: the part that it is in, of the same shape.
    """
    if not ask.labels.affinity:
        return np.bincount(part_of, room, count).astype(np.int64)
    most = np.zeros(count, dtype=np.int64)
    np.maximum.at(most, part_of, room)
    return most


def in_all(ask: ResourceRequest, nodes: Ints) -> int:
    """How many workers all nodes take together; nodes is `per_node`."""
    return int(nodes.max(initial=0) if ask.labels.affinity else nodes.sum())


def allowed_nodes(inventory: Inventory, ask: ResourceRequest, flavor: Flavor | None) -> Bools:
    """Nodes of the flavor that take new work of this kind and have devices with enough memory. Shape [N]."""
    if flavor is None:
        return inventory.usable
    return inventory.usable & _suited(inventory, ask, flavor)


def _suited(inventory: Inventory, ask: ResourceRequest, flavor: Flavor) -> Bools:
    """Nodes of the flavor that would do for the ask if all were well with them. Shape [N]."""
    takes = inventory.takes_whole
    if ask.share:
        takes = inventory.takes_shares & inventory.gives(ask.share, ask.demands)
    return takes & flavor.nodes & (inventory.gpu_memory >= ask.min_memory)


def is_given_wherever(inventory: Inventory, one: ResourceRequest, other: ResourceRequest) -> bool:
    """Whether each node that gives the other share gives this one too: a smaller one may be no MIG instance."""
    if one.share is None or other.share is None or one.share == other.share:
        return True
    first, second = (inventory.gives(ask.share, ask.demands) for ask in (one, other) if ask.share)
    return not bool((second & ~first).any())


class Flavors:
    """Which flavors each workload may use, remembered within a round: it is asked ten times in a turn.

    usage: what teams hold now on the plan of the round.
    """

    def __init__(self, inventory: Inventory, usage: Usage) -> None:
        self._inventory, self._usage = inventory, usage
        # By workload: the flavors that do for it, as long as it asks so.
        self._fitting: dict[str, tuple[ResourceRequest, tuple[Role, ...], list[Flavor]]] = {}
        # The same, best first, for a state of `usage` and what it needs.
        self._ranked: dict[str, tuple[object, tuple[int, int], list[tuple[bool, Flavor]]]] = {}

    def of(self, workload: Workload) -> list[Flavor | None]:
        """The flavors a workload may use, best first; [None] for work without GPUs. All roles of a gang use the same.

        Its own quota comes before borrowed, then its order of models, then the smallest GPU that does. Where a scorer
        chooses, it compares all of a tier (`scheduler.fit.comparison`).
        """
        return [flavor for tier in self.tiers(workload) for flavor in tier]

    def tiers(self, workload: Workload) -> list[list[Flavor | None]]:
        """The same: those that its team's own quota covers, then those where it would borrow; no tier is empty.

        What is borrowed may be reclaimed, so no score of a place outweighs that.
        """
        if not workload.uses_gpus:
            return [[None]]
        known = self._known(workload)
        if len(known[2]) < 2:
            return [[*known[2]]] if known[2] else []
        need = workload.need_milli(least(workload))
        ranked = self._ranked.get(workload.id)  # most times nothing has changed since it was asked last
        if ranked is None or ranked[0] is not known or ranked[1] != (self._usage.state, need):
            ranked = known, (self._usage.state, need), self._best_first(workload, known[2], need)
            self._ranked[workload.id] = ranked
        own, borrowed = ([flavor for borrows, flavor in ranked[2] if borrows is which] for which in (False, True))
        return [[*tier] for tier in (own, borrowed) if tier]

    def pools(self, workload: Workload) -> list[str]:
        """The pools of these flavors, in no order; none for work without GPUs."""
        return [flavor.pool for flavor in self._known(workload)[2]] if workload.uses_gpus else []

    def _known(self, workload: Workload) -> tuple[ResourceRequest, tuple[Role, ...], list[Flavor]]:
        known = self._fitting.get(workload.id)
        if known is None or known[0] is not workload.ask or known[1] is not workload.roles:
            known = self._fitting[workload.id] = workload.ask, workload.roles, fitting(self._inventory, workload)
        return known

    def _best_first(self, workload: Workload, found: list[Flavor], need: int) -> list[tuple[bool, Flavor]]:
        """Each with whether it would borrow there."""
        order: list[tuple[tuple[bool, int, int, str], Flavor]] = []
        models = workload.ask.models
        for flavor in found:
            room = self._usage.within_nominal(workload.team, flavor.pool, FUTURE_IDLE)
            rank = models.index(flavor.model) if models else 0
            order.append(((room < need, rank, flavor.gpu_memory, flavor.pool), flavor))
        return [(rank[0], flavor) for rank, flavor in sorted(order, key=lambda pair: pair[0])]


def fitting(inventory: Inventory, workload: Workload) -> list[Flavor]:
    """The flavors whose model and memory do for a workload with GPUs, with all its roles; in the inventory's order."""
    found = _fitting(inventory, workload.ask)
    for role in workload.roles:
        theirs = _fitting(inventory, role.ask)
        found = [flavor for flavor in found if flavor in theirs]
    return found


def _fitting(inventory: Inventory, ask: ResourceRequest) -> list[Flavor]:
    """The flavors whose model and memory do for an ask."""
    needed, models = ask.min_memory, ask.models
    return [f for f in inventory.flavors if f.gpu_memory >= needed and (not models or f.model in models)]


class EmptyCluster:
    """What the cluster would take if it were empty, remembered for as long as it has the same nodes (memo.py)."""

    def __init__(self) -> None:
        self._inventory: Inventory | None = None
        self._known: dict[Hashable, tuple[int, int]] = {}

    def holds(self, inventory: Inventory, key: Hashable, find: Callable[[], tuple[int, int]]) -> tuple[int, int]:
        """How many workers it takes, with all nodes as they should be and as they are; `find` works it out."""
        if self._inventory is not inventory or len(self._known) > MAX_KEPT:
            self._inventory, self._known = inventory, {}
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = find()
        return known


def never(inventory: Inventory, known: EmptyCluster, workload: Workload) -> Refusal | None:
    """Why the workload could not start on this cluster even if it were empty, or None."""
    ask = workload.ask
    if ask.milli:
        if not inventory.flavors:
            return Refusal(Reason.NO_MATCHING_FLAVOR, "The cluster has no GPUs.")
        allowed = [f for f in inventory.flavors if not ask.models or f.model in ask.models]
        if not allowed:
            have = ", ".join(sorted({f.model for f in inventory.flavors}))
            return Refusal(
                Reason.NO_MATCHING_FLAVOR, f"No node has {' or '.join(ask.models)} GPUs; the cluster has {have}."
            )
        largest = max(f.gpu_memory for f in allowed)
        if largest < ask.min_memory:
            needs = ask.min_memory
            return Refusal(
                Reason.GPU_MEMORY_DOES_NOT_FIT,
                f"Needs {needs} MiB of memory on a GPU; the largest allowed GPU has {largest} MiB.",
                (("needs_mib", needs), ("largest_mib", largest)),
            )
        if untaken := _not_taken(inventory, ask, allowed):
            return untaken
    wanted = least(workload)
    count, usable = known.holds(inventory, ask, lambda: _held_at_most(inventory, workload))
    if count < wanted:
        return _too_big(inventory, workload, count)
    if usable < wanted:
        what = "worker" if wanted == 1 else "workers"
        return Refusal(
            Reason.WAITING_FOR_NODES,
            f"Needs {wanted} {what}; the ready and schedulable nodes could hold {usable}. "
            f"Others are down, cordoned or have lost GPUs.",
            (("needs_workers", wanted), ("fit_workers", usable)),
        )
    return None


def _not_taken(inventory: Inventory, ask: ResourceRequest, allowed: Sequence[Flavor]) -> Refusal | None:
    """No node of these flavors takes shares, or whole GPUs, whichever is asked for; or None."""
    if any(_suited(inventory, ask, flavor).any() for flavor in allowed if flavor.gpu_memory >= ask.min_memory):
        return None
    models = f" with {' or '.join(ask.models)} GPUs" if ask.models else ""
    if ask.share and (told := _not_given(inventory, ask, ask.share, allowed)):
        return told
    if ask.share:
        text = (
            f"No node{models} takes shares of its GPUs. A platform admin labels nodes for shares, "
            f"in a node pool that takes shares."
        )
    else:
        text = f"No node{models} takes work with whole GPUs: their node pools take shares only."
    return Refusal(Reason.NO_MATCHING_FLAVOR, text)


def _not_given(inventory: Inventory, ask: ResourceRequest, share: Share, allowed: Sequence[Flavor]) -> Refusal | None:
    """Nodes of these flavors take shares, but what holds them there gives this one to none; or None."""
    takes = inventory.takes_shares & np.logical_or.reduce([flavor.nodes for flavor in allowed])
    found = inventory.refusals(share, ask.demands, takes)
    if not found:
        return None
    demanded = f" Its team demands {demands_text(ask.demands)} of what holds its shares." if ask.demands else ""
    pools = " ".join(f"{pool}: {told.rstrip('.')}." for pool, told in found)
    return Refusal(
        Reason.NO_MATCHING_FLAVOR,
        f"No node pool gives such a share.{demanded} {pools}",
        (("pools", ", ".join(dict.fromkeys(pool for pool, _ in found))),),
    )


def _held_at_most(inventory: Inventory, workload: Workload) -> tuple[int, int]:
    """Workers that the empty cluster takes: with all nodes as they should be, and as they are."""
    return (
        _max_workers(inventory, workload, empty(inventory, is_whole=True), also_unusable=True),
        _max_workers(inventory, workload, empty(inventory, is_whole=False), also_unusable=False),
    )


def empty(inventory: Inventory, is_whole: bool) -> Free:
    """The cluster without any work; is_whole: as if no device were lost either."""
    gpu = inventory.gpu_capacity
    if is_whole:
        sizes = np.diff(inventory.offset)
        gpu = np.stack([np.full(len(inventory.node_of), WHOLE, dtype=np.int64), np.repeat(inventory.gpu_memory, sizes)])
        return Free(gpu, inventory.node_capacity, sizes)
    return free_of(inventory, gpu, inventory.node_capacity)


def _max_workers(inventory: Inventory, workload: Workload, free: Free, *, also_unusable: bool) -> int:
    ask, out = workload.ask, 0
    options: Sequence[Flavor | None] = fitting(inventory, workload) if workload.uses_gpus else [None]
    for flavor in options:
        if also_unusable:
            everywhere = np.ones(len(inventory.nodes), dtype=np.bool_)
            allowed = everywhere if flavor is None else _suited(inventory, ask, flavor)
        else:
            allowed = allowed_nodes(inventory, ask, flavor)
        out = max(out, in_all(ask, per_node(inventory, ask, free, allowed)))
    return out


def _too_big(inventory: Inventory, workload: Workload, count: int) -> Refusal:
    ask, wanted = workload.ask, least(workload)
    if count:
        return Refusal(
            Reason.NO_MATCHING_FLAVOR,
            f"Needs {wanted} workers of {ask_text(ask)}{labels_text(ask)}; the whole cluster could hold {count}.",
            (("needs_workers", wanted), ("fit_workers", count)),
        )
    gpus = max((n.gpus for n in inventory.nodes if not ask.models or n.model in ask.models), default=0)
    cpu = int(inventory.node_capacity[COMPUTE].max(initial=0))
    memory = int(inventory.node_capacity[MEMORY].max(initial=0))
    return Refusal(
        Reason.NO_MATCHING_FLAVOR,
        f"One worker needs {ask_text(ask)}; the largest nodes have {gpus} GPUs, {cpu / 1000:g} cores, {memory} MiB.",
        (("needs_gpus", ask.gpus), ("node_gpus", gpus), ("node_cpu_milli", cpu), ("node_memory_mib", memory)),
    )


def labels_text(ask: ResourceRequest) -> str:
    """What its labels ask of several workers, to follow `ask_text`; nothing without such labels."""
    if ask.labels.affinity:
        return f" on one GPU (affinity {ask.labels.affinity})"
    label = ask.labels.anti_affinity
    return f", each on another GPU (anti-affinity {label})" if label else ""


def ask_text(ask: ResourceRequest) -> str:
    """One worker's ask in words: `4 GPUs`, `0.5 of a GPU with 8000 MiB`, `2 cores`."""
    if ask.share:
        memory = f" with {ask.share.most_memory} MiB" if ask.share.most_memory else ""
        return f"{ask.share.guarantee / 1000:g} of a GPU{' on demand' if ask.share.on_demand else ''}{memory}"
    if ask.gpus:
        return f"{ask.gpus} GPU{'s' if ask.gpus > 1 else ''}"
    return f"{ask.cpu_milli / 1000:g} cores and {ask.memory} MiB"
