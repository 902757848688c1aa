"""A team's budgets of GPU hours: a form for each period. For platform admins, as in the API."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from controlplane.domain.periods import Period
from controlplane.queries.accounts import access
from controlplane.queries.tenancy import shares
from controlplane.queries.tenancy.shares import BudgetRow
from controlplane.services.errors import Refused
from controlplane.services.tenancy import budgets as services
from frontend.answers import clock
from frontend.forms import FormField

HARD, SOFT = "hard", "soft"
CHOICES = ((SOFT, "only notify"), (HARD, "start nothing new"))
HELP = {
    "gpu_hours": "A whole number. One H100 for one hour counts the same as half of one for two hours.",
    "is_hard": "Running workloads continue in both cases.",
}


@dataclass(frozen=True, slots=True)
class BudgetForm:
    """The form of one period: what there is, what was typed, and what is wrong with it."""

    period: str
    known: BudgetRow | None
    fields: tuple[FormField, ...]
    fault: str = ""  # of no field
    asks: bool = False  # whether to save it although it is used up already

    @property
    def version(self) -> int:
        """The one the form was made from; 0: there is none."""
        return self.known.version if self.known else 0


@login_required
@require_http_methods(["GET", "POST"])
def index(request: HttpRequest, team: str) -> HttpResponse:
    """The budgets of one team; on POST one is saved or removed, or its form comes back with each fault."""
    if not access.is_platform_admin(request.user):
        raise PermissionDenied
    found = access.team_at(team)
    if found is None:
        raise Http404
    if request.method == "GET":
        return _page(request, found)
    period = request.POST.get("period", "")
    if period not in list(Period):
        raise Http404
    try:
        said = _change(request, found, period, clock(request).now)
    except Refused as refused:
        return _page(request, found, period, refused)
    messages.info(request, said)
    return redirect("frontend:budgets", found.name)


def _change(request: HttpRequest, team: Any, period: str, now: float) -> str:
    """Do what the form asks; the sentence that says so. Raises Refused."""
    actor, text = request.user.get_username(), request.POST.get("version", "")
    version = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if "remove" in request.POST:
        row = shares.budget_at(team.name, period)
        if row is None or row.version != version:
            raise Refused(412, "VersionMismatch", "version", "The budget was changed meanwhile. Check it again.")
        services.remove(budget=row, actor=actor)
        return f"Removed the budget of {team.name} for each {period}."
    typed = request.POST.get("gpu_hours", "").strip()
    if not (typed.isascii() and typed.isdigit()):
        message = f"{typed or 'Nothing'} is not a number of GPU hours. Give a whole number from 1 on."
        raise Refused(422, "BadBudget", "gpu_hours", message)
    is_hard = request.POST.get("is_hard") == HARD
    services.save(
        team=team,
        period=period,
        gpu_hours=int(typed),
        is_hard=is_hard,
        actor=actor,
        version=version,
        used_hours=shares.used_hours(now, team, period),
        accept_used_up="accept_used_up" in request.POST,
    )
    return f"Saved the budget of {team.name} for each {period}."


def _page(request: HttpRequest, team: Any, period: str = "", refused: Refused | None = None) -> HttpResponse:
    rows = {row.period: row for row in shares.budgets(clock(request).now, team.name)}
    forms = [_form(one, rows.get(one), request.POST if one == period else {}, refused) for one in Period]
    status = refused.status if refused else 200
    return render(request, "frontend/budgets.html", {"team": team, "forms": forms}, status=status)


def _form(period: str, known: BudgetRow | None, typed: Mapping[str, Any], refused: Refused | None) -> BudgetForm:
    values = {
        "gpu_hours": str(known.gpu_hours) if known else "",
        "is_hard": HARD if known and known.is_hard else SOFT,
    } | {name: str(typed[name]) for name in HELP if name in typed}
    at = refused.field if refused and typed else None
    fields = tuple(
        FormField(
            path=name,
            label=label,
            help=HELP[name],
            value=values[name],
            fault=refused.message if refused and at == name else "",
            unit=unit,
            options=options,
            width="wide",
            key=f"{period}-{name}",
        )
        for name, label, unit, options in (
            ("gpu_hours", "Budget", "GPU hours", ()),
            ("is_hard", "When used up", "", CHOICES),
        )
    )
    fault = refused.message if refused and at is not None and at not in HELP else ""
    return BudgetForm(period, known, fields, fault, bool(refused and typed and refused.code == services.USED_UP))
