"""What teams own in node pools."""

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane import jobfile
from controlplane.api.endpoint import PAGE, Parameter, endpoint
from controlplane.api.serializers import platform as answers
from controlplane.api.views.platform import LABEL, ListView
from controlplane.queries import platform as queries
from controlplane.queries.access import Verb

TAG = "teams"


class Quotas(ListView):
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


class TeamQuotas(ListView):
    """The quotas of one team."""

    @endpoint(answer=answers.QuotaList, tag=TAG, operation="list_team_quotas", parameters=PAGE)
    def get(self, request: Request, team: str) -> Response:
        """List the quotas of a team."""
        self.may(Verb.READ, team)
        return self.paged([queries.quota_row(quota) for quota in queries.quotas(request.user, team)], "pool")
