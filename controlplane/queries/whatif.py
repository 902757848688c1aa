"""What the next round would decide: the order of the queue, why one waits, what a new one would meet.

Each is a round of the scheduler on a snapshot of now; nothing is written, so the answer is what would happen if
nothing else changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from controlplane.models import PolicyVersion, PriorityClass, Workload
from controlplane.policy import Policy
from controlplane.quantities import iso
from controlplane.queries import access, snapshot
from scheduler import workload as core
from scheduler.decision import Evict, Place
from scheduler.fit import Refusal
from scheduler.plan import Plan
from scheduler.schedule import outcomes
from scheduler.snapshot import Snapshot
from scheduler.workload import ENDED, Phase

if TYPE_CHECKING:
    from controlplane.spec import Spec

NEW = "new"  # the id of a workload that is only tried


@dataclass(frozen=True)
class Round:
    """One round tried: whom it looked at, in order, with what result; what it would decide."""

    before: Snapshot
    claimants: tuple[str, ...]
    refusals: dict[str, Refusal]
    places: dict[str, Place]
    evictions: tuple[Evict, ...]

    def position(self, uid: str) -> int | None:
        """The place in the queue, from 1; None for who does not wait."""
        return self.claimants.index(uid) + 1 if uid in self.claimants else None


def tried(world: Snapshot) -> Round:
    """Run a round on a snapshot and keep what it found out on the way."""
    plan = Plan(world)
    row = PolicyVersion.objects.order_by("-id").values_list("data", flat=True).first()
    policy = Policy() if row is None else Policy.from_dict(row)
    found = [(workload.id, refusal) for workload, refusal in outcomes(plan, policy.scheduling)]
    decisions = plan.decisions
    return Round(
        world,
        tuple(uid for uid, _ in found),
        {uid: refusal for uid, refusal in found if refusal is not None},
        {d.workload: d for d in decisions if isinstance(d, Place)},
        tuple(d for d in decisions if isinstance(d, Evict)),
    )


def queue(user: access.Person, team: str | None = None) -> list[tuple[int, str, Refusal | None]]:
    """Who waits, in the order of the next round: position, uid and what it would be told (None: it would start).

    Positions count everybody; only what the user may see is listed.
    """
    outcome = tried(snapshot.full())
    seen = None if access.is_platform_admin(user) else set(access.team_names(user))
    listed = []
    for position, uid in enumerate(outcome.claimants, 1):
        its_team = outcome.before.workloads[uid].team
        if (seen is None or its_team in seen) and team in (None, its_team):
            listed.append((position, uid, outcome.refusals.get(uid)))
    return listed


def explanation(user: access.Person, workload: Workload) -> dict[str, Any]:
    """Why a workload is where it is: for one that waits, what the next round would tell it."""
    known: dict[str, Any] = {
        "uid": str(workload.pk),
        "phase": workload.phase,
        "reason": workload.reason,
        "message": workload.message,
        "numbers": {},
        "since": iso(workload.reason_at) if workload.reason else None,
        "position": None,
        "waiting": None,
        "will_start": None,
        "evicts": [],
    }
    if workload.phase in ENDED:
        return known
    outcome = tried(snapshot.full())
    uid = str(workload.pk)
    if uid not in outcome.before.workloads:
        return known
    return known | _told(user, outcome, uid) if outcome.position(uid) else known


def preview(user: access.Person, spec: "Spec", unmet: Sequence[str] = ()) -> dict[str, Any]:
    """What the next round would decide about this job file. `unmet`: the names in `after` that are not met yet."""
    world = snapshot.full()
    outcome = tried(world.replace(changed=[_imagined(spec, world, unmet)]))
    place = outcome.places.get(NEW)
    phase = Phase.QUEUED if place is None else Phase.RESERVED if place.after else Phase.ADMITTED
    workers = [{"rank": a.rank, "node": a.node, "gpus": list(a.gpus)} for a in (place.workers if place else ())]
    return {"phase": phase.value, "placement": workers, "spec": spec.document(), **_told(user, outcome, NEW)}


def _told(user: access.Person, outcome: Round, uid: str) -> dict[str, Any]:
    refusal = outcome.refusals.get(uid)
    return {
        "reason": refusal.reason.value if refusal else "",
        "message": refusal.message if refusal else "",
        "numbers": dict(refusal.numbers) if refusal else {},
        "position": outcome.position(uid),
        "waiting": len(outcome.claimants),
        "will_start": uid in outcome.places,
        "evicts": _evicted(user, outcome, uid),
    }


def _evicted(user: access.Person, outcome: Round, by: str) -> list[dict[str, Any]]:
    """Who would have to leave; of teams that the user cannot see, only which team it is."""
    seen = None if access.is_platform_admin(user) else set(access.team_names(user))
    out = []
    for eviction in outcome.evictions:
        if eviction.by == by:
            victim = outcome.before.workloads[eviction.workload]
            may_see = seen is None or victim.team in seen
            who = {"uid": victim.id, "name": victim.name} if may_see else {"uid": None, "name": None}
            out.append({**who, "team": victim.team, "reason": eviction.reason.value})
    return out


def _imagined(spec: "Spec", world: Snapshot, unmet: Sequence[str]) -> core.Workload:
    """The job file as if it had just been submitted, behind all others."""
    classes = PriorityClass.objects.all()
    named = classes.filter(name=spec.priority_class) if spec.priority_class else classes.filter(is_default=True)
    priority = named.first()
    last = max((w.seq for w in world.workloads.values()), default=0)
    fresh = core.Workload(NEW, spec.name, spec.team, spec.type, spec.resources, spec.workers, spec.topology)
    return replace(
        fresh,
        priority=priority.value if priority else 0,
        preemptible=priority.preemptible if priority else True,
        seq=last + 1,
        submitted_at=world.at,
        queued_at=world.at,
        expected_seconds=spec.expected_duration,
        checkpoint_interval=spec.checkpoint.interval,
        grace_seconds=spec.checkpoint.grace,
        unmet=tuple(unmet),
    )
