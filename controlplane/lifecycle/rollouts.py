"""A new revision of a service replaces the one before, replica by replica, and is taken back where it does not work.

State.rollout says how that stands, as JSON: `from`, the revision that is being replaced; `is_back`, whether the service
goes back to one that it had because the other did not work; `since`; `moved_at`, when it last came further; `ready`,
how many replicas of the wanted revision run; `ended`, how many of them have failed; `asked_at`, since when a replica
more than usual is asked for (null: none is); `has_no_room`, whether there was none for it; `standing`, how the service
stood against its objective when the replacing began (null: nobody has looked yet); `reason` and `message` of going
back; `by_owner`, whether a Deployment's own controller replaces the replicas, and this looks on and judges. Of a
canary (canaries.py): `weight`, percent of the requests; `split`, what the cluster was told of them; `told`, the percent
that its newest event told; `split_at`, since when they are split; `judged`, [requests, late or failed] of both
revisions when that was last looked at. Its steps are told in canarysteps.py.

A replica that serves leaves only once another one more than wanted is ready: `surge` has the scheduler place one more,
within quota like any other. Where there is no room for it one leaves first, but never the only one. What does not serve
leaves at once.
"""

from collections.abc import Sequence
from typing import Any

from autoscaler.sla import Standing
from controlplane.cluster.port import PodPhase
from controlplane.lifecycle import canaries, canarysteps
from controlplane.lifecycle.canaries import WHOLE, Judged
from controlplane.lifecycle.canarysteps import Plan
from controlplane.lifecycle.changes import Changes
from controlplane.lifecycle.decisions import vacate
from controlplane.lifecycle.ends import End
from controlplane.lifecycle.state import LEAVING, Seat, State
from scheduler.model.workload import ACTIVE

ROOM_SECONDS = 30.0  # so long without a place, and told why: there is no room for one replica more
MAX_ENDED = 3  # replicas of a new revision that may fail before it is taken back
_RANK = {Standing.VIOLATED.value: 2, Standing.AT_RISK.value: 1}  # how bad; all else is 0


def begin(
    changes: Changes,
    row: State,
    number: int,
    plan: Plan = Plan(),  # noqa: B008 - it is frozen
    *,
    by_owner: bool = False,
) -> None:
    """Have a service be of this revision from now on, and those of its replicas that are of another one replaced.

    plan: below weight 100 it is a canary, and the rest waits for its steps, or for a person. by_owner: the controller
    of its Deployment replaces them.
    """
    is_running = row.phase in ACTIVE and not row.intent and changes.live(row)
    if not is_running or number == row.revision:
        if number == row.revision:
            changes.bump(row)
        else:  # what it has next is of this revision
            changes.bump(row, revision=number, rollout=None, surge=0)
        return
    before = _settled(row)
    if number == before:
        roll_back(changes, row, "Undone", f"Revision {row.revision} was undone.")
        return
    rollout = _rollout(before, changes.at) | _planned(plan) | {"split": row.rollout and row.rollout.get("split")}
    rollout |= {"by_owner": by_owner}
    changes.bump(row, revision=number, rollout=rollout, surge=0)
    told = f"Revision {number} replaces revision {before}{': its Deployment does it' if by_owner else ''}."
    if plan.weight < WHOLE:
        told = f"Revision {number} is to get {plan.weight} % of the requests, beside revision {before}."
    changes.note(row, "RollingOut", message=told, data=_data(row))
    go_on(changes, row)


def weigh(changes: Changes, row: State, plan: Plan) -> None:
    """Give the revision that is being brought in another part of the requests, and other steps; 100 promotes it."""
    rollout = row.rollout
    if rollout is None or rollout["is_back"]:
        return
    _keep(changes, row, **(_planned(plan) | {"weight": canaries.weight_of(rollout)}))
    _give(changes, row, plan.weight)


def step(changes: Changes, row: State, judged: Judged | None) -> int | None:
    """Take the next step of a canary that has steps, if it may be taken now; the answer is its new weight."""
    rollout = row.rollout
    if rollout is None or row.phase not in ACTIVE or row.intent:
        return None
    weight = canarysteps.next_weight(rollout)
    if weight is None:
        return None
    held = canarysteps.held(row, changes.at, judged)
    if held != rollout.get("held"):
        _keep(changes, row, held=held)
    if held:
        return None
    _give(changes, row, weight)
    return weight


def _give(changes: Changes, row: State, weight: int) -> None:
    rollout = row.rollout
    assert rollout is not None  # noqa: S101 - asked of what is being replaced
    if weight == canaries.weight_of(rollout):
        return
    _keep(changes, row, weight=weight, moved_at=changes.at, asked_at=None)
    changes.bump(row)
    if weight == WHOLE:
        message = f"Revision {row.revision} is promoted: it replaces revision {rollout['from']}."
        changes.note(row, "Promoted", message=message, data=_data(row))
    go_on(changes, row)


def roll_back(changes: Changes, row: State, reason: str, message: str) -> int:
    """Take the revision that is being brought in back; the answer is the number of the one that failed."""
    assert row.rollout is not None  # noqa: S101 - asked of what is being replaced
    failed, number = row.revision, row.rollout["from"]
    rollout = _rollout(failed, changes.at) | {"is_back": True, "reason": reason, "message": message}
    rollout |= {name: row.rollout.get(name) for name in ("has_no_room", "split", "split_at", "judged", "by_owner")}
    changes.bump(row, revision=number, rollout=rollout, surge=0)
    told = f"{message} Revision {number} replaces revision {failed} again."
    changes.note(row, "RollingBack", reason=reason, message=told[:400], data=_data(row))
    go_on(changes, row)
    return int(failed)


def see(changes: Changes, row: State, ends: Sequence[End]) -> None:
    """Count the replicas of the wanted revision that have failed just now, and go on."""
    if row.rollout is None:
        return
    failed = sum(end.counts and not end.was_leaving and end.seat.revision == row.revision for end in ends)
    if failed:
        _keep(changes, row, ended=row.rollout["ended"] + failed)
    go_on(changes, row)


def go_on(changes: Changes, row: State) -> None:
    """Have leave what may leave now, ask for the next replica, or end it."""
    if row.rollout is None or row.phase not in ACTIVE or row.intent:
        return
    _note_refusal(changes, row)
    staying = [seat for seat in changes.live(row) if seat.state != LEAVING]
    ready = [seat for seat in staying if seat.pod_phase == PodPhase.RUNNING]
    is_canary = canaries.is_one(row.rollout)
    old = canaries.surplus(row, staying) if is_canary else [one for one in staying if one.revision != row.revision]
    new_ready = sum(seat.revision == row.revision for seat in ready)
    if new_ready > row.rollout["ready"] or (is_canary and new_ready < row.rollout["ready"]):
        _keep(changes, row, moved_at=changes.at)
    if new_ready != row.rollout["ready"]:
        _keep(changes, row, ready=new_ready)
    if not (is_canary or old) and new_ready >= row.workers:
        _finish(changes, row)
        return
    if row.rollout.get("by_owner"):
        return
    leavers = _leavers(row, staying, ready, old)
    if leavers:
        changes.bump(row)
        vacate(changes, row, leavers)
    _ask(changes, row, is_canary or len(old) > len(leavers))
    _split(changes, row)


def fault(
    changes: Changes, row: State, deadline_seconds: float, standing: str | None = None, judged: Judged | None = None
) -> tuple[str, str] | None:
    """Why the revision that is being brought in does not work, as a reason and a sentence; None while it may.

    standing: how the service stands against its objective now, if that was looked up. judged: of a canary, what it
    and the revision before have answered, where that is measured; it is then judged by that alone.
    """
    rollout = row.rollout
    if rollout is None or rollout["is_back"] or row.phase not in ACTIVE or row.intent:
        return None
    what = f"Revision {row.revision}"
    if rollout["ended"] >= MAX_ENDED:
        return "RevisionFails", f"{rollout['ended']} replicas of revision {row.revision} failed."
    if (why := _burnt(changes, row, standing, judged)) is not None:
        return "ErrorBudgetBurns", why
    if changes.at >= _since(changes, row) + deadline_seconds:
        if not (rollout["ready"] or rollout["ended"] or _pending(changes, row)):
            return "NoRoom", f"{what} got no place for its first replica within {deadline_seconds:.0f} s."
        return "NotReady", f"No further replica of revision {row.revision} was ready within {deadline_seconds:.0f} s."
    return None


def _burnt(changes: Changes, row: State, standing: str | None, judged: Judged | None) -> str | None:
    """What shows that the new revision burns the error budget; a canary is judged by its own requests, if known."""
    rollout = row.rollout
    assert rollout is not None  # noqa: S101 - asked of what is being replaced
    if judged is not None and canaries.is_one(rollout) and judged.own.requests:
        pairs = [[one.requests, one.over] for one in (judged.own, judged.before)]
        if pairs != rollout.get("judged"):
            _keep(changes, row, judged=pairs)
        return _burns(row, judged) if judged.burns else None
    if standing is not None:
        if rollout["standing"] is None:
            _keep(changes, row, standing=standing)
        elif rollout["ready"] and _RANK.get(standing, 0) > _RANK.get(rollout["standing"], 0):
            return f"Revision {row.revision} answers, and the service is {standing} since."
    return None


def progress(row: State) -> dict[str, Any] | None:
    """How far it is, in numbers; None when nothing is being replaced."""
    return None if row.rollout is None else _data(row)


def _leavers(row: State, staying: Sequence[Seat], ready: Sequence[Seat], old: Sequence[Seat]) -> list[Seat]:
    """Replicas of other revisions that may leave now: those that do not serve, and of the others as many as are spare.

    Without room for one more, one goes first, if others serve and none is on its way.
    """
    assert row.rollout is not None  # noqa: S101 - asked of what is being replaced
    idle = [seat for seat in old if seat not in ready]
    serving = [seat for seat in old if seat in ready]
    spare = max(0, len(ready) - row.workers)
    if row.rollout["has_no_room"] and not spare and len(staying) == len(ready) >= max(2, row.workers):
        spare = 1
    return [*idle, *serving[:spare]]


def _ask(changes: Changes, row: State, has_old: bool) -> None:
    """Ask for one replica more while one of another revision is to be replaced and none is leaving."""
    assert row.rollout is not None  # noqa: S101 - asked of what is being replaced
    is_leaving = any(seat.state == LEAVING for seat in changes.live(row))
    surge = int(has_old and not is_leaving and not row.rollout["has_no_room"])
    if surge != row.surge:
        changes.bump(row, surge=surge)
    is_asked = bool(surge)
    if canaries.is_one(row.rollout):  # its one more stays
        is_asked = is_asked and sum(seat.state != LEAVING for seat in changes.live(row)) <= row.workers
    if is_asked != (row.rollout["asked_at"] is not None):
        _keep(changes, row, asked_at=changes.at if is_asked else None)


def _split(changes: Changes, row: State) -> None:
    """Have the cluster split the requests as is right now, where that is not what it was told last."""
    assert row.rollout is not None  # noqa: S101 - asked of what is being replaced
    before, now = row.rollout.get("split"), canaries.split(row, changes.live(row))
    if before == now:
        return
    _keep(changes, row, split=now)
    if now is None and before is not None and before[0] != row.attempt:
        return  # it was told of an attempt that is over
    changes.act("split", row, ())
    if now is not None and not row.rollout["is_back"] and (before is None or before[1:] != now[1:]):
        # What is judged begins with the split, and with each step anew: the load that it gets is another one then.
        is_new = row.rollout.get("told") is None or (row.rollout.get("steps") and row.rollout["told"] != now[2])
        if is_new:
            _keep(changes, row, split_at=changes.at, judged=None)
        if row.rollout.get("told") != now[2]:
            _keep(changes, row, told=now[2])
            others = row.rollout["from"]
            message = f"Revision {row.revision} gets {now[2]} % of the requests, revision {others} the others."
            changes.note(row, "Split", message=message, data=_data(row))


def _burns(row: State, judged: Judged) -> str:
    assert row.rollout is not None  # noqa: S101 - asked of what is being replaced
    own, before = judged.own, judged.before
    return (
        f"{own.over} of the {own.requests} requests that revision {row.revision} answered were late or failed; "
        f"{100 * (1 - judged.availability):.3g} % may, and of revision {row.rollout['from']} "
        f"{100 * before.part:.3g} % were."
    )


def _note_refusal(changes: Changes, row: State) -> None:
    """There is no room for one replica more if the scheduler has told a while ago why it has no place."""
    assert row.rollout is not None  # noqa: S101 - asked of what is being replaced
    asked_at = row.rollout["asked_at"]
    if asked_at is None or changes.at < asked_at + ROOM_SECONDS or not row.reason or row.reason_at < asked_at:
        return
    if sum(seat.state != LEAVING for seat in changes.live(row)) == row.workers >= 2:
        _keep(changes, row, has_no_room=True)
        changes.change(row, reason="", message="")


def _finish(changes: Changes, row: State) -> None:
    assert row.rollout is not None  # noqa: S101 - asked of what is being replaced
    is_back, failed = row.rollout["is_back"], row.rollout["from"]
    data = _data(row)
    if row.rollout.get("split") is not None:
        changes.act("split", row, ())
    changes.bump(row, rollout=None, surge=0)
    kind = "RolledBack" if is_back else "RolledOut"
    again = " again" if is_back else ""
    told = f"All replicas are of revision {row.revision}{again}; none is left of revision {failed}."
    changes.note(row, kind, message=told, data=data)


def _since(changes: Changes, row: State) -> float:
    """When it last came further; one that was preempted meanwhile begins anew with its places."""
    assert row.rollout is not None  # noqa: S101 - asked of what is being replaced
    live = changes.live(row)
    if canaries.is_one(row.rollout) and row.rollout["ready"]:
        # It serves, and waits for a person however long: only a replica that has a place and does not answer is late.
        late = [
            one for one in live if one.revision == row.revision and one.state != LEAVING and not canaries.serves(one)
        ]
        return min((one.bound_at for one in late if one.bound_at is not None), default=changes.at)
    bound = [seat.bound_at for seat in live if seat.bound_at is not None]
    return float(max(row.rollout["moved_at"], min(bound, default=changes.at)))


def _pending(changes: Changes, row: State) -> bool:
    """Whether a replica of the wanted revision has a place."""
    return any(seat.revision == row.revision and seat.state != LEAVING for seat in changes.live(row))


def _settled(row: State) -> int:
    """The revision that is to be gone back to if the next one fails: the last one that worked."""
    if row.rollout is not None and not row.rollout["is_back"]:
        return int(row.rollout["from"])
    return row.revision


def _rollout(before: int, at: float) -> dict[str, Any]:
    return {
        "from": before, "is_back": False, "since": at, "moved_at": at, "ready": 0, "ended": 0, "asked_at": None,
        "has_no_room": False, "standing": None, "reason": "", "message": "", "weight": WHOLE, "split": None,
        "split_at": None, "told": None, "judged": None, "steps": [], "step_seconds": 0.0, "held": "",
        "by_owner": False,
    }  # fmt: skip


def _planned(plan: Plan) -> dict[str, Any]:
    return {"weight": plan.weight, "steps": list(plan.steps), "step_seconds": plan.step_seconds, "held": ""}


def _data(row: State) -> dict[str, Any]:
    assert row.rollout is not None  # noqa: S101 - asked of what is being replaced
    found = {"revision": row.revision, "from": row.rollout["from"], "ready": row.rollout["ready"], "of": row.workers}
    if canaries.is_one(row.rollout):
        found |= {"of": canaries.shares(row)[row.revision], "weight": canaries.weight_of(row.rollout)}
    return found


def _keep(changes: Changes, row: State, **parts: Any) -> None:
    """Note parts of how it stands; nothing that the scheduler looks at."""
    assert row.rollout is not None  # noqa: S101 - asked of what is being replaced
    row.rollout = row.rollout | parts
    row.changed.add("rollout")
