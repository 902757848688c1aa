"""What a custom resource's status says of a workload or team: phase, reason and conditions. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoscaler.sla import Standing
from controlplane.jobspec.quantities import iso
from scheduler.model.workload import ENDED, Phase

Json = dict[str, Any]
ACCEPTED, ADMITTED, RUNNING, FINISHED = "Accepted", "Admitted", "Running", "Finished"
OBJECTIVE_MET = "ObjectiveMet"
# Status and reason of that condition. A service at risk keeps its objective as yet.
_STANDS = {
    Standing.MET: ("True", "Met"),
    Standing.AT_RISK: ("True", "AtRisk"),
    Standing.VIOLATED: ("False", "Violated"),
    Standing.UNKNOWN: ("Unknown", "NotKnown"),
}
_WAITING = (Phase.SUBMITTED, Phase.QUEUED, Phase.HELD, Phase.RESERVED, Phase.SUSPENDED, Phase.PREEMPTED)
_UP = (Phase.RUNNING, Phase.SCALING, Phase.DEGRADED)
MOST = 1024  # characters of a message


@dataclass(frozen=True, slots=True)
class Seen:
    """What is shown of a workload's row. Times: the cluster's clock; gpus: milli-GPU of all members.

    standing: of a service, against its objective; None: it has none, or has ended.
    """

    phase: Phase
    reason: str
    message: str
    attempt: int
    exit_code: int | None
    gpus: int
    running: int
    workers: int
    submitted_at: float
    started_at: float | None
    ended_at: float | None
    standing: Standing | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of the object's spec: taken over, or refused with a code and a sentence that has the fix."""

    code: str = "Accepted"
    message: str = ""
    is_accepted: bool = True


@dataclass(frozen=True, slots=True)
class Told:
    """To which generation of the object a status belongs, and when it is told (seconds since 1970)."""

    generation: int
    at: float
    before: Mapping[str, Any]


def of_workload(seen: Seen | None, verdict: Verdict, told: Told) -> Json:
    """The status of a Workload object. `seen` is None as long as nothing was submitted."""
    conditions = [_accepted(verdict)]
    found: Json = {"observedGeneration": told.generation}
    if seen is not None:
        conditions += _of_phase(seen)
        found |= _shown(seen)
    return found | {"conditions": _since(conditions, told)}


def of_team(namespace: str, verdict: Verdict, told: Told) -> Json:
    """The status of a Team object."""
    where = {"namespace": namespace} if verdict.is_accepted else {}
    return {
        "observedGeneration": told.generation,
        **where,
        "conditions": _since([_accepted(verdict)], told),
    }


def without_words(status: Mapping[str, Any]) -> Json:
    """A status but for its sentences about waiting, which change with each number in them."""
    conditions = [{**one, "message": ""} if one["type"] == ADMITTED else one for one in status.get("conditions", ())]
    return {**status, "message": "", "conditions": conditions}


def _shown(seen: Seen) -> Json:
    texts = {
        "phase": seen.phase.value,
        "reason": seen.reason,
        "message": seen.message[:MOST],
        "gpus": f"{seen.gpus / 1000:g}",
        "workers": f"{seen.running}/{seen.workers}",
    }
    times = {"submittedAt": seen.submitted_at, "startedAt": seen.started_at, "endedAt": seen.ended_at}
    return {
        **texts,
        "attempt": seen.attempt,
        **({} if seen.exit_code is None else {"exitCode": seen.exit_code}),
        **{name: iso(at) for name, at in times.items() if at is not None},
    }


def _of_phase(seen: Seen) -> list[Json]:
    is_over, is_up = seen.phase in ENDED, seen.phase in _UP
    is_in = not is_over and seen.phase not in _WAITING
    why = seen.reason if seen.phase in _WAITING and seen.reason else seen.phase.value
    return [
        _condition(ADMITTED, is_in, why, seen.message if not is_in else ""),
        _condition(RUNNING, is_up, seen.phase.value, ""),
        _condition(FINISHED, is_over, seen.phase.value, seen.message if is_over else ""),
        *_of_objective(seen.standing),
    ]


def _of_objective(standing: Standing | None) -> list[Json]:
    """None of what has no objective, or has ended."""
    if standing is None:
        return []
    status, reason = _STANDS[standing]
    return [{"type": OBJECTIVE_MET, "status": status, "reason": reason, "message": ""}]


def _accepted(verdict: Verdict) -> Json:
    return _condition(ACCEPTED, verdict.is_accepted, verdict.code, verdict.message)


def _condition(kind: str, is_so: bool, reason: str, message: str) -> Json:
    return {"type": kind, "status": "True" if is_so else "False", "reason": reason, "message": message[:MOST]}


def _since(conditions: Sequence[Json], told: Told) -> list[Json]:
    """Each with the time since when it is so, which stays as long as it does."""
    before = {one["type"]: one for one in told.before.get("conditions") or ()}
    made = []
    for one in conditions:
        was = before.get(one["type"], {})
        is_same = was.get("status") == one["status"] and "lastTransitionTime" in was
        since = was["lastTransitionTime"] if is_same else iso(told.at)
        made.append({**one, "lastTransitionTime": since, "observedGeneration": told.generation})
    return made
