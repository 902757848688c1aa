"""How teams share: entitlement and recent usage, and budgets of GPU hours."""

from typing import Any

from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.endpoint import (
    PAGE,
    PLATFORM_ADMIN,
    VERSION,
    Parameter,
    View,
    endpoint,
    if_match,
    no_body,
    versioned,
)
from controlplane.api.serializers import platform as answers
from controlplane.api.serializers import requests
from controlplane.jobspec import jobfile
from controlplane.jobspec.quantities import iso
from controlplane.queries.accounts.access import Verb
from controlplane.queries.tenancy import shares as queries
from controlplane.queries.tenancy.shares import BudgetRow
from controlplane.queries.workloads import whatif
from controlplane.services.errors import Refused
from controlplane.services.scheduling import clock
from controlplane.services.tenancy import budgets

TAG = "teams"


class Shares(View):
    """How teams stand."""

    @endpoint(
        answer=answers.ShareList,
        tag=TAG,
        operation="list_shares",
        parameters=(Parameter("team", jobfile.TEAM, "Of this team."), *PAGE),
    )
    def get(self, request: Request) -> Response:
        """List what your teams own, are entitled to, hold, and held lately, in each pool."""
        found = whatif.shares(self.caller, self.given["team"])
        rows = [
            {
                "team": one.team,
                "pool": one.pool,
                "nominal_milli": one.nominal,
                "entitled_milli": one.entitled,
                "allocated_milli": one.held,
                "recent_usage_milli": one.decayed,
            }
            for one in found
        ]
        return self.paged(rows, "team", "pool")


class TeamBudgets(View):
    """The budgets of one team."""

    @endpoint(answer=answers.BudgetList, tag=TAG, operation="list_team_budgets", parameters=PAGE)
    def get(self, request: Request, team: str) -> Response:
        """List the budgets of a team, with what it has used of them."""
        self.team(Verb.READ, team)
        return self.paged([_row(one) for one in queries.budgets(clock.now(), team)], "period")


class Budget(View):
    """What one team may use in each day, week or month."""

    @endpoint(answer=answers.Budget, tag=TAG, operation="read_budget")
    def get(self, request: Request, team: str, period: str) -> Response:
        """Read a budget, with what was used of it in the present period."""
        self.may(Verb.READ, team)
        return _answered(team, period)

    @endpoint(
        answer=answers.Budget,
        least=PLATFORM_ADMIN,
        body=requests.BudgetRequest,
        headers=VERSION,
        problems=(412, 413, 415, 422),
        tag=TAG,
        operation="save_budget",
    )
    def put(self, request: Request, team: str, period: str) -> Response:
        """Say how many GPU hours a team may use in each day, week or month; 422 if as many are used already."""
        values: dict[str, Any] = requests.read_body(requests.BUDGET, request.data)
        of = self.team(Verb.ADMINISTER, team)
        used = queries.used_hours(clock.now(), of, period)
        seen = if_match(request)
        try:
            budgets.save(team=of, period=period, actor=self.actor, version=seen, used_hours=used, **values)
        except Refused as refused:
            if refused.code != budgets.USED_UP:
                raise
            message = f"{refused.message} To confirm, send accept_used_up: true."
            raise Refused(refused.status, refused.code, refused.field, message) from None
        return _answered(team, period)

    @endpoint(status=204, least=PLATFORM_ADMIN, headers=VERSION, problems=(412,), tag=TAG, operation="remove_budget")
    def delete(self, request: Request, team: str, period: str) -> Response:
        """Take a budget away."""
        no_body(request)
        found = queries.budget_at(team, period)
        if found is None:
            raise Http404
        seen = if_match(request)
        if seen not in (None, found.version):
            message = f"The budget was changed meanwhile: its version is {found.version}, not {seen}. Read it again."
            raise Refused(412, "VersionMismatch", "version", message)
        budgets.remove(budget=found, actor=self.actor)
        return Response(status=204)


def _row(one: BudgetRow) -> dict[str, Any]:
    return {
        "team": one.team,
        "period": one.period,
        "gpu_hours": one.gpu_hours,
        "is_hard": one.is_hard,
        "used_hours": round(one.used_hours, 3),
        "is_used_up": one.is_used_up,
        "since": iso(one.since),
        "until": iso(one.until),
        "version": one.version,
    }


def _answered(team: str, period: str) -> Response:
    row = next((one for one in queries.budgets(clock.now(), team) if one.period == period), None)
    if row is None:
        raise Http404
    return versioned(_row(row), row.version)
