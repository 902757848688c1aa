"""A team's webhooks: their form, their log, and what may be done with them. For the team's admins."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from controlplane.queries.accounts import access
from controlplane.queries.notifications import notices as queries
from controlplane.services.errors import Refused
from controlplane.services.notifications import deliveries, webhooks
from controlplane.services.notifications.webhooks import Issued
from frontend.answers import answer, number, signed_in
from frontend.forms import FormField

LOGGED = 30  # deliveries on a page
QUESTIONS = {
    "delete": ("Delete the webhook {}?", "Its log is deleted too. This cannot be undone.", "Delete"),
    "secret": ("Create a new secret for {}?", "The old secret stops working for its receiver.", "Create a secret"),
}
HELP = {
    "name": "Shown in lists.",
    "url": "https, on port 443 or 8443; an answer that redirects counts as a failure.",
    "format": "Slack's goes to an incoming webhook of Slack, Mattermost or Rocket.Chat.",
    "secret": "At least 16 characters; leave it empty to generate one.",
    "team": "Events of this team and of the teams below it are sent.",
}


@login_required
@require_http_methods(["GET", "POST"])
def index(request: HttpRequest) -> HttpResponse:
    """The webhooks of the teams that the viewer manages; on POST one is added, and its secret is shown this once."""
    teams = queries.managed_teams(request.user)
    if not teams:
        raise PermissionDenied
    if request.method == "GET":
        return _index(request, teams)
    given = request.POST
    try:
        team = access.team_at(given.get("team", "")) if given.get("team") in teams else None
        if team is None:
            raise Refused(422, "BadWebhook", "team", "Choose one of your teams.")
        issued = webhooks.create(
            team=team,
            name=given.get("name", "").strip(),
            url=given.get("url", "").strip(),
            format_=given.get("format", ""),
            matters=_event_types(given),
            secret=given.get("secret") or None,
            actor=signed_in(request).username,
        )
    except Refused as refused:
        return _index(request, teams, refused)
    return _secret(request, issued)


@login_required
@require_http_methods(["GET", "POST"])
def webhook(request: HttpRequest, uid: UUID) -> HttpResponse:
    """One webhook with its log; on POST it is changed, or its form comes back with what is wrong."""
    found, given = _managed(request, uid), request.POST
    if request.method == "GET":
        return _page(request, found)
    try:
        webhooks.change(
            webhook=found,
            actor=signed_in(request).username,
            version=number(given.get("version"), 0),
            name=given.get("name", "").strip(),
            url=given.get("url", "").strip(),
            format_=given.get("format", ""),
            is_active=given.get("is_active") == "on",
            matters=_event_types(given),
        )
    except Refused as refused:
        return _page(request, found, refused)
    messages.info(request, "Saved.")
    return redirect("frontend:webhook", uid)


@login_required
@require_GET
def log(request: HttpRequest, uid: UUID) -> HttpResponse:
    """The delivery log of a webhook."""
    return render(request, "frontend/parts/delivery_rows.html", _log(_managed(request, uid)))


@login_required
@require_http_methods(["GET", "POST"])
def act(request: HttpRequest, uid: UUID, verb: str) -> HttpResponse:
    """Test, delete, or give another secret; or send a delivery again. On GET it is asked whether that is meant."""
    found, actor = _managed(request, uid), signed_in(request).username
    if request.method == "GET":
        return _asked(request, found, verb)
    try:
        if verb == "test":
            deliveries.test(webhook=found, actor=actor)
        elif verb == "redeliver":
            _redeliver(found, request.POST.get("delivery", ""), actor)
        elif verb == "secret":
            return _secret(request, webhooks.change_secret(webhook=found, actor=actor))
        elif verb == "delete":
            webhooks.remove(webhook=found, actor=actor)
            messages.info(request, f"Deleted the webhook {found.name}.")
            return redirect("frontend:webhooks")
        else:
            raise Http404
    except Refused as refused:
        messages.error(request, refused.message)
    return redirect("frontend:webhook", uid)


def _asked(request: HttpRequest, found: Any, verb: str) -> HttpResponse:
    if verb not in QUESTIONS:
        raise Http404
    question, effect, label = QUESTIONS[verb]
    context = {
        "w": found,
        "question": question.format(found.name),
        "effect": effect,
        "label": label,
        "verb": "stop" if verb == "delete" else verb,  # drawn as what cannot be taken back
        "action_url": request.path,
    }
    return answer(request, "confirm", "confirm", context)


def _redeliver(found: Any, delivery: str, actor: str) -> None:
    try:
        row = queries.delivery(found, UUID(delivery))
    except ValueError:
        row = None
    if row is None:
        raise Http404
    deliveries.redeliver(delivery=row, actor=actor)


def _managed(request: HttpRequest, uid: UUID) -> Any:
    """The webhook: 404 if it is another team's, 403 if the role is too low."""
    found = queries.webhook(request.user, uid)
    if found is None:
        raise Http404
    if not access.can(request.user, access.Verb.MANAGE, found.team):
        raise PermissionDenied
    return found


def _event_types(given: QueryDict) -> list[str]:
    """The event types that were ticked. A page of before 0.1 that is still open sends them under their old name."""
    return given.getlist("event_types") or given.getlist("matters")


def _index(request: HttpRequest, teams: Sequence[str], refused: Refused | None = None) -> HttpResponse:
    typed = request.POST if refused else {}
    options = {"team": tuple((name, name) for name in teams), "format": queries.FORMATS}
    names = (("name", "Name"), ("team", "Team"), ("url", "URL"), ("format", "Format"), ("secret", "Secret"))
    context = {
        "rows": queries.webhooks(request.user).order_by("team__name", "name"),
        "fields": [_field(name, label, typed, options.get(name, ()), refused) for name, label in names],
        "event_types": queries.MATTERS,
        "chosen": _event_types(request.POST) if refused else [],
        "fault": _elsewhere(refused, [name for name, _ in names]),
    }
    return render(request, "frontend/webhooks.html", context, status=refused.status if refused else 200)


def _page(request: HttpRequest, found: Any, refused: Refused | None = None) -> HttpResponse:
    row = queries.webhook_row(found)
    typed = request.POST if refused else row
    names = (("name", "Name"), ("format", "Format"), ("url", "URL"))
    options = {"format": queries.FORMATS}
    context = {
        "webhook": found,
        "fields": [_field(name, label, typed, options.get(name, ()), refused) for name, label in names],
        "event_types": queries.MATTERS,
        "chosen": _event_types(request.POST) if refused else row["event_types"],
        "is_active": request.POST.get("is_active") == "on" if refused else row["is_active"],
        "fault": _elsewhere(refused, [name for name, _ in names]),
        **_log(found),
    }
    return render(request, "frontend/webhook.html", context, status=refused.status if refused else 200)


def _secret(request: HttpRequest, issued: Issued) -> HttpResponse:
    """The page that shows a secret, once: it is kept nowhere that could show it again."""
    answer = render(request, "frontend/webhook_secret.html", {"webhook": issued.webhook, "secret": issued.secret})
    answer["Cache-Control"] = "no-store"
    return answer


def _log(found: Any) -> dict[str, Any]:
    rows = [queries.delivery_row(row) for row in queries.deliveries(found).order_by("-pk")[:LOGGED]]
    return {
        "webhook": found,
        "deliveries": [{**row, "last": row["log"][-1] if row["log"] else None} for row in rows],
        "is_waiting": any(row["state"] == "waiting" for row in rows),
        "labels": {**dict(queries.MATTERS), queries.TESTED: "A test"},
    }


def _field(
    name: str, label: str, typed: Mapping[str, Any], options: tuple[tuple[str, str], ...], refused: Refused | None
) -> FormField:
    return FormField(
        path=name,
        label=label,
        help=HELP[name],
        value="" if name == "secret" else str(typed.get(name, "")),
        fault=refused.message if refused and refused.field == name else "",
        placeholder={"url": "https://hooks.example.com/weft", "name": "on-call"}.get(name, ""),
        options=options,
        width="wide" if name == "url" else "half",
    )


def _elsewhere(refused: Refused | None, names: Sequence[str]) -> str:
    return refused.message if refused is not None and refused.field not in names else ""
