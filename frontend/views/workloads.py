"""The queue, and one workload with its tabs and actions."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods

from controlplane.jobspec.spec import SpecError
from controlplane.queries.accounts import access
from controlplane.queries.reports import dashboard, sla
from controlplane.queries.rounds.lineup import Line, Turn
from controlplane.queries.scheduling import forecasts
from controlplane.queries.tenancy import teams
from controlplane.queries.workloads import measured, notebooks
from controlplane.queries.workloads import workloads as queries
from controlplane.services.errors import Refused
from controlplane.services.intake import ownership
from controlplane.services.training import changing
from controlplane.services.workloads import bulkactions
from controlplane.services.workloads import workloads as services
from frontend import charts, questions, resizing, tabs, words
from frontend.answers import answer, clock, hand, link, number, seen_teams, teams_for
from scheduler.model.workload import ENDED, Kind, Phase

PAGE = 50
PRIORITY = bulkactions.PRIORITY
ACTIONS = words.LABELS | {resizing.VERB: "Resize"}
LINE_SECONDS = 5.0  # how old the order of the queue may be while nothing happens


@login_required
@require_GET
def queue(request: HttpRequest) -> HttpResponse:
    """What waits, in the order of the next round."""
    names = teams_for(request, access.Verb.READ)
    team = request.GET.get("team", "")
    chosen = [team] if team in names else seen_teams(request)
    offset = number(request.GET.get("from"), 0)
    line = _line()
    mine = {turn.uid: turn for turn in line.turns if chosen is None or turn.team in chosen}
    uids = [*mine, *(uid for uid in queries.without_a_turn(chosen) if uid not in mine)]
    waiting, total = _in_turn(request, uids[offset : offset + PAGE], mine), len(uids)
    context = {
        "waiting": [w for w in waiting if w.position],
        "apart": [w for w in waiting if not w.position],
        "total": total,
        "in_queue": sum(turn.position is not None for turn in line.turns),
        "line": line,
        "team": team,
        "team_names": names,
        "may_try": access.is_platform_admin(request.user),
        "older": link(request, **{"from": offset + PAGE}) if offset + PAGE < total else "",
        "newer": link(request, **{"from": max(0, offset - PAGE)}) if offset else "",
    }
    return answer(request, "queue", "queue_rows", context)


@login_required
@require_GET
def detail(request: HttpRequest, uid: UUID) -> HttpResponse:
    """One workload; `tab` chooses what is shown below its head."""
    w = _visible(request, uid)
    if request.GET.get("part") == "head":
        return render(request, "frontend/parts/workload_head.html", _head(request, w))
    service = sla.one(clock(request).now, w)
    own = [("objective", "Objective")] if service else [tabs.DIAGNOSIS] if w.kind == Kind.TRAINING else []
    names = [*tabs.TABS, *own]
    default = "why" if Phase(w.phase) not in ENDED else "timeline"
    wanted = request.GET.get("tab", default)
    tab = wanted if wanted in dict(names) else default
    context = tabs.context(tab, request, w, seen_teams(request)) | {
        "w": w,
        "tab": tab,
        "tabs": names,
        "service": service,
    }
    template, part = f"frontend/parts/tab_{tab}.html", request.GET.get("part")
    if part == "tab":
        return render(request, template, context)
    head = _head(request, w)
    if "sentence" in context:  # the head says what the tab below it says, of one moment
        head["sentence"] = context["sentence"]
    page = "frontend/parts/workload_body.html" if part == "page" else "frontend/workload.html"
    return render(request, page, context | head | {"tab_template": template})


@login_required
@require_GET
def by_name(request: HttpRequest, team: str, name: str) -> HttpResponse:
    """The live workload of this name, else the newest; on the tab that is asked for."""
    w = queries.get(request.user, f"{team}/{name}")
    if w is None:
        raise Http404
    asked = request.GET.urlencode()
    return redirect(reverse("frontend:workload", args=[w.pk]) + (f"?{asked}" if asked else ""))


@login_required
@require_GET
def logs(request: HttpRequest, uid: UUID) -> HttpResponse:
    """The lines since a moment, or all of them as a file."""
    w = _visible(request, uid)
    is_file = "download" in request.GET
    found = tabs.read_logs(w, tail=10_000 if is_file else 500, since=request.GET.get("since", ""))
    if found["log_error"]:
        return HttpResponse(found["log_error"], status=503, content_type="text/plain; charset=utf-8")
    if is_file:
        text = "".join(f"{line['at']} [{line['rank']}] {line['text']}\n" for line in found["lines"])
        response = HttpResponse(text, content_type="text/plain; charset=utf-8")
        response["Content-Disposition"] = f'attachment; filename="{w.team.name}-{w.name}.log"'
        return response
    response = render(request, "frontend/parts/log_lines.html", found)
    response["X-Next-Since"] = str(found["next_since"])
    return response


@login_required
@require_GET
def service_chart(request: HttpRequest, uid: UUID) -> HttpResponse:
    """The figure of a service's latency against its objective."""
    w = _visible(request, uid)
    now = clock(request).now
    service = sla.one(now, w)
    if service is None or service.p95_target is None:
        raise Http404
    return JsonResponse(charts.objective_over_time(sla.latencies(now, w.pk), service.p95_target, words.p95(service)))


@login_required
@require_GET
def measured_chart(request: HttpRequest, uid: UUID, name: str) -> HttpResponse:
    """The figure of what a workload used."""
    w = _visible(request, uid)
    if name not in charts.MEASURES:
        raise Http404
    return JsonResponse(charts.measured_over_time(measured.samples(w), name))


@login_required
@require_http_methods(["GET", "POST"])
def act(request: HttpRequest, uid: UUID, verb: str) -> HttpResponse:
    """Say what an action would do; on POST do it."""
    w = _visible(request, uid)
    if verb not in words.LABELS:
        raise Http404
    if not _may(request, w, verb):
        raise PermissionDenied
    if request.method == "GET":
        return answer(request, "confirm", "confirm", _question(request, w, verb))
    (done,) = bulkactions.act(
        verb=verb,
        chosen=[w],
        allowed=[w.pk],
        actor=request.user.get_username(),
        hand=hand(request),
        priorities={w.pk: request.POST.get("priority", "")},
    )
    if done.refusal:
        messages.error(request, done.refusal)
    else:
        before = done.before if verb == PRIORITY else ""
        back = f"undo {words.UNDO[verb]} {uid} {before}" if verb in words.UNDO else ""
        messages.info(request, f"{words.DONE[verb]} {w.name}.", extra_tags=back.strip())
    return redirect("frontend:workload", uid)


@login_required
@require_http_methods(["GET", "POST"])
def resize(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Ask for the CPU and memory of each worker; on POST have them changed."""
    w = _visible(request, uid)
    if not _may(request, w, resizing.VERB):
        raise PermissionDenied
    if request.method == "GET":
        return answer(request, "confirm", "confirm", resizing.question(w, w.spec["resources"], {}))
    changes, faults = resizing.changes(w, request.POST), {}
    try:
        services.patch(workload=w, changes=changes, version=None, actor=request.user.get_username())
    except Refused as refused:
        faults = {refused.field: refused.message}
    except SpecError as refused:
        faults = {error.field: error.message for error in refused.errors}
    if faults:
        response = answer(request, "confirm", "confirm", resizing.question(w, changes["resources"], faults))
        response.status_code = 422
        return response
    messages.info(request, f"Resizing {w.name}.")
    return redirect("frontend:workload", uid)


@login_required
@require_http_methods(["GET", "POST"])
def take_back(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Ask before the newest change that Weft made of a training is taken back; on POST do it."""
    w = _visible(request, uid)
    if w.kind != Kind.TRAINING:
        raise Http404
    if not _may(request, w, resizing.VERB):
        raise PermissionDenied
    if request.method == "GET":
        return answer(request, "confirm", "confirm", tabs.way_back(w))
    try:
        changing.take_back(workload=w, actor=request.user.get_username(), hand=hand(request))
    except Refused as refused:
        messages.error(request, refused.message)
    else:
        messages.info(request, f"Taking the change of {w.name} back.")
    return redirect("frontend:workload", uid)


def _line() -> Line:
    """The order of the next round; where that takes a round, it is computed once for all viewers."""
    newest = f"line-{dashboard.newest_event()}"
    known: Line | None = cache.get(newest)
    if known is None:
        known = queries.line()
        if not known.is_kept:
            cache.set(newest, known, LINE_SECONDS)
    return known


def _in_turn(request: HttpRequest, uids: Sequence[str], places: Mapping[str, Turn]) -> list[Any]:
    """These workloads, each with its place and what the next round would tell it, which may be news."""
    found: dict[str, Any] = {str(w.pk): w for w in queries.of(request.user, uids).defer("spec")}
    listed = [found[uid] for uid in uids if uid in found]
    starts = forecasts.told(found)
    for w in listed:
        turn = places.get(str(w.pk))
        w.position = turn.position if turn else None
        w.will_start = turn is not None and turn.refusal is None
        w.expected = None if w.will_start else starts.get(str(w.pk))
        if turn and turn.refusal:
            w.reason, w.message = turn.refusal.reason.value, turn.refusal.message
    return listed


def _may(request: HttpRequest, w: Any, verb: str) -> bool:
    """Whether the viewer may do this; changing what it is is the submitter's and the team admins' only."""
    if verb in (PRIORITY, resizing.VERB):
        return access.can(request.user, access.Verb.CHANGE, w.team.name, submitter=w.created_by_id)
    return access.can(request.user, access.Verb.ACT, w.team.name)


def _visible(request: HttpRequest, uid: UUID) -> Any:
    w = queries.get(request.user, uid)
    if w is None:
        raise Http404
    return w


def _head(request: HttpRequest, w: Any) -> dict[str, Any]:
    tabs.with_standing(tabs.with_seats([w]), clock(request).now)
    return {
        "w": w,
        "sentence": w.sentence,
        "address": queries.address(w),
        "idle_since": queries.idle_since(w),
        "park_after": notebooks.park_after(w),
        "progress_width": f"{100 * min(1.0, w.progress or 0):.1f}%",
        "may_submit": access.can(request.user, access.Verb.SUBMIT, w.team.name),
        "actions": [(verb, ACTIONS[verb]) for verb in _verbs(request, w) if _may(request, w, verb)],
        "commands": _commands(w),
        **resizing.shown(w),
    }


def _commands(w: Any) -> list[str]:
    """How what a Kubernetes object has made is changed there."""
    return list(dict.fromkeys(ownership.command(w, v) for v in ("change", "suspend", "stop"))) if w.managed_by else []


def _verbs(request: HttpRequest, w: Any) -> tuple[str, ...]:
    """What can be done in its phase, and here; what ends it comes last."""
    verbs = words.actions(w.phase)
    more = (resizing.VERB, PRIORITY) if resizing.may_be(w) else (PRIORITY,)
    found = (*verbs[:-1], *more, *verbs[-1:]) if verbs else ()
    return tuple(verb for verb in found if not ownership.refusal(w, verb, hand(request)))


def _question(request: HttpRequest, w: Any, verb: str) -> dict[str, Any]:
    return {
        "w": w,
        "verb": verb,
        "label": words.LABELS[verb],
        "question": words.question(verb, [w.name]),
        "effect": questions.effect(w, verb, clock(request).now),
        "classes": teams.priority_classes() if verb == PRIORITY else [],
        "action_url": reverse("frontend:act", args=[w.pk, verb]),
    }
