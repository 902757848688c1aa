"""What the next round would decide: the order of the queue, why one waits, what a new one would meet.

Each is a round of the scheduler on a snapshot of now; nothing is written, so the answer is what would happen if
nothing else changed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import isinf
from typing import TYPE_CHECKING, Any

from controlplane.jobspec.quantities import iso
from controlplane.models import PriorityClass, Workload
from controlplane.queries.accounts import access
from controlplane.queries.cells import views
from controlplane.queries.rounds import decider, explained, kept, lineup
from controlplane.queries.rounds.lineup import Line, Turn
from controlplane.queries.scheduling import forecasts, policies, snapshot
from controlplane.queries.scheduling.moment import one_moment
from controlplane.queries.tenancy.shares import Share, of_teams, together
from controlplane.queries.workloads import reallocated, standby
from controlplane.queries.workloads.suggestions import told
from scheduler.explain import explanation as core
from scheduler.explain.growth import is_elastic
from scheduler.explain.places import numbered
from scheduler.explain.suggestions import untold
from scheduler.model import workload as words
from scheduler.model.decision import Evict, Place, Reason, Shrink
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import ENDED, Phase
from scheduler.policies import outcomes
from scheduler.predict.expected_start import expected_start
from scheduler.predict.run_times import Spread
from scheduler.state.memo import Memo
from scheduler.state.session import Session

if TYPE_CHECKING:
    from controlplane.jobspec.spec import Spec

NEW = "new"  # the id of a workload that is only tried
NOT_SEARCHED = (
    "What would start it was not searched for: on a cluster of this size that takes seconds. Ask with search."
)
WAITING_AT_ONCE, HELD_AT_ONCE = (
    40,
    400,
)  # workloads, at most, where a request itself predicts starts: a tenth of a second


def line() -> Line:
    """All that waits: first the queue in the order of the next round, then what has no place in it."""
    is_large, every = kept.is_large(), views.every()
    with one_moment():  # so that one that moves is not in two cells
        if is_large:
            return lineup.together([lineup.line(kept.newest(view), view) for view in every])
        worlds = [snapshot.full(view=view) for view in every]
    return dry_line(*worlds)


def dry_line(*worlds: Snapshot) -> Line:
    """The same by a dry run on a snapshot; of cells on that of each."""
    return lineup.together([Line(tuple(_turns(world)), world.at) for world in worlds])


def _turns(world: Snapshot) -> Iterator[Turn]:
    for position, workload, refusal in numbered(outcomes(Session(world, policies.scheduling()))):
        yield Turn(position, workload.id, workload.team, refusal)


def queue(user: access.Person, team: str | None = None) -> Line:
    """What waits and the user may see, of this team if one is named; places are counted over all teams."""
    seen, every = _seen(user), line()
    mine = (turn for turn in every.turns if (seen is None or turn.team in seen) and team in (None, turn.team))
    return replace(every, turns=tuple(mine))


def explanation(
    user: access.Person, workload: Workload, *, in_full: bool = True, searches: bool = False
) -> dict[str, Any]:
    """Why a workload is where it is: for one that waits, what the next round would tell it, and what would start it.

    in_full: with the suggestions, whose search may take as long as several rounds; else `no_suggestions` is what to say
    if there are none. On a large cluster what the newest full round told it, and suggestions only where `searches`.
    """
    known = {
        "uid": str(workload.pk),
        "phase": workload.phase,
        "since": iso(workload.reason_at) if workload.reason and workload.reason_at else None,
        "changed_by_weft": reallocated.of(workload),
    }
    stored = {**_NOTHING, "reason": workload.reason, "message": workload.message}
    if workload.phase in ENDED:
        return known | stored
    if kept.is_large():
        return known | stored | _told_by_a_round(user, workload, searches)
    world = snapshot.full(view=views.named(workload.cell))
    stored["as_of"] = iso(world.at)
    uid = str(workload.pk)
    if uid not in world.workloads:  # it has ended since
        return known | stored
    memo = Memo()
    found = core.explain(world, uid, policies.scheduling(), memo)
    if found.in_queue is None and found.reason is None:
        return known | stored | ({"message": found.message} if is_elastic(world.workloads[uid]) else {})
    return known | _told(user, world, found, memo, workload, in_full) | {"as_of": iso(world.at)}


def _told_by_a_round(user: access.Person, row: Workload, searches: bool) -> dict[str, Any]:
    """What the newest full round left of a workload; nothing where what is stored says all."""
    answer = explained.of(row.pk, views.named(row.cell))
    as_of = {"as_of": None if answer.as_of is None else iso(answer.as_of)}
    found = answer.found
    if found is None or (found.in_queue is None and found.reason is None):
        return as_of | ({"message": found.message} if found else {})
    is_looked_at = found.in_queue is not None and answer.is_looked_at
    changes = suggestions(user, row) if searches and found.in_queue is not None else []
    untold_ = untold(policies.scheduling(), found.reason) if searches else NOT_SEARCHED
    return as_of | {
        **_shown(found),
        "will_start": False if is_looked_at else None,
        "evicts": [],
        "suggestions": changes,
        "no_suggestions": "" if not is_looked_at or changes else untold_,
        "expected_start": told_start(found.workload) if is_looked_at else None,
    }


def suggestions(user: access.Person, workload: Workload) -> list[dict[str, Any]]:
    """What would start a workload now, as `explanation` has it; a list without rows if nothing would."""
    world, uid = decider.world(views.named(workload.cell)), str(workload.pk)
    return told(user, world, uid, workload) if uid in world.workloads else []


def preview(user: access.Person, spec: "Spec", unmet: Sequence[str] = ()) -> dict[str, Any]:
    """What the next round would decide about this job file. `unmet`: the names in `after` that are not met yet."""
    world, memo, found = _with(spec, unmet)
    place = found.place
    return {
        **_told(user, world, found, memo),
        "phase": _phase(place).value,
        "placement": [_seat(world.workloads[NEW], a) for a in (place.workers if place else ())],
        "standby": _standby(spec),
        "as_of": iso(world.at),
        "workload": spec.document(),
    }


def _with(spec: "Spec", unmet: Sequence[str]) -> tuple[Snapshot, Memo, core.Explanation]:
    """The next round with this job file: of cells, in the first where it starts, else where most GPUs for it are."""
    tried: list[tuple[Snapshot, Memo, core.Explanation]] = []
    for view in views.for_new(spec.cell, spec.resources.models):
        now = decider.world(view)
        world, memo = core.submitted(now, _imagined(spec, now, unmet)), Memo()
        tried.append((world, memo, core.explain(world, NEW, policies.scheduling(), memo)))
        if tried[-1][2].place is not None:
            return tried[-1]
    return tried[0]


def _standby(spec: "Spec") -> str:
    if not spec.standby:
        return ""
    return standby.price(spec.workers.max, spec.workers.min, spec.standby, standby.may_hold(spec.team))


def _seat(workload: words.Workload, worker: words.Assignment) -> dict[str, Any]:
    role, number = workload.role_of(worker.rank)
    return {"rank": worker.rank, "role": role, "index": number, "node": worker.node, "gpus": list(worker.gpus)}


def expected(world: Snapshot, uid: str, memo: Memo) -> dict[str, Any] | None:
    """When a workload in the queue is expected to start, by the cluster's clock; None if it cannot be predicted.

    As it was last worked out in the background; here only where the queue is short, as a long one takes seconds.
    """
    found = None if uid == NEW else forecasts.told([uid]).get(uid)
    if found is None:
        ledger = memo.ledgers.of(world)
        if len(ledger.waiting) <= WAITING_AT_ONCE and len(ledger.holding) <= HELD_AT_ONCE:
            found = expected_start(world, uid, policies.scheduling(), memo=memo)
    return _start(found)


def told_start(uid: str) -> dict[str, Any] | None:
    """The same only as it was last worked out in the background."""
    return _start(forecasts.told([uid]).get(uid))


def _start(found: Spread | None) -> dict[str, Any] | None:
    return None if found is None or isinf(found.high) else forecasts.shown(found)


# The explanation of one that no round looks at: what is stored says all.
_NOTHING: dict[str, Any] = {
    "position": None, "in_queue": None, "reason": "", "message": "", "numbers": {}, "checks": [], "will_start": None,
    "evicts": [], "suggestions": [], "no_suggestions": "", "expected_start": None, "as_of": None,
}  # fmt: skip


def _told(
    user: access.Person,
    world: Snapshot,
    found: core.Explanation,
    memo: Memo,
    row: Workload | None = None,
    in_full: bool = True,
) -> dict[str, Any]:
    """The one object that `weft why`, the workload's page and a preview show; row: of a workload that is there."""
    changes = told(user, world, found.workload, row, memo) if in_full and found.reason is not None else []
    is_looked_at = found.in_queue is not None and found.reason is not Reason.PENDING_EVALUATION
    return {
        **_shown(found),
        "will_start": found.place is not None if is_looked_at else None,
        "evicts": _evicted(user, world, found.victims),
        "suggestions": changes,
        "no_suggestions": "" if not is_looked_at or changes else untold(policies.scheduling(), found.reason),
        "expected_start": expected(world, found.workload, memo) if is_looked_at else None,
    }


def _shown(found: core.Explanation) -> dict[str, Any]:
    return {
        "position": found.position,
        "in_queue": found.in_queue,
        "reason": str(found.reason or ""),
        "message": found.message,
        "numbers": dict(found.numbers),
        "checks": [{"name": c.name, "status": c.status.value, "message": c.message} for c in found.checks],
    }


def _phase(place: Place | None) -> Phase:
    if place is None:
        return Phase.QUEUED
    return Phase.RESERVED if place.after else Phase.ADMITTED


def _evicted(user: access.Person, world: Snapshot, victims: Iterable[Evict | Shrink]) -> list[dict[str, Any]]:
    """What would be preempted or shrunk; of teams that the user cannot see, only which team it is."""
    seen = _seen(user)
    out = []
    for eviction in victims:
        victim = world.workloads[eviction.workload]
        reason = eviction.reason.value if isinstance(eviction, Evict) else "Shrunk"
        may_see = seen is None or victim.team in seen
        named = {"uid": victim.id, "name": victim.name} if may_see else {"uid": None, "name": None}
        out.append({**named, "team": victim.team, "reason": reason})
    return out


def _seen(user: access.Person) -> set[str] | None:
    """The teams whose workloads the user may see; None = all."""
    return None if access.is_platform_admin(user) else set(access.team_names(user))


def _imagined(spec: "Spec", world: Snapshot, unmet: Sequence[str]) -> words.Workload:
    """The job file as if it had just been submitted."""
    classes = PriorityClass.objects.all()
    named = classes.filter(name=spec.priority_class) if spec.priority_class else classes.filter(is_default=True)
    priority = named.first()
    return replace(
        words.Workload(NEW, spec.name, spec.team, spec.type, spec.resources, spec.workers, spec.topology),
        gang=replace(spec.workers, count=spec.first),
        awake=spec.workers.count if spec.standby else None,
        standby=spec.standby,
        spread=spec.spread,
        offloads=spec.offloads,
        deadline=spec.deadline,
        priority=priority.value if priority else 0,
        preemptible=priority.preemptible if priority else True,
        submitted_at=world.at,
        queued_at=world.at,
        expected_seconds=spec.expected_duration,
        checkpoint_interval=spec.checkpoint.interval,
        grace_seconds=spec.checkpoint.grace,
        unmet=tuple(unmet),
        roles=spec.roles,
    )


def shares(user: access.Person, team: str | None = None) -> list[Share]:
    """How the teams that the user may see stand in each pool, entitlement as the next round would have it."""
    seen = None if access.is_platform_admin(user) else set(access.team_names(user))
    return [one for one in shares_of_all() if (seen is None or one.team in seen) and team in (None, one.team)]


def shares_of_all() -> tuple[Share, ...]:
    """How all teams stand in each pool, entitlement as the next round would have it."""
    return together([of_teams(decider.world(view), policies.scheduling()) for view in views.every()])
