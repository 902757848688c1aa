"""The list of workloads: filters, order, saved views, and actions on several at once."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from controlplane.queries.accounts import access, personal
from controlplane.queries.tenancy import teams
from controlplane.queries.workloads import worklist
from controlplane.queries.workloads import workloads as queries
from controlplane.services.accounts import savedviews
from controlplane.services.errors import Refused
from controlplane.services.intake import ownership
from controlplane.services.workloads import bulkactions
from frontend import questions, tabs, words
from frontend.answers import answer, clock, hand, is_part, link, roles, signed_in, teams_for
from scheduler.model.workload import Kind, Phase

if TYPE_CHECKING:
    from controlplane.models import Workload

PAGE = 50
PHASES = [
    ("waiting", "Waiting (any)"),
    ("active", "With GPUs allocated (any)"),
    ("ended", "Ended (any)"),
    *((p.value, p.value) for p in Phase if p not in (Phase.SUBMITTED, Phase.REJECTED)),
]
# Columns of the table that one can sort by: the name in the address, the heading, and its classes.
COLUMNS = (
    ("name", "Workload", ""),
    ("phase", "Phase", "tight"),
    ("gpus", "Requests", "optional"),
    ("", "Status", "optional"),
    ("priority", "Priority", "optional"),
    ("", "Workers", "num optional"),
    ("age", "Age", "num optional"),
)


@login_required
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """Workloads, newest first unless the address says otherwise, narrowed down by it."""
    filters = worklist.read_filters({name: request.GET.get(name, "") for name in savedviews.PARAMETERS})
    found = worklist.page(request.user, filters, request.GET.get("cursor", ""), PAGE)
    rows = tabs.with_standing(tabs.with_seats(found.rows), clock(request).now)
    may = _allowed(request, rows)
    for w in rows:
        w.is_mine_to_act = w.pk in may
    context = {
        "filters": filters,
        "q": filters.q,
        "rows": rows,
        "total": found.total,
        "older": link(request, cursor=found.following) if found.following else "",
        "newer": link(request, cursor=found.previous) if found.previous else "",
        "columns": [_column(request, filters.sort, *column) for column in COLUMNS],
        "may_act": bool(teams_for(request, access.Verb.ACT)),
        "verbs": [(verb, words.LABELS[verb]) for verb in bulkactions.VERBS if verb != "requeue"],
    }
    if not is_part(request):
        context |= _around(request)
    return answer(request, "workloads", "workload_rows", context)


@login_required
@require_POST
def save_view(request: HttpRequest) -> HttpResponse:
    """Keep the list that is shown under a name."""
    query = request.POST.get("query", "")[:2000]
    given = {name: value for name, value in parse_qsl(query) if name != "cursor"}
    try:
        view = savedviews.save(user=signed_in(request), name=request.POST.get("name", ""), given=given)
    except Refused as refused:
        messages.error(request, refused.message)
        return redirect(f"{reverse('frontend:workloads')}?{query}")
    messages.info(request, f"The view {view.name} is saved.")
    return redirect(f"{reverse('frontend:workloads')}?{view.query}")


@login_required
@require_POST
def remove_view(request: HttpRequest, number: int) -> HttpResponse:
    """Forget a saved view; saving it again is the way back, and the toast offers it."""
    view = personal.views(signed_in(request)).filter(pk=number).first()
    if view is None:
        raise Http404
    savedviews.remove(user=signed_in(request), number=number)
    messages.info(request, f"The view {view.name} is deleted.", extra_tags=f"undo-view {view.query or '-'} {view.name}")
    return redirect("frontend:workloads")


@login_required
@require_http_methods(["GET", "POST"])
def bulk(request: HttpRequest) -> HttpResponse:
    """Say what an action would do to each of the chosen workloads; on POST do it, and say what came of each."""
    given = request.POST if request.method == "POST" else request.GET
    verb = given.get("verb", "")
    if verb not in bulkactions.VERBS:
        raise Http404
    chosen = _chosen(request, given.getlist("uid"))
    if request.method == "GET":
        return answer(request, "bulk", "bulk_confirm", _asked(request, verb, chosen))
    outcomes = bulkactions.act(
        verb=verb,
        chosen=chosen,
        allowed=_allowed(request, chosen, verb),
        actor=request.user.get_username(),
        hand=hand(request),
        priorities=_classes(given.getlist("uid"), given.getlist("priority")),
    )
    return answer(request, "bulk", "bulk_result", _told(verb, outcomes))


def _asked(request: HttpRequest, verb: str, chosen: Sequence["Workload"]) -> dict[str, Any]:
    now, may = clock(request).now, _allowed(request, chosen, verb)
    rows: list[dict[str, Any]] = []
    for w in chosen:
        refusal = "" if w.pk in may else bulkactions.NOT_ALLOWED.format(team=w.team.name)
        refusal = refusal or ownership.refusal(w, verb, hand(request)) or questions.obstacle(w, verb)
        rows.append({"w": w, "refusal": refusal, "effect": refusal or questions.effect(w, verb, now)})
    possible = [row for row in rows if not row["refusal"]]
    return {
        "verb": verb,
        "label": words.LABELS[verb],
        "rows": rows,
        "possible": possible,
        "question": words.question(verb, [row["w"].name for row in possible]),
        "classes": teams.priority_classes() if verb == bulkactions.PRIORITY else [],
        "body": "bulk_confirm",
    }


def _told(verb: str, outcomes: Sequence[bulkactions.Outcome]) -> dict[str, Any]:
    done = [one for one in outcomes if one.is_done]
    back = words.UNDO.get(verb, "")
    return {
        "verb": verb,
        "label": words.LABELS[verb],
        "outcomes": outcomes,
        "done": done,
        "failed": len(outcomes) - len(done),
        "doing": words.DONE[verb],
        "undo": back if done else "",
        "undo_label": words.LABELS.get(back, ""),
        "body": "bulk_result",
    }


def _chosen(request: HttpRequest, uids: Sequence[str]) -> list["Workload"]:
    """The workloads of these ids that the viewer may see, in the order given; others do not exist."""
    known = [uid for uid in map(_uid, uids[: bulkactions.MAX]) if uid is not None]
    found = {w.pk: w for w in queries.of(request.user, map(str, known))}
    return [found[uid] for uid in dict.fromkeys(known) if uid in found]


def _classes(uids: Sequence[str], classes: Sequence[str]) -> dict[UUID, str | None]:
    """The new class of each: one for all of them, or one for each as the way back from a change of several has it."""
    each = classes if len(classes) == len(uids) else list(classes[:1]) * len(uids)
    return {pk: name for pk, name in zip(map(_uid, uids), each, strict=False) if pk is not None}


def _uid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _allowed(request: HttpRequest, rows: Sequence["Workload"], verb: str = "stop") -> set[UUID]:
    """Those on which the viewer may do this; changing the priority is the submitter's and the team admins' only."""
    return queries.open_to(request.user, rows, verb, roles(request))


def _column(request: HttpRequest, sort: str, name: str, label: str, classes: str) -> Mapping[str, str]:
    """A heading: where a click on it leads, and which way it sorts now."""
    if not name:
        return {"label": label, "classes": classes, "url": "", "way": ""}
    way = {name: "ascending", f"-{name}": "descending"}.get(sort, "")
    if name == "age" and way:  # the newest have the highest number and the lowest age
        way = "ascending" if way == "descending" else "descending"
    is_down = sort == name or (sort != f"-{name}" and name in ("age", "gpus", "priority"))
    following = f"-{name}" if is_down else name
    return {"label": label, "classes": classes, "url": link(request, sort=following, cursor=None), "way": way}


def _around(request: HttpRequest) -> dict[str, Any]:
    """What stands around the table, which a swap of the table leaves alone."""
    given = {name: request.GET.get(name, "") for name in savedviews.PARAMETERS}
    shown = {name: value for name, value in given.items() if value}
    views = personal.views(signed_in(request)).order_by("name")
    return {
        "team_names": teams_for(request, access.Verb.READ),
        "kinds": [k.value for k in Kind],
        "phases": PHASES,
        "reasons": worklist.reasons(request.user),
        "classes": teams.priority_classes(),
        "views": [(view, dict(parse_qsl(view.query)) == shown) for view in views],
        "query": link(request, cursor=None).partition("?")[2],
    }
