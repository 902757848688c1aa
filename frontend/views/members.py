"""The members of a team and its service accounts. Members see them; admins of the team change them."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from controlplane.domain.sharedemands import words
from controlplane.queries.accounts import access
from controlplane.queries.accounts import accounts as queries
from controlplane.services.accounts import members, service_accounts, tokens
from controlplane.services.errors import Refused
from controlplane.services.tenancy import teams
from frontend import trainingwords
from frontend.answers import answer, roles, signed_in
from frontend.forms import FormField
from frontend.views.settings import read_token_form, revoke_question, token_fields
from gpushare.backends.catalogue import DEMANDS

if TYPE_CHECKING:
    from controlplane.models import Team, User

ROLES = (("viewer", "Viewer: read only"), ("member", "Member: submits work"), ("admin", "Admin: manages the team"))
ADDING, MAKING = "member", "account"  # the two forms of the page


@login_required
@require_GET
def index(request: HttpRequest, team: str) -> HttpResponse:
    """The members of a team and its service accounts."""
    return _page(request, _team(request, team, access.Verb.READ))


@login_required
@require_POST
def save(request: HttpRequest, team: str) -> HttpResponse:
    """Add a member, or change the role of one."""
    into = _team(request, team, access.Verb.MANAGE)
    username = request.POST.get("username", "").strip()

    def work() -> str:
        user = queries.person_at(username)
        if user is None:
            message = f"There is no user {username[:150]}. A user exists from the first sign-in on."
            raise Refused(422, "NoSuchUser", "username", message)
        role = _role(request.POST)
        members.save(team=into, user=user, role=role, actor=_actor(request))
        return f"{username} is {role.label.lower()} of {into}."

    return _done(request, into, ADDING, work)


@login_required
@require_POST
def save_sharing(request: HttpRequest, team: str) -> HttpResponse:
    """Say whether the team's shares may lie beside those of other teams, or what must be held of them."""
    of, wanted = _team(request, team, access.Verb.MANAGE), request.POST.get("shares_with_others", "")

    def demand() -> str:
        demands = request.POST.getlist("share_demands")
        teams.set_share_demands(team=of, demands=demands, actor=_actor(request))
        held = ", ".join(demands)
        return f"New shares of {of} go only where this is held: {held}." if held else f"Shares of {of} demand nothing."

    if "demands" in request.POST:
        return _done(request, of, "", demand)

    def work() -> str:
        if wanted not in ("on", "off"):
            raise Refused(422, "Invalid", "shares_with_others", "shares_with_others must be on or off.")
        teams.set_sharing(team=of, allowed=wanted == "on", actor=_actor(request))
        return f"New shares of {of} {'may lie beside' if wanted == 'on' else 'stay apart from'} those of other teams."

    return _done(request, of, "", work)


@login_required
@require_POST
def save_reallocation(request: HttpRequest, team: str) -> HttpResponse:
    """Say what is done where it is known what makes the team's trainings faster."""
    of, wanted = _team(request, team, access.Verb.MANAGE), request.POST.get("reallocation", "")

    def work() -> str:
        if wanted not in trainingwords.REALLOCATION:
            known = ", ".join(trainingwords.REALLOCATION)
            raise Refused(422, "Invalid", "reallocation", f"reallocation must be one of: {known}.")
        teams.change(team=of, shares_with_others=None, reallocation=wanted, actor=_actor(request))
        return f"Trainings of {of}: {trainingwords.REALLOCATION[wanted].lower()}."

    return _done(request, of, "", work)


@login_required
@require_POST
def save_notebooks(request: HttpRequest, team: str) -> HttpResponse:
    """Say when the team's notebooks are parked, how large they may be, and whether they are extended."""
    of, given = _team(request, team, access.Verb.MANAGE), request.POST

    def work() -> str:
        teams.set_notebooks(
            team=of,
            actor=_actor(request),
            notebook_park_minutes=round(_number(given.get("minutes", ""), "minutes")),
            notebook_max_milli=round(1000 * _number(given.get("share", ""), "share")),
            notebook_extend=given.get("extend") == "on",
        )
        return f"Saved what holds of notebooks of {of}."

    return _done(request, of, "", work)


def _number(typed: str, field: str) -> float:
    """An empty field is no limit."""
    try:
        number = float(typed.strip() or 0)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e6:  # also of nan
        raise Refused(422, "Invalid", field, f"{field} must be a number from 0 on; empty: no limit.")
    return number


@login_required
@require_http_methods(["GET", "POST"])
def remove(request: HttpRequest, team: str, username: str) -> HttpResponse:
    """Ask for confirmation, then remove a member."""
    out_of, user = _team(request, team, access.Verb.MANAGE), queries.person_at(username)
    if user is None:
        raise Http404
    if request.method == "GET":
        effect = f"{username} loses access to {out_of}; sessions and tokens end. Submitted workloads stay."
        return _ask(request, f"Remove {username} from {out_of}?", effect, "Remove", "remove_member", out_of, username)

    def work() -> str:
        members.remove(team=out_of, user=user, actor=_actor(request))
        return f"Removed {username} from {out_of}."

    return _done(request, out_of, "", work)


@login_required
@require_POST
def create_account(request: HttpRequest, team: str) -> HttpResponse:
    """Make a service account."""
    of, name = _team(request, team, access.Verb.MANAGE), request.POST.get("name", "").strip()
    made: list[User] = []

    def work() -> str:
        made.append(service_accounts.create(team=of, name=name, role=_role(request.POST), actor=_actor(request)))
        return f"Created {made[0].username}. It needs a token."

    answered = _done(request, of, MAKING, work)
    return redirect("frontend:service_account", of.name, made[0].pk) if made else answered


@login_required
@require_http_methods(["GET", "POST"])
def account(request: HttpRequest, team: str, pk: int) -> HttpResponse:
    """A service account and its tokens; on POST a new token is made, and shown this once."""
    found = _account(request, team, pk)
    if request.method == "GET":
        return _account_page(request, found)
    try:
        name, lifetime, scope = read_token_form(request.POST)
        issued = tokens.create(user=found, name=name, lifetime=lifetime, scope=scope, issuer=signed_in(request))
    except Refused as refused:
        return _account_page(request, found, request.POST, refused)
    return _account_page(request, found, issued=issued)


@login_required
@require_http_methods(["GET", "POST"])
def end_account(request: HttpRequest, team: str, pk: int) -> HttpResponse:
    """Ask for confirmation, then close a service account."""
    found = _account(request, team, pk)
    if request.method == "GET":
        effect = "Its tokens stop working. Workloads that it submitted continue."
        return _ask(request, f"Close {found.username}?", effect, "Close", "end_account", found.service_of, pk)
    service_accounts.end(account=found, actor=_actor(request))
    messages.info(request, f"Closed {found.username}.")
    return redirect("frontend:members", team)


@login_required
@require_http_methods(["GET", "POST"])
def revoke_account_token(request: HttpRequest, team: str, pk: int, number: int) -> HttpResponse:
    """Ask for confirmation, then revoke a service account's token."""
    found = _account(request, team, pk)
    token = queries.tokens(found).filter(pk=number).first()
    if token is None:
        raise Http404
    if request.method == "GET":
        url = reverse("frontend:revoke_account_token", args=[team, pk, number])
        return answer(request, "ask", "confirm", revoke_question(token, url))
    tokens.revoke(user=found, pk=number, actor=_actor(request))
    messages.info(request, f"Revoked the token {token.name}.")
    return redirect("frontend:service_account", team, pk)


def _team(request: HttpRequest, name: str, verb: access.Verb) -> "Team":
    """The team, as in the API: 404 for a team not theirs, 403 for too low a role."""
    role = roles(request).get(name)
    found = access.team_at(name) if access.allows(role, access.Verb.READ) else None
    if found is None:
        raise Http404
    if not access.allows(role, verb):
        raise PermissionDenied
    return found


def _account(request: HttpRequest, team: str, pk: int) -> "User":
    _team(request, team, access.Verb.MANAGE)
    found = queries.service_accounts(request.user).filter(pk=pk, service_of__name=team).first()
    if found is None:
        raise Http404
    return found


def _role(typed: Mapping[str, str]) -> access.Role:
    if typed.get("role") not in access.Role.values:
        raise Refused(422, "Invalid", "role", "Choose a role.")
    return access.Role(typed["role"])


def _actor(request: HttpRequest) -> str:
    return request.user.get_username()


def _done(request: HttpRequest, team: "Team", form: str, work: Callable[[], str]) -> HttpResponse:
    """Do it and go back to the page; or show the page with what is wrong."""
    try:
        said = work()
    except Refused as refused:
        return _page(request, team, form, refused)
    messages.info(request, said)
    return redirect("frontend:members", team.name)


def _ask(
    request: HttpRequest, question: str, effect: str, label: str, name: str, team: "Team | None", *args: object
) -> HttpResponse:
    url = reverse(f"frontend:{name}", args=[team.name if team else "", *args])
    asked = {"question": question, "effect": effect, "label": label, "verb": "stop", "action_url": url}
    return answer(request, "ask", "confirm", asked)


def _page(request: HttpRequest, team: "Team", form: str = "", refused: Refused | None = None) -> HttpResponse:
    manages = access.allows(roles(request).get(team.name), access.Verb.MANAGE)
    listed = queries.members(team.name)
    accounts = queries.service_accounts(request.user).filter(service_of=team).order_by("username") if manages else ()
    context = {
        "team": team,
        "manages": manages,
        "people": [row for row in listed if not row["is_service_account"]],
        "inherited": queries.inherited(team.name),
        "accounts": [queries.service_account_row(one) for one in accounts],
        "roles": ROLES,
        "reallocation": tuple(trainingwords.REALLOCATION.items()),
        "notebook_share": f"{team.notebook_max_milli / 1000:g}" if team.notebook_max_milli else "",
        "demands": [(word, word in words(team.share_demands)) for word in DEMANDS],
        "adding": _fields(ADDING, "username", "User name", "The name used to sign in.", request.POST, form, refused),
        "making": _fields(MAKING, "name", "Name", "Such as github-actions.", request.POST, form, refused),
        "fault": refused.message if refused and (not form or refused.field not in ("username", "name", "role")) else "",
    }
    return render(request, "frontend/members.html", context, status=refused.status if refused else 200)


def _fields(
    form: str, name: str, label: str, about: str, typed: Mapping[str, str], sent: str, refused: Refused | None
) -> tuple[FormField, ...]:
    mine = typed if form == sent else {}
    at = {refused.field: refused.message} if refused and form == sent else {}
    return (
        FormField(name, label, about, mine.get(name, ""), at.get(name, ""), width="half", key=f"{form}-{name}"),
        FormField(
            path="role",
            label="Role",
            help="What it allows in this team.",
            value=mine.get("role", "member"),
            fault=at.get("role", ""),
            options=ROLES,
            width="half",
            key=f"{form}-role",
        ),
    )


def _account_page(
    request: HttpRequest,
    found: "User",
    typed: Mapping[str, str] | None = None,
    refused: Refused | None = None,
    issued: tokens.Issued | None = None,
) -> HttpResponse:
    about = "CI needs submit. A token never allows more than the account's role."
    context = {
        "team": found.service_of,
        "account": queries.service_account_row(found),
        "tokens": queries.tokens(found).order_by("-pk"),
        "fields": token_fields(typed or {}, refused, "submit", about),
        "fault": refused.message if refused and not refused.field else "",
        "issued": issued,
    }
    response = render(request, "frontend/service_account.html", context, status=refused.status if refused else 200)
    response["Cache-Control"] = "no-store"
    return response
