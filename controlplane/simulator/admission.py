"""Reserved places become held ones, in memory: whoever waited for others starts once they have left."""

from dataclasses import replace

from controlplane.simulator.book import Action, Book
from scheduler.snapshot import Inventory
from scheduler.workload import ACTIVE, Assignment, Phase, Workload


def admit(book: Book, actor: str) -> None:
    """Start what waited for others to leave, once they have; give up places that are out of use."""
    for workload in book.living():
        if not workload.after:
            continue
        workload = _without_lost(book, workload, actor)
        if workload.phase == Phase.QUEUED or any(_still_leaves(book, uid) for uid in workload.after):
            continue
        bound = [a for a in workload.placement if a.reserved and not a.leaving]
        placement = tuple(replace(a, reserved=False) if a in bound else a for a in workload.placement)
        if workload.phase == Phase.RESERVED:
            workload = book.move(workload, Phase.ADMITTED, actor, placement=placement, after=())
        elif workload.phase in ACTIVE:
            workload = book.put(replace(workload, placement=placement, after=(), version=workload.version + 1))
        else:
            continue
        if bound:
            book.hold(workload, bound)
            book.outbox.append(Action("start", workload.id, workload.attempt, tuple(a.rank for a in bound)))


def _still_leaves(book: Book, uid: str) -> bool:
    victim = book.get(uid)
    return victim is not None and any(a.leaving for a in victim.placement)


def _without_lost(book: Book, workload: Workload, actor: str) -> Workload:
    """Give up reserved places on what is out of use; a gang that loses one is queued again."""
    inventory = book.snapshot.inventory
    lost = [a for a in workload.placement if a.reserved and not _is_usable(inventory, a)]
    if not lost:
        return workload
    book.excuse(workload.id)
    if workload.phase == Phase.RESERVED:
        return book.move(workload, Phase.QUEUED, actor, placement=(), after=())
    return book.put(replace(workload, placement=tuple(a for a in workload.placement if a not in lost)))


def _is_usable(inventory: Inventory, worker: Assignment) -> bool:
    at = inventory.index.get(worker.node)
    if at is None:
        return False
    node = inventory.nodes[at]
    return node.is_usable and not set(worker.gpus) & set(node.lost)
