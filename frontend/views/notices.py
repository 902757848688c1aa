"""Notifications: the bell, the notices, and the rules that ask for them."""

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_not_required, login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from controlplane.outgoing import mail
from controlplane.queries.accounts import access
from controlplane.queries.notifications import notices as queries
from controlplane.services.errors import Refused
from controlplane.services.notifications import notices, subscriptions
from frontend.answers import number, signed_in, teams_for

ON_A_PAGE = 50
OFF, PAGES, MAIL = "off", "pages", "mail"
OWN = tuple(value.value for value in subscriptions.OWN_MATTERS)
BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class OwnRule:
    """One event type of the user's own work, and how the user is notified of it."""

    matter: str
    label: str
    how: str


@login_required
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """The viewer's notices, newest first, with those that were not read marked."""
    only_unread = request.GET.get("show") == "unread"
    found = queries.notices(request.user, unread=True if only_unread else None)
    before = number(request.GET.get("before"), 0, most=2**31)
    rows = list((found.filter(pk__lt=before) if before else found).order_by("-pk")[: ON_A_PAGE + 1])
    following = rows[ON_A_PAGE - 1].pk if len(rows) > ON_A_PAGE else 0
    shown = [(row, queries.page_of(row)) for row in rows[:ON_A_PAGE]]
    context = {
        "rows": shown,
        "labels": queries.LABELS,
        "only_unread": only_unread,
        "before": before,
        "following": following,
        "has_rules": bool(shown) or queries.rules(request.user).exists(),
        "unread": queries.unread_count(request.user),
    }
    return render(request, "frontend/notices.html", context)


@login_required
@require_GET
def bell(request: HttpRequest) -> HttpResponse:
    """How many notices the viewer has not read."""
    return render(request, "frontend/parts/bell.html")


@login_required
@require_POST
def mark_read(request: HttpRequest) -> HttpResponse:
    """Mark one notice as read, or all of them."""
    one = request.POST.get("notice", "")
    pks = [number(one, 0, most=2**31)] if one else None
    notices.mark_read(user=signed_in(request).pk, pks=pks)
    return redirect("frontend:notices")


@login_required
@require_http_methods(["GET", "POST"])
def settings(request: HttpRequest) -> HttpResponse:
    """The viewer's rules; on POST they are changed, or the page comes back with what is wrong."""
    if request.method == "GET":
        return _settings(request)
    try:
        said = _change(request)
    except Refused as refused:
        return _settings(request, refused)
    messages.info(request, said)
    return redirect("frontend:notification_rules")


@login_required
@require_POST
def usual(request: HttpRequest) -> HttpResponse:
    """Notify the viewer about their own work from now on: the usual choice."""
    for matter in OWN:
        subscriptions.save(user=signed_in(request), matter=matter, team=None)
    messages.info(request, "You will get notices about your own work.")
    return redirect("frontend:notification_rules")


@login_not_required
@csrf_exempt  # a mail program posts here for its reader (RFC 8058); the token is all that is needed
@require_http_methods(["GET", "POST"])
def unsubscribe(request: HttpRequest, token: str) -> HttpResponse:
    """Stop the mails of one rule, for a reader with the link of such a mail, signed in or not."""
    rule = mail.unsubscribed(token)
    if rule is None:
        raise Http404
    is_done = request.method == "POST"
    if is_done:
        subscriptions.unsubscribe(rule=rule)
    return render(request, "frontend/unsubscribe.html", {"is_done": is_done})


def _change(request: HttpRequest) -> str:
    """Do what one of the page's forms asks; the sentence that says so. Raises Refused."""
    user, given = signed_in(request), request.POST
    if "remove" in given:
        found = queries.rules(user).filter(pk=number(given["remove"], 0, most=2**31)).first()
        if found is None:
            raise Refused(404, "NotFound", "", "That rule has already been removed.")
        subscriptions.remove(rule=found, actor=user.username)
        return "The rule is removed: you will get no more of these notices."
    if "team" in given:
        name = given["team"]
        team = access.team_at(name) if name in teams_for(request, access.Verb.READ) else None
        if team is None:
            raise Refused(422, "BadRule", "team", "Choose one of your teams.")
        subscriptions.save(
            user=user,
            matter=given.get("event_type", given.get("matter", "")),
            team=team,
            by_mail=given.get("how") == MAIL,
        )
        return f"You will get notices about team {team.name}."
    known = {rule.matter: rule for rule in queries.rules(user).filter(team=None)}
    for matter in OWN:
        how = given.get(matter, OFF)
        if how in (PAGES, MAIL):
            subscriptions.save(user=user, matter=matter, team=None, by_mail=how == MAIL)
        elif matter in known:
            subscriptions.remove(rule=known[matter], actor=user.username)
    return "Saved."


def _settings(request: HttpRequest, refused: Refused | None = None) -> HttpResponse:
    found = list(queries.rules(request.user).order_by("team__name", "matter"))
    how = {rule.matter: MAIL if rule.by_mail else PAGES for rule in found if rule.team is None}
    labels = dict(queries.MATTERS)
    context: dict[str, Any] = {
        "own": [OwnRule(matter, labels[matter], how.get(matter, OFF)) for matter in OWN],
        "team_rules": [(rule, labels[rule.matter]) for rule in found if rule.team is not None],
        "team_names": teams_for(request, access.Verb.READ),
        "event_types": queries.MATTERS,
        "ways": [
            (OFF, "off"),
            (PAGES, "on these pages"),
            *([(MAIL, "on these pages and by mail")] if mail.is_configured() else []),
        ],
        "has_mail": mail.is_configured(),
        "address": signed_in(request).email,
        "fault": refused.message if refused else "",
        "typed": request.POST,
    }
    return render(request, "frontend/notification_rules.html", context, status=refused.status if refused else 200)
