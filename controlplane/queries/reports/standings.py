"""How services stood in the past: each minute of a stretch, and the stretches that no row of a day has yet."""

import math
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db.models import Max, Min, Q, Sum

from autoscaler import standings
from autoscaler.latency import ANSWER
from autoscaler.sla import SILENT_SECONDS
from autoscaler.standings import MINUTE, Moment, Promise, Window
from controlplane.domain.servicedays import DAY, Stretch
from controlplane.jobspec.objective import within as promised
from controlplane.models import Event, ServiceDay, ServiceWindow, Workload
from controlplane.queries.reports import sla
from scheduler.model.workload import ENDED, Kind

HOUR = 3600.0  # s
LAG = 180.0  # s after which a minute's window is written, if it ever is
_ENDED = tuple(phase.value for phase in ENDED)
_COLUMNS = ("pk", "phase", "spec", "objective_since", "ended_at")


def due(at: float, most: int, *, kept_days: int) -> tuple[Stretch, ...]:
    """What is to be noted of services with an objective: an hour or more, a day's rest, or the last of one that ended.

    At most so many, those that are furthest behind first. kept_days: how long windows are kept. Three queries.
    """
    oldest = at - kept_days * DAY
    rows = Workload.objects.filter(kind=Kind.INFERENCE.value)
    rows = rows.filter(~Q(phase__in=_ENDED) | Q(ended_at__gte=oldest)).order_by("seq")
    columns = rows.values_list(*_COLUMNS)
    found = [(*row, promise) for row in columns if (promise := _promise(row[2], row[3])) is not None]
    uids = [row[0] for row in found]
    days = ServiceDay.objects.filter(workload__among=uids).order_by().values_list("workload")
    noted: dict[UUID, float] = dict(days.annotate(until=Max("until")))
    new = ServiceWindow.objects.filter(workload__among=[uid for uid in uids if uid not in noted]).order_by()
    first: dict[UUID, float] = dict(new.values_list("workload").annotate(start=Min("start")))
    stretches = []
    for uid, phase, spec, _, ended_at, promise in found:
        begun = noted.get(uid, first.get(uid))
        if begun is not None:
            since = max(begun, oldest) // MINUTE * MINUTE
            until = _until(since, at, ended_at)
            if until is not None:
                within = promised(sla.objective(spec))
                latency, of = (None, ANSWER) if within is None else (within.seconds, within.of)
                stretches.append(Stretch(uid, promise, latency, phase, since, until, sla.may_sleep(spec), of))
    return tuple(sorted(stretches, key=lambda one: one.since)[:most])


def _promise(spec: Mapping[str, Any], since: float | None) -> Promise | None:
    """What a stored job file promises; None: nothing."""
    promised = sla.objective(spec)
    if not promised.get("availability"):
        return None
    return Promise(promised["availability"], float(promised["window_seconds"]), since)


def _until(since: float, at: float, ended_at: float | None) -> float | None:
    """Up to where to note from here; None: nothing yet."""
    day_ends = since // DAY * DAY + DAY
    whole = (at - LAG) // MINUTE * MINUTE
    if ended_at is not None and whole >= ended_at:
        last = math.ceil(ended_at / MINUTE) * MINUTE
        return min(last, day_ends) if last > since else None
    return min(whole, day_ends) if whole >= day_ends or whole - since >= HOUR else None


def history(w: Workload, since: float, until: float) -> tuple[Moment, ...]:
    """How a service stood at the end of each minute of (since, until]; nothing where it has no objective."""
    promise = _promise(w.spec, w.objective_since)
    if not promise:
        return ()
    return past(w.pk, promise, since, until, w.phase, may_sleep=sla.may_sleep(w.spec))[0]


def past(
    uid: UUID, promise: Promise, since: float, until: float, phase: str, *, may_sleep: bool = False
) -> tuple[tuple[Moment, ...], list[Window]]:
    """How a service stood at the end of each minute of (since, until], and its windows of that time.

    Four queries, six of one that may sleep.
    """
    ends = [since + MINUTE * n for n in range(1, int((until - since) // MINUTE) + 1)]
    if not ends:
        return (), []
    leaving, between = standings.needed(promise, since, until)
    mine = ServiceWindow.objects.filter(workload=uid)
    newest = max(leaving[0], between[1])
    single = Q(start__gte=leaving[0], start__lt=leaving[1]) | Q(start__gte=newest, start__lt=until)
    rows = mine.filter(single).order_by("start").values_list("start", "requests", "over")
    windows = [Window(start, requests or 0, over or 0) for start, requests, over in rows]
    if between[0] < between[1]:
        summed = mine.filter(start__gte=between[0], start__lt=between[1]).aggregate(r=Sum("requests"), o=Sum("over"))
        windows.append(Window(between[0], summed["r"] or 0, summed["o"] or 0))
        windows.sort(key=lambda one: one.start)
    slept = _slept(uid, ends) if may_sleep else None
    found = standings.moments(windows, ends, promise, _up(uid, ends, phase), slept)
    return found, [one for one in windows if since <= one.start < until]


def _up(uid: UUID, ends: Sequence[float], phase: str) -> list[bool]:
    """Whether its replicas were up at each of these moments, as its events tell; `phase` where they are gone."""
    told = Event.objects.filter(workload=uid).exclude(phase="")
    before = told.filter(cluster_at__lte=ends[0]).order_by("-id").values_list("phase", flat=True).first()
    later = told.filter(cluster_at__gt=ends[0], cluster_at__lte=ends[-1]).order_by("id")
    steps = list(later.values_list("cluster_at", "phase"))
    now, found = before or (steps[0][1] if steps else phase), []
    place = 0
    for at in ends:
        while place < len(steps) and steps[place][0] <= at:
            now = steps[place][1]
            place += 1
        found.append(now in sla.UP)
    return found


def _slept(uid: UUID, ends: Sequence[float]) -> list[bool]:
    """Whether it was asleep at each of these moments, or had woken within SILENT_SECONDS before. Two queries."""
    scaled = Event.objects.filter(workload=uid, kind="Scaled")
    first = ends[0] - SILENT_SECONDS
    last = scaled.filter(cluster_at__lte=first).order_by("-id").values_list("data", flat=True).first()
    later = scaled.filter(cluster_at__gt=first, cluster_at__lte=ends[-1]).order_by("id")
    steps = list(later.values_list("cluster_at", "data"))
    is_asleep, woke_at, place, found = (last or {}).get("after") == 0, -math.inf, 0, []
    for at in ends:
        while place < len(steps) and steps[place][0] <= at:
            after = steps[place][1].get("after")
            woke_at = steps[place][0] if is_asleep and after else woke_at
            is_asleep = after == 0
            place += 1
        found.append(is_asleep or at - woke_at < SILENT_SECONDS)
    return found
