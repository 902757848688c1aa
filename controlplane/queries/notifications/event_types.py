"""Events and states that a notification can be about: in words, each with a key that names it once."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Q

from autoscaler.alarms import Alarm, after
from autoscaler.sla import Standing
from controlplane.jobspec.quantities import iso
from controlplane.models import Matter, ServiceAlarm, StartForecast, Workload, bulk
from controlplane.outgoing.payload import Said
from controlplane.queries.audit import eventlog
from controlplane.queries.audit.eventlog import Part, Place
from controlplane.queries.reports import sla
from controlplane.queries.tenancy import shares
from scheduler.model.dependency import DEPENDENCY_FAILED, HOW
from scheduler.model.mention import clipped
from scheduler.model.workload import ENDED, WAITING, Phase

DAY = 86_400.0  # s of the cluster's clock: that a service keeps its objective again is news for so long
THRESHOLDS = (100, 80)  # % of a budget
MAX_EVENTS = 5_000  # numbers read in a round; the next one goes on from there

_ENDED = tuple(sorted(phase.value for phase in ENDED))
_EVENT = ("id", "kind", "phase", "team", "workload", "name", "reason", "message", "actor", "cluster_at")
_OF_INTEREST = Q(phase__in=_ENDED) | Q(kind="Evicted")
_WHY = {
    "Preempted": "was preempted",
    "Reclaimed": "was preempted: a team reclaims its GPUs",
    "FairShare": "was preempted: another team is further below its fair share",
    "Consolidated": "is moved to another place",
    "Reallocated": "moves to places where it is expected to run faster",
    "TakenBack": "saves and leaves: a service needs the GPUs that it lent",
}


@dataclass(frozen=True, slots=True)
class Found:
    """One matter. `by` submitted the workload, `actor` did it; `event` is 0 for how something stands."""

    said: Said
    by: int | None = None
    actor: str = ""
    event: int = 0


def happened(place: Place, *, now: float) -> tuple[tuple[Found, ...], Place]:
    """Ends and preemptions since this place, and where reading goes on. `now`: the database's clock, seconds."""
    part: Part = eventlog.after(place, _EVENT, _OF_INTEREST, now=now, most=MAX_EVENTS)
    rows = [row for row in part.rows if row[4] is not None and (row[1] != "Evicted" or row[2] == Phase.CHECKPOINTING)]
    by = _submitters(row[4] for row in rows)
    return tuple(_of_event(row, by) for row in rows), part.place


def waiting_long(at: float) -> tuple[Found, ...]:
    """Work that waits beyond the interval that was told when its wait began. `at` is the cluster's clock."""
    columns = ("workload", "asked_at", "first_high")
    late = bulk.select(StartForecast, columns, {"waited__isnull": True, "first_high__lt": at}, order=("first_high",))
    promised = {uid: (asked, high) for uid, asked, high in late}
    names = ("uid", "name", "team__name", "created_by_id", "message", "queued_at")
    rows = Workload.objects.filter(uid__among=list(promised), phase__in=[phase.value for phase in WAITING])
    return tuple(_of_wait(row, *promised[row[0]], at) for row in rows.order_by("seq").values_list(*names))


def budgets_used(at: float) -> tuple[Found, ...]:
    """Budgets of which 80 or 100 % are used in their present period, each for the highest of the two."""
    found = []
    for row in shares.budgets(at):
        reached = next((percent for percent in THRESHOLDS if row.ratio * 100 >= percent), None)
        if reached is None:
            continue
        rest = "nothing new starts before the next period" if row.is_hard else "this is a warning only"
        message = f"Team {row.team} has used {row.used_hours:.1f} of {row.gpu_hours} GPU hours for this {row.period}"
        said = Said(
            key=f"budget:{row.pk}:{int(row.since)}:{row.gpu_hours}:{reached}",
            matter=Matter.BUDGET.value,
            team=row.team,
            title=f"{row.team} has used {reached} % of its budget for this {row.period}",
            message=f"{message}; {rest}." if reached == THRESHOLDS[0] else f"{message}.",
            cluster_at=at,
            page="/teams/",
            data={
                "percent": reached,
                "period": row.period,
                "used_gpu_hours": round(row.used_hours, 1),
                "gpu_hours": row.gpu_hours,
                "is_hard": row.is_hard,
                "until": iso(row.until),
            },
        )
        found.append(Found(said))
    return tuple(found)


def burning(at: float) -> tuple[tuple[Found, ...], Mapping[UUID, Alarm]]:
    """Services that are at risk, have missed their objective, or lately kept it again; and the alarms that changed.

    The key changes with the alarm, so that each change is told once.
    """
    rows = sla.services(at)
    stored = ServiceAlarm.objects.filter(workload__among=[row.uid for row in rows])
    known = {
        uid: Alarm(Standing(standing), since, Standing(better) if better else None, better_since)
        for uid, standing, since, better, better_since in stored.values_list(
            "workload", "standing", "since", "better", "better_since"
        )
    }
    alarms = {row.uid: after(known.get(row.uid, Alarm()), row.standing, at) for row in rows}
    told = [row for row in rows if _is_told(alarms[row.uid], at)]
    by = _submitters(row.uid for row in told)
    found = tuple(Found(_of_service(row, alarms[row.uid]), by.get(row.uid)) for row in told)
    return found, {uid: alarm for uid, alarm in alarms.items() if alarm != known.get(uid, Alarm())}


def _is_told(alarm: Alarm, at: float) -> bool:
    """Trouble as long as it lasts; its end for a day."""
    return alarm.standing is not Standing.MET or (alarm.since > 0 and at - alarm.since < DAY)


def _of_event(row: Any, by: Mapping[UUID, int | None]) -> Found:
    number, kind, phase, team, uid, name, reason, message, actor, at = row
    has_ended = kind != "Evicted"
    is_never = reason == DEPENDENCY_FAILED
    how = ("can never start" if is_never else HOW[Phase(phase)]) if has_ended else _WHY.get(reason, "was preempted")
    matter = Matter.ENDED if has_ended else Matter.PREEMPTED
    said = Said(
        key=f"ended:{uid}" if has_ended else f"event:{number}",
        matter=matter.value,
        team=team,
        title=f"{name} {how}",
        message=message,
        cluster_at=at,
        page=f"/workloads/{uid}/",
        workload=uid,
        name=name,
        data={"phase": phase, "reason": reason, "actor": actor},
    )
    return Found(said, by.get(uid), actor, number)


def _of_wait(row: Any, asked: float, high: float, at: float) -> Found:
    uid, name, team, by, message, queued_at = row
    by_when = iso(high)[:16].replace("T", " ")
    told = f"It was expected to start by {by_when} UTC, in 9 of 10 cases."
    said = Said(
        key=f"waits:{uid}:{int(asked)}",
        matter=Matter.WAITS_LONG.value,
        team=team,
        title=f"{name} waits longer than expected",
        message=clipped(f"{told} {message}".strip(), 400),
        cluster_at=at,
        page=f"/workloads/{uid}/",
        workload=uid,
        name=name,
        data={"expected_by": iso(high), "waited_seconds": round(at - queued_at)},
    )
    return Found(said, by)


def _left(budget: float) -> str:
    """What is left of an error budget, in words."""
    return f"{budget * 100:.0f} % of its error budget is left." if budget > 0 else "Its error budget is exhausted."


_TITLES = {
    Standing.MET: "keeps its objective again",
    Standing.AT_RISK: "burns its error budget",
    Standing.VIOLATED: "has missed its objective",
}


def _of_service(row: sla.ServiceRow, alarm: Alarm) -> Said:
    left = row.budget_left or 0.0
    burn = "" if row.burn_rate is None else f" Burn rate of the last hour: {row.burn_rate:.1f}x (1x = on target)."
    word = alarm.standing
    return Said(
        key=f"slo:{row.uid}:{word.value.replace(' ', '-')}:{int(alarm.since)}",
        matter=Matter.SLO.value,
        team=row.team,
        title=f"{row.name} {_TITLES[word]}",
        message=f"{_left(left)}{burn}",
        cluster_at=alarm.since,
        page=f"/workloads/{row.uid}/",
        workload=row.uid,
        name=row.name,
        data={"standing": word.value, "budget_left": round(left, 4), "burn_rate": row.burn_rate},
    )


def _submitters(uids: Iterable[UUID]) -> dict[UUID, int | None]:
    found: dict[UUID, int | None] = {}
    for part in bulk.chunks(list(dict.fromkeys(uids))):
        found |= dict(Workload.objects.filter(uid__among=part).values_list("uid", "created_by_id"))
    return found
