"""What teams own in node pools."""

from typing import Any

from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.endpoint import PAGE, PLATFORM_ADMIN, VERSION, Parameter, View, endpoint, if_match, versioned
from controlplane.api.serializers import platform as answers
from controlplane.api.serializers import requests
from controlplane.api.views.platform import LABEL
from controlplane.domain.quotavalues import small
from controlplane.jobspec import jobfile
from controlplane.queries.accounts.access import Verb
from controlplane.queries.tenancy import platform as queries
from controlplane.services.errors import Refused
from controlplane.services.tenancy import quotas

TAG = "teams"


class Quotas(View):
    """All quotas."""

    @endpoint(
        answer=answers.QuotaList,
        tag=TAG,
        operation="list_quotas",
        parameters=(Parameter("team", jobfile.TEAM, "Of this team."), Parameter("pool", LABEL, "In this pool."), *PAGE),
    )
    def get(self, request: Request) -> Response:
        """List the quotas of your teams."""
        found = queries.quotas(request.user, self.given["team"], self.given["pool"])
        return self.paged([queries.quota_row(quota) for quota in found], "team", "pool")


class TeamQuotas(View):
    """The quotas of one team."""

    @endpoint(answer=answers.QuotaList, tag=TAG, operation="list_team_quotas", parameters=PAGE)
    def get(self, request: Request, team: str) -> Response:
        """List the quotas of a team."""
        self.may(Verb.READ, team)
        if not queries.has_team(team):
            raise Http404
        return self.paged([queries.quota_row(quota) for quota in queries.quotas(request.user, team)], "pool")


class Quota(View):
    """The quota of one team in one pool."""

    @endpoint(answer=answers.Quota, tag=TAG, operation="read_quota")
    def get(self, request: Request, team: str, pool: str) -> Response:
        """Read a quota."""
        self.may(Verb.READ, team)
        found = queries.quotas(request.user, team, pool).first()
        if found is None:
            raise Http404
        return versioned(queries.quota_row(found), found.version)

    @endpoint(
        answer=answers.SavedQuota,
        least=PLATFORM_ADMIN,
        body=requests.QuotaRequest,
        headers=VERSION,
        problems=(412, 413, 415, 422),
        tag=TAG,
        operation="save_quota",
    )
    def put(self, request: Request, team: str, pool: str) -> Response:
        """Set a team's quota in a pool; what is odd about it is a warning, not a refusal."""
        values = requests.read_body(requests.QUOTA, request.data)
        return self._save(team, pool, values)

    @endpoint(
        answer=answers.SavedQuota,
        least=PLATFORM_ADMIN,
        body=requests.QuotaChanges,
        headers=VERSION,
        problems=(412, 413, 415, 422),
        tag=TAG,
        operation="change_quota",
    )
    def patch(self, request: Request, team: str, pool: str) -> Response:
        """Change parts of a quota."""
        changes = requests.read_body(requests.QUOTA_PARTS, request.data)
        found = queries.quota_at(team, pool)
        if found is None or found[2] is None:
            raise Http404
        before = queries.quota_row(found[2])
        given = {name: value for name, value in changes.items() if name in request.data}
        return self._save(team, pool, {name: before[name] for name in changes} | given, before["version"])

    def _save(self, team: str, pool: str, values: dict[str, Any], seen: int | None = None) -> Response:
        found = queries.quota_at(team, pool)
        if found is None:
            raise Http404
        wanted = if_match(self.request)
        try:
            saved, warnings = quotas.save(
                team=found[0],
                pool=found[1],
                version=seen if wanted is None else wanted,
                actor=self.actor,
                **{name.removesuffix("_milli"): value for name, value in values.items()},
            )
        except Refused as refused:  # the service's names are without the unit
            named = next((name for name in values if name.removesuffix("_milli") == refused.field), refused.field)
            raise Refused(refused.status, refused.code, named, refused.message) from refused
        told = [*warnings, *small(values)]
        return versioned({**queries.quota_row(saved), "warnings": told}, saved.version)
