"""A user's own settings: profile, tokens, two-factor authentication, sessions, theme."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.conf import settings as site
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from controlplane.queries.accounts import access
from controlplane.queries.accounts import accounts as queries
from controlplane.services.accounts import logins, people, tokens, two_factor
from controlplane.services.errors import Refused
from frontend.answers import answer, roles, signed_in, teams_for
from frontend.forms import FormField

LIFETIMES = (("7", "7 days"), ("30", "30 days"), ("90", "90 days"), ("365", "a year"))
SCOPES = (
    ("read", "read only"),
    ("submit", "submit and manage workloads"),
    ("admin", "everything that I may do"),
)
PASSWORDS = (
    ("present", "Current password", "current-password"),
    ("password", "New password", "new-password"),
    ("again", "New password, again", "new-password"),
)
OWN_HELP = {"scope": "Choose the smallest scope that is enough. A limited token cannot create other tokens."}


@login_required
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """The settings of the viewer."""
    return _page(request)


@login_required
@require_POST
def create_token(request: HttpRequest) -> HttpResponse:
    """Make a token; the page that answers shows its secret, this once."""
    user, typed = signed_in(request), request.POST
    try:
        name, lifetime, scope = read_token_form(typed)
        wanted = typed.get("team", "")
        if wanted and wanted not in teams_for(request, access.Verb.READ):
            raise Refused(422, "Invalid", "team", f"You are in no team {wanted[:40]}. Choose one of yours.")
        team = access.team_at(wanted) if wanted else None
        issued = tokens.create(user=user, name=name, lifetime=lifetime, scope=scope, team=team)
    except Refused as refused:
        return _page(request, typed, refused)
    return _page(request, issued=issued)


@login_required
@require_http_methods(["GET", "POST"])
def revoke_token(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask for confirmation, then revoke one of the user's own tokens."""
    token = queries.tokens(signed_in(request)).filter(pk=pk).first()
    if token is None:
        raise Http404
    if request.method == "GET":
        return answer(request, "ask", "confirm", revoke_question(token, reverse("frontend:revoke_token", args=[pk])))
    tokens.revoke(user=signed_in(request), pk=pk)
    messages.info(request, f"Revoked the token {token.name}.")
    return redirect("frontend:settings")


@login_required
@require_POST
def change_password(request: HttpRequest) -> HttpResponse:
    """Change the user's own password after checking the current one; all other sessions and tokens end."""
    user, typed = signed_in(request), request.POST
    try:
        logins.confirm(user=user, password=typed.get("present", ""), address=request.META.get("REMOTE_ADDR", ""))
        if typed.get("password", "") != typed.get("again", ""):
            raise Refused(422, "NotTheSame", "again", "The two passwords are different. Type the new password twice.")
        session = str(request.session.session_key)
        changed = people.change_own_password(user=user, password=typed.get("password", ""), session=session)
    except logins.TooMany as many:
        wait = f"Too many attempts. Try again in {-(-many.retry_after // 60)} min."
        return _page(request, password=Refused(429, "TooMany", "present", wait))
    except Refused as refused:
        return _page(request, password=refused)
    update_session_auth_hash(request, changed)
    messages.info(request, "Your password is changed. Your other sessions and your tokens have ended.")
    return redirect("frontend:settings")


@login_required
@require_POST
def end_sessions(request: HttpRequest) -> HttpResponse:
    """Sign out everywhere but here."""
    user = signed_in(request)
    count = people.end_sessions(user=user, but=str(request.session.session_key), actor=user.username)
    messages.info(request, f"Signed out {count} other session{'' if count == 1 else 's'}.")
    return redirect("frontend:settings")


def read_token_form(typed: Mapping[str, str]) -> tuple[str, timedelta, access.Scope]:
    """Name, lifetime and scope as typed. Raises Refused."""
    name, days = typed.get("name", "").strip(), typed.get("expires_in", "")
    if not 0 < len(name) <= 80 or not name.isprintable():
        raise Refused(422, "Invalid", "name", "Say in 1 to 80 characters what the token is for, such as laptop.")
    if days not in dict(LIFETIMES):
        raise Refused(422, "Invalid", "expires_in", "Choose when it expires.")
    scope = typed.get("scope", "")
    if scope not in access.Scope.values:
        raise Refused(422, "Invalid", "scope", "Choose what it may do.")
    return name, timedelta(days=int(days)), access.Scope(scope)


def token_fields(
    typed: Mapping[str, str], refused: Refused | None, scope: str, about: str, teams: list[str] | None = None
) -> tuple[FormField, ...]:
    """The form of a new token; without teams it is bound to none."""
    at = {refused.field: refused.message} if refused else {}
    described = [
        ("name", "What it is for", "", "laptop", "Shown in lists.", ()),
        ("scope", "What it may do", scope, "", about, SCOPES),
        ("expires_in", "Expires after", "90", "", "It stops working then.", LIFETIMES),
    ]
    if teams:
        options = (("", "all my teams"), *((name, name) for name in teams))
        described.append(("team", "Team", "", "", "It works in this team and in the teams below it.", options))
    return tuple(
        FormField(
            path=path,
            label=label,
            help=help_,
            value=typed.get(path, default),
            fault=at.get(path, ""),
            placeholder=placeholder,
            options=options,
            width="half",
            key=f"token-{path}",
        )
        for path, label, default, placeholder, help_, options in described
    )


def revoke_question(token: Any, url: str) -> dict[str, Any]:
    """What the dialog asks."""
    used = "It has never been used." if token.last_used_at is None else "Programs that use it will be refused."
    return {
        "question": f"Revoke {token.name}?",
        "effect": f"{token.prefix}... of {token.user.username}. {used}",
        "label": "Revoke",
        "verb": "stop",
        "action_url": url,
    }


def _page(
    request: HttpRequest,
    typed: Mapping[str, str] | None = None,
    refused: Refused | None = None,
    issued: tokens.Issued | None = None,
    password: Refused | None = None,
) -> HttpResponse:
    user = signed_in(request)
    teams = teams_for(request, access.Verb.READ)
    context = {
        "user": user,
        "roles": sorted(roles(request).items()),
        "tokens": queries.tokens(user).order_by("-pk"),
        "fields": token_fields(typed or {}, refused, "submit", OWN_HELP["scope"], teams),
        "fault": refused.message if refused and not refused.field else "",
        "passwords": [
            (name, label, complete, password.message if password and password.field == name else "")
            for name, label, complete in PASSWORDS
        ],
        "password_fault": password.message if password and not password.field else "",
        "issued": issued,
        "sessions": queries.sessions(user),
        "two_steps": two_factor.is_on(user),
        "has_password": user.has_usable_password(),
        "sso_name": site.OIDC_NAME,
        "session_key": request.session.session_key,
    }
    wrong = refused or password
    response = render(request, "frontend/settings.html", context, status=wrong.status if wrong else 200)
    response["Cache-Control"] = "no-store"
    return response
