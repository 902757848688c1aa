"""What another priority would do to a waiting workload and to those it would overtake: a round on a copy."""

from dataclasses import dataclass
from itertools import islice

from controlplane.models import PriorityClass
from controlplane.queries.cells import views
from controlplane.queries.rounds import decider
from controlplane.queries.scheduling.policies import scheduling
from scheduler.explain import explanation as core
from scheduler.explain.change import Change, ChangeKind, changed
from scheduler.explain.places import numbered
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.policies import outcomes
from scheduler.state.memo import Memo
from scheduler.state.session import Session

MAX_TRIED = 6  # classes between a workload and the place it is dragged to


@dataclass(frozen=True, slots=True)
class Moved:
    """A workload whose place in the queue would change."""

    uid: str
    team: str
    name: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class DryRun:
    """A waiting workload under another priority class. after None: it would take no part in the round."""

    priority_class: str
    before: int | None
    after: int | None
    starts: bool
    message: str  # why it would still wait; empty where it starts
    victims: tuple[Moved, ...]  # what would be preempted for it; their positions are 0
    moved: tuple[Moved, ...]  # what changes its place, in the order of the queue now


def classes() -> list[tuple[str, int]]:
    """(name, value) of every priority class, the highest first."""
    return list(PriorityClass.objects.order_by("-value", "name").values_list("name", "value"))


def dry_run(uid: str, priority_class: str) -> DryRun | None:
    """The next round if the workload were of this class; None if it does not wait, or there is no such class."""
    world = decider.world(views.of_workload(uid))
    found = PriorityClass.objects.filter(name=priority_class).values_list("name", "value", "preemptible").first()
    if uid not in world.workloads or found is None:
        return None
    settings, memo = scheduling(), Memo()
    return _tried(world, _order(world, settings, memo), uid, found, settings, memo)


def towards(uid: str, target: str) -> DryRun | None:
    """The nearest class with which it would come before (or, dragged down, after) the target; else the farthest one."""
    world = decider.world(views.of_workload(uid))
    settings, memo = scheduling(), Memo()
    order = _order(world, settings, memo)
    if uid not in order or target not in order or uid == target:
        return None
    is_up = order[target] < order[uid]
    value = world.workloads[uid].priority
    known = PriorityClass.objects.values_list("name", "value", "preemptible")
    nearer = (
        known.filter(value__gt=value).order_by("value") if is_up else known.filter(value__lt=value).order_by("-value")
    )
    last = None
    for offer in islice(nearer, MAX_TRIED):
        last = _tried(world, order, uid, offer, settings, memo)
        if last.after is not None and (last.after <= order[target] if is_up else last.after >= order[target]):
            break
    return last


def _order(world: Snapshot, settings: Settings, memo: Memo) -> dict[str, int]:
    turns = numbered(outcomes(Session(world, settings, memo)))
    return {w.id: position for position, w, _ in turns if position is not None}


def _tried(
    world: Snapshot, order: dict[str, int], uid: str, offer: tuple[str, int, bool], settings: Settings, memo: Memo
) -> DryRun:
    name, value, preemptible = offer
    change = Change(ChangeKind.PRIORITY, world.workloads[uid].priority, value, name, preemptible=preemptible)
    other = changed(world, uid, change)
    then, found = _order(other, settings, memo), core.explain(other, uid, settings, memo)
    moved = [_moved(world, one, place, then[one]) for one, place in order.items() if then.get(one, place) != place]
    return DryRun(
        priority_class=name,
        before=order.get(uid),
        after=then.get(uid),
        starts=found.place is not None,
        message="" if found.place is not None else found.message,
        victims=tuple(_moved(world, victim.workload, 0, 0) for victim in found.victims),
        moved=tuple(one for one in moved if one.uid != uid),
    )


def _moved(world: Snapshot, uid: str, before: int, after: int) -> Moved:
    w = world.workloads[uid]
    return Moved(uid, w.team, w.name, before, after)
