"""What a team owns in a pool, edited in place: conflicts and the teams it touches are shown before it is saved."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from controlplane.queries.accounts import access
from controlplane.queries.scheduling import quota_dry_run
from controlplane.queries.tenancy import platform as queries
from controlplane.services.errors import Refused
from controlplane.services.scheduling import simulations
from controlplane.services.tenancy import quotas
from frontend import words
from frontend.answers import answer, number
from frontend.forms import FormField
from gpushare.gpu import WHOLE

FIELDS = (
    ("nominal", "Nominal quota", "GPUs", "The team gets these back from teams that borrow them.", "0"),
    ("borrowing_limit", "Borrowing limit", "GPUs", "Beyond the nominal quota. Empty: no limit.", "no limit"),
    ("lending_limit", "Lending limit", "GPUs", "How much of it other teams may borrow. Empty: all of it.", "all of it"),
    ("weight", "Weight", "", "Idle quota is shared in proportion to the weights.", "1"),
)
MAY_BE_EMPTY = ("borrowing_limit", "lending_limit")


@dataclass(frozen=True, slots=True)
class Read:
    """The form as it was typed: milli-GPU where it could be read, and what is wrong at which field."""

    typed: Mapping[str, str]
    values: Mapping[str, int | None]
    faults: Mapping[str, str]


@login_required
@require_http_methods(["GET", "POST"])
def edit(request: HttpRequest, team: str, pool: str) -> HttpResponse:
    """The form; on POST the quota is saved, or simulated on the newest rounds."""
    found = _found(request, team, pool)
    if request.method == "GET":
        return _page(request, found, _stored(found[2]))
    read = _read(request.POST)
    if read.faults:
        return _page(request, found, read, status=400)
    actor = request.user.get_username()
    try:
        if "simulate" in request.POST:
            asked = quota_dry_run.request(team=team, pool=pool, values=read.values)
            return redirect("frontend:simulation", simulations.start(asked=asked, author=actor).pk)
        values: dict[str, Any] = dict(read.values)
        version = number(request.POST.get("version"), 0)
        quotas.save(team=found[0], pool=found[1], actor=actor, version=version, **values)
    except Refused as refused:
        at = refused.field if refused.field in dict.fromkeys(name for name, *_ in FIELDS) else ""
        return _page(request, found, Read(read.typed, read.values, {at: refused.message}), status=refused.status)
    messages.info(request, f"The nominal quota of {team} in {pool} is {words.gpus(read.values['nominal'])} GPUs.")
    return redirect("frontend:teams")


@login_required
@require_POST
def preview(request: HttpRequest, team: str, pool: str) -> HttpResponse:
    """What the typed quota would mean, for the panel beside the form."""
    _found(request, team, pool)
    return render(request, "frontend/parts/quota_dry_run.html", _dry_run(team, pool, _read(request.POST)))


def _found(request: HttpRequest, team: str, pool: str) -> Any:
    if not access.is_platform_admin(request.user):
        raise PermissionDenied
    found = queries.quota_at(team, pool)
    if found is None:
        raise Http404
    return found


def _page(request: HttpRequest, found: Any, read: Read, status: int = 200) -> HttpResponse:
    team, pool, quota = found
    fields = [
        FormField(
            path=name,
            label=label,
            help=about,
            value=read.typed.get(name, ""),
            fault=read.faults.get(name, ""),
            placeholder=empty,
            unit=unit,
            width="half",
        )
        for name, label, unit, about, empty in FIELDS
    ]
    context = {
        "team": team.name,
        "pool": pool.name,
        "fields": fields,
        "fault": read.faults.get("", ""),
        "version": request.POST.get("version") or (quota.version if quota else 0),
        **_dry_run(team.name, pool.name, read),
    }
    response = answer(request, "quota", "quota_form", context)
    response.status_code = status
    return response


def _dry_run(team: str, pool: str, read: Read) -> dict[str, Any]:
    """Nothing where the form cannot be read yet."""
    if read.faults.keys() - {""}:
        return {"dry_run": None, "unread": list(read.faults.values())}
    return {"dry_run": quota_dry_run.dry_run(team=team, pool=pool, values=read.values), "unread": []}


def _stored(quota: Any) -> Read:
    if quota is None:
        return Read({"nominal": "0", "weight": "1"}, _EMPTY, {})
    values = {name: getattr(quota, name) for name, *_ in FIELDS}
    typed = {name: _gpus(value) if name != "weight" else str(value) for name, value in values.items()}
    return Read(typed, values, {})


_EMPTY: Mapping[str, int | None] = {"nominal": 0, "borrowing_limit": None, "lending_limit": None, "weight": 1}


def _gpus(milli: int | None) -> str:
    return "" if milli is None else f"{Decimal(milli) / WHOLE:f}"


def _read(typed: Mapping[str, Any]) -> Read:
    """GPUs as people type them, to milli-GPU."""
    texts = {name: str(typed.get(name, "")).strip()[:20] for name, *_ in FIELDS}
    values: dict[str, int | None] = {}
    faults: dict[str, str] = {}
    for name, label, *_ in FIELDS:
        text = texts[name]
        if not text and name in MAY_BE_EMPTY:
            values[name] = None
        elif name == "weight":
            values[name] = int(text) if text.isascii() and text.isdigit() else 0
            if not 1 <= (values[name] or 0) <= 10_000:
                faults[name] = f"Weight is {text or 'empty'}. Give a whole number from 1 to 10000."
        else:
            milli = _milli(text)
            values[name] = milli
            if milli is None:
                faults[name] = (
                    f"{label} is {text or 'empty'}. Give GPUs from 0 on with at most 3 decimals, such as 12.5."
                )
    lending, nominal = values["lending_limit"], values["nominal"]
    if not faults and lending is not None and nominal is not None and lending > nominal:
        faults["lending_limit"] = (
            f"The lending limit is {_gpus(lending)} but the nominal quota is {_gpus(nominal)}. Lend at most the quota."
        )
    return Read(texts, values, faults)


def _milli(text: str) -> int | None:
    try:
        value = Decimal(text) * WHOLE
    except InvalidOperation:
        return None
    is_one = value.is_finite() and 0 <= value <= quotas.MAX_MILLI and value == value.to_integral_value()
    return int(value) if is_one else None
