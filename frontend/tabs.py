"""What each tab of a workload's page shows."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.cache import cache
from django.http import HttpRequest
from django.urls import reverse

from controlplane.cluster.port import ClusterUnreachable
from controlplane.queries.accounts import access
from controlplane.queries.reports import sla
from controlplane.queries.scheduling import cluster
from controlplane.queries.workloads import diagnosis, experiments, measured, scalingcurve, standby
from controlplane.queries.workloads import workloads as queries
from controlplane.queries.workloads.workloadrows import starts_after
from controlplane.services.workloads.samples import PERIOD as SAMPLE_SECONDS
from frontend import answers, charts, forms, scalingdrawing, suggestions, trainingwords, words
from scheduler.model.workload import ENDED, WAITING, Kind, Phase

TABS = (
    ("why", "Why"),
    ("timeline", "Timeline"),
    ("events", "Events"),
    ("placement", "Placement"),
    ("metrics", "Metrics"),
    ("logs", "Logs"),
    ("cost", "Cost"),
    ("file", "Job file"),
)
DIAGNOSIS = ("diagnosis", "Diagnosis")  # of trainings
LATEST = 8
MAX_EVENTS = 200
EVENTS = 50  # on one page of the log
TAIL = 500
SUGGESTIONS_SECONDS, LARGE_SUGGESTIONS_SECONDS = 10.0, 120.0  # how old what would start it may be
MAX_WINDOWS = 60  # rows of the table beside the latency chart
MEASURED = (
    ("duty", "GPU utilisation", "percentage of time in which its GPUs computed"),
    ("memory", "GPU memory", "on each of its GPUs"),
    ("step", "Step time", "of one training step"),
)
MARKS = {"ok": ("✓", "ok", "ok"), "fails": ("✕", "bad", "blocks it"), "unknown": ("–", "dim", "not checked yet")}


@dataclass(frozen=True, slots=True)
class Band:
    """One phase on the timeline."""

    phase: str
    tone: str
    start: float
    seconds: float
    x: str
    width: str


def with_seats(rows: Sequence[Any]) -> Sequence[Any]:
    """Give each workload `running` and `sentence`. Two queries, however many there are."""
    running, used = cluster.running(rows), measured.utilisation(rows)
    for w in rows:
        w.running = running.get(w.pk, 0)
        w.sentence = words.standing(w.phase, w.reason, w.message, w.workers, w.running, w.exit_code, used.get(w.pk))
    return rows


def with_standing(rows: Sequence[Any], now: float) -> Sequence[Any]:
    """Give each workload `standing`: how it stands against its objective; None without one. Three queries, or none."""
    services = [w.pk for w in rows if w.kind == Kind.INFERENCE.value]
    told = sla.standings(now, services) if services else {}
    for w in rows:
        w.standing = told.get(w.pk)
    return rows


def context(tab: str, request: HttpRequest, w: Any, seen: Collection[str] | None) -> dict[str, Any]:
    """What the tab's template needs."""
    return MAKERS[tab](request, w, seen) if tab in MAKERS else {}


def checks(found: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The scheduler's checks with their marks."""
    told = []
    for check in found:
        mark, tone, word = MARKS[check["status"]]
        told.append({**check, "mark": mark, "tone": tone, "word": word})
    return told


def read_logs(w: Any, *, tail: int = TAIL, since: str = "") -> dict[str, Any]:
    """The last lines, or the sentence why they cannot be read."""
    try:
        moment = float(since)
    except ValueError:
        moment = None
    if moment is not None and moment != moment:  # NaN
        moment = None
    try:
        found = queries.logs(w, tail=tail, since=moment)
    except ClusterUnreachable as error:
        return {"log_error": f"The cluster does not respond: {error}", "lines": [], "next_since": since}
    lines = [{**line, "clock": words.clock_time(line["seconds"])} for line in found["lines"]]
    return {"log_error": "", "lines": lines, "next_since": found["next_since"]}


def _why(request: HttpRequest, w: Any, seen: Collection[str] | None) -> dict[str, Any]:
    found = queries.explanation(request.user, w, in_full=False)
    with_seats([w])
    waits, size = found["will_start"] is False, _size(w, found["message"])
    is_kept = queries.is_large()
    searches = waits and (not is_kept or request.GET.get("search") == "1")
    return {
        "is_waiting": Phase(w.phase) in WAITING,
        "sentence": (found["message"] if not size else "") or w.sentence,
        "checks": checks(found["checks"]),
        "evicts": found["evicts"],
        "suggestions": _suggestions(request, w) if searches else [],
        "as_of": moment(found["as_of"]) if is_kept else None,
        "search": "" if searches or not waits else answers.link(request, search=1, part=None),
        "no_suggestions": found["no_suggestions"] if searches else "",
        "position": found["position"],
        "in_queue": found["in_queue"],
        "expected": None if found["will_start"] else found["expected_start"],
        "first": starts_after(w.spec if isinstance(w.spec, Mapping) else {}, w.unmet),
        "latest": _without_old_reasons(_events(w, LATEST)),
        "facts": [] if Phase(w.phase) in WAITING else _facts(w) + size,
        "changed": [_with_time(one) for one in found["changed_by_weft"]],
    }


def _with_time(changed: Mapping[str, Any]) -> dict[str, Any]:
    """What Weft changed, with the moment as seconds of the cluster's clock; None: not known."""
    return {**changed, "at": moment(changed["since"])}


def moment(text: str | None) -> float | None:
    """A time of the REST API as seconds of the cluster's clock; None: not known."""
    return None if text is None else datetime.fromisoformat(text).timestamp()


def _without_old_reasons(events: list[Any]) -> list[Any]:
    """The same events; why it waited then is not told beside why it waits now."""
    for event in events:
        if event.kind == "Waiting":
            event.sentence = event.reason
    return events


def _suggestions(request: HttpRequest, w: Any) -> list[dict[str, Any]]:
    """What would start it now; searched again only after a while, as the page comes back with each event."""
    key = f"suggestions-{w.pk}-{request.user.pk}"
    found: list[dict[str, Any]] | None = cache.get(key)
    if found is None:
        found = queries.suggestions(request.user, w)
        cache.set(key, found, LARGE_SUGGESTIONS_SECONDS if queries.is_large() else SUGGESTIONS_SECONDS)
    may_submit = access.can(request.user, access.Verb.SUBMIT, w.team.name)
    return suggestions.with_links(found, w, may_submit=may_submit)


def _size(w: Any, message: str) -> list[tuple[str, str]]:
    """With how many workers an elastic gang runs, and why with no more."""
    is_elastic = w.kind == Kind.TRAINING and w.workers_min < w.workers_max
    is_up = Phase(w.phase) in (Phase.RUNNING, Phase.SCALING)
    return [("Workers", message)] if is_elastic and is_up and message else []


def _facts(w: Any) -> list[tuple[str, str]]:
    """How one that does not wait got where it is."""
    facts = []
    if w.first_started_at is not None:
        facts.append(("Waited", f"{words.duration(w.first_started_at - w.submitted_at)} until it first ran"))
    live = [p for p in queries.placement(w)["workers"] if p["state"] != "Released"]
    if live:
        nodes = words.listed(list(dict.fromkeys(p["node"] for p in live)), 6)
        facts.append(("Allocated", f"{words.gpus(sum(p['milli'] for p in live))} GPU on {nodes}"))
    if w.preempted_at:
        facts.append(("Preempted", words.plural(len(w.preempted_at), "time")))
    if w.failures:
        facts.append(("Failed", f"{words.plural(w.failures, 'time')} of at most {w.retries + 1}"))
    return facts


def _timeline(request: HttpRequest, w: Any, seen: Collection[str] | None) -> dict[str, Any]:
    events = _events(w, MAX_EVENTS)
    end = w.ended_at or answers.clock(request).now
    return {"events": events, "bands": _bands(list(reversed(events)), end), "end": end}


def _log(request: HttpRequest, w: Any, seen: Collection[str] | None) -> dict[str, Any]:
    """All events, a page at a time; `before` is the number of the last one on the page before."""
    before = answers.number(request.GET.get("before"), 0, 10**9)
    found = _events(w, EVENTS + 1, before)
    older = answers.link(request, before=found[EVENTS - 1].pk, part=None) if len(found) > EVENTS else ""
    newest = answers.link(request, before=None, part=None) if before else ""
    return {"events": found[:EVENTS], "older": older, "newest": newest}


def _metrics(request: HttpRequest, w: Any, seen: Collection[str] | None) -> dict[str, Any]:
    found = measured.samples(w)
    lines = [
        {
            "what": what,
            "title": title,
            "unit": unit,
            "is_known": any(charts.MEASURES[what].value(s) is not None for s in found),
        }
        for what, title, unit in MEASURED
        if what != "step" or w.kind == Kind.TRAINING.value
    ]
    return {
        "samples": found[::-1],
        "lines": lines,
        "is_table": request.GET.get("view") == "table",
        "is_shared": bool(w.share_guarantee),
        "period": SAMPLE_SECONDS,
    }


def _diagnosis(request: HttpRequest, w: Any, seen: Collection[str] | None) -> dict[str, Any]:
    known, tried = diagnosis.of(w), _tried(request, w) | {"restart": diagnosis.restart(w)}
    if known is None:
        return {"known": None, "silent": diagnosis.SILENT} | tried
    found, points, known_batch = known.diagnosis, scalingcurve.of(w), scalingcurve.batch_of(w)
    told = ((trainingwords.LEVELS[name], getattr(found.levels, name)) for name in diagnosis.LEVELS)
    return {
        "known": known,
        "title": trainingwords.BOTTLENECKS[found.bottleneck] if found.bottleneck else "Not known yet",
        "evidence": [
            {
                "title": trainingwords.BOTTLENECKS[one],
                "removable": evidence.removable,
                "percent": round(100 * diagnosis.strength(evidence.odds)),
                "lately": scalingdrawing.lately(evidence.lately, trainingwords.BOTTLENECKS[one]),
            }
            for one, evidence in diagnosis.ranked(found)
        ],
        "levels": [(title, part) for title, part in told if part is not None],
        "slow": diagnosis.slow_worker(w, found),
        "curve": scalingdrawing.drawn(points, workers=w.workers),
        "has_goodput": any(point.goodput is not None for point in points),
        "batch": known_batch,
        "batches": known_batch and scalingdrawing.of_batches(known_batch.points, size=known_batch.size),
    } | tried


def _tried(request: HttpRequest, w: Any) -> dict[str, Any]:
    """What would make it faster, and what was tried for that."""
    rows = [
        {"e": one, "tone": trainingwords.STATUSES[one.status][0], "told": trainingwords.STATUSES[one.status][1],
         "expected": experiments.part(one.expected), "gain": experiments.part(one.gain)}
        for one in experiments.of(w)
    ]  # fmt: skip
    newest = experiments.newest_in_place(w)
    may = access.can(request.user, access.Verb.CHANGE, w.team.name, submitter=w.created_by_id)
    return {
        "recommended": experiments.recommended(w),
        "tried": rows,
        "reallocation": trainingwords.REALLOCATION[w.team.reallocation],
        "may_take_back": newest is not None and may and Phase(w.phase) not in ENDED,
    }


def way_back(w: Any) -> dict[str, Any]:
    """What is asked before the newest change is taken back."""
    newest = experiments.newest_in_place(w)
    if newest is None:
        return {"w": w, "question": f"Nothing of {w.name} can be taken back", "label": "",
                "effect": "None of its changes were made by Weft, or they are gone again."}  # fmt: skip
    cpu, before = round(1000 * newest.before["cpu"]), newest.before["gpus"]
    effect = f"Each worker gets {words.cores(cpu)} {'core' if cpu == 1000 else 'cores'} again, in place."
    if newest.axis in ("place", "node"):
        effect = (
            f"Once there is room, it saves its work and starts again with its GPUs on "
            f"{words.plural(len(before), 'node')}; what has not moved yet stays."
        )
    if newest.axis == "servers":
        effect = (
            f"It saves its work and starts again with {words.plural(newest.before['servers'], 'parameter server')}."
        )
    if newest.axis == "batch":
        examples = round(sum(before) * newest.before["batch"])
        effect = f"It saves its work and starts again with {words.plural(examples, 'example')} in a step."
    return {
        "w": w,
        "verb": "take_back",
        "label": "Take back",
        "question": f"Take the change of {w.name} back?",
        "effect": f"{effect} It is not tried again.",
        "action_url": reverse("frontend:take_back", args=[w.pk]),
    }


def _cost(request: HttpRequest, w: Any, seen: Collection[str] | None) -> dict[str, Any]:
    return {"cost": measured.cost(w)}


def _placement(request: HttpRequest, w: Any, seen: Collection[str] | None) -> dict[str, Any]:
    workers = queries.placement(w)["workers"]
    live = [p for p in workers if p["state"] != "Released"]
    names = list(dict.fromkeys(p["node"] for p in live))
    nodes: tuple[cluster.NodeRow, ...] = ()
    count = 0
    if names:
        nodes = cluster.hosts(names, seen)
    elif Phase(w.phase) not in ENDED:
        nodes, count = cluster.of_models(w.gpu_models, seen)
    there = {t.team: t.colour for n in nodes for g in n.gpus for t in g.tenants}
    return {
        "enforcers": sorted({n.enforced_by for n in nodes if n.enforced_by}) if w.share_guarantee else (),
        "workers": workers,
        "nodes": nodes,
        "node_count": count if count > len(nodes) else 0,
        "teams": sorted(there.items()),
        "borrowed": standby.borrowed(w, answers.clock(request).now) if w.kind == Kind.TRAINING.value else None,
    }


def _logs(request: HttpRequest, w: Any, seen: Collection[str] | None) -> dict[str, Any]:
    return {**read_logs(w), "is_live": Phase(w.phase) not in ENDED}


def _file(request: HttpRequest, w: Any, seen: Collection[str] | None) -> dict[str, Any]:
    job = suggestions.job_of(w.spec)
    origin = f"{request.scheme}://{request.get_host()}"
    may_submit = access.can(request.user, access.Verb.SUBMIT, w.team.name)
    return {"copies": forms.copies(job, origin), "may_submit": may_submit}


def _objective(request: HttpRequest, w: Any, seen: Collection[str] | None) -> dict[str, Any]:
    return {"windows": tuple(reversed(sla.latencies(answers.clock(request).now, w.pk)))[:MAX_WINDOWS]}


MAKERS: dict[str, Callable[[HttpRequest, Any, Collection[str] | None], dict[str, Any]]] = {
    "why": _why,
    "timeline": _timeline,
    "events": _log,
    "placement": _placement,
    "metrics": _metrics,
    "cost": _cost,
    "logs": _logs,
    "file": _file,
    "objective": _objective,
    "diagnosis": _diagnosis,
}


def _events(w: Any, most: int, before: int = 0) -> list[Any]:
    """The newest events first, each with its sentence; `before` leaves out those with this number and above."""
    rows = queries.events(w).order_by("-id")
    found: list[Any] = list((rows.filter(pk__lt=before) if before else rows)[:most])
    for event in found:
        event.person = "" if event.actor.startswith("loop:") else event.actor
        event.sentence = words.event_sentence(event.kind, event.reason, event.message, event.data)
    return found


def _bands(events: Sequence[Any], end: float) -> list[Band]:
    """Phases from the first event to `end`, as parts of the whole width."""
    steps: list[tuple[str, float]] = []
    for event in events:
        if event.phase and (not steps or steps[-1][0] != event.phase):
            steps.append((event.phase, event.cluster_at))
    if not steps or end <= steps[0][1]:
        return []
    first, whole = steps[0][1], end - steps[0][1]
    bands = []
    for (phase, start), stop in zip(steps, [*(at for _, at in steps[1:]), end], strict=True):
        if stop > start and Phase(phase) not in ENDED:
            x, width = (f"{100 * part / whole:.2f}%" for part in (start - first, stop - start))
            bands.append(Band(phase, words.tone(phase), start, stop - start, x, width))
    return bands
