"""What would start a waiting workload, applied."""

from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from rest_framework.request import Request

from controlplane.api.endpoint import VERSION, endpoint, etag, if_match
from controlplane.api.renamed import instead
from controlplane.api.rendering import dumps
from controlplane.api.serializers import requests
from controlplane.api.serializers import workloads as answers
from controlplane.api.views.workloads import KEY, TAG, WorkloadView
from controlplane.queries.accounts.access import Verb, is_platform_admin
from controlplane.queries.workloads import workloads as queries
from controlplane.services.errors import Refused
from controlplane.services.workloads import idempotency, suggestions
from scheduler.explain.change import IN_QUOTA, ChangeKind, Choice


class Suggestion(WorkloadView):
    """One change that starts a workload."""

    @endpoint(
        answer=answers.Workload,
        body=requests.SuggestionRequest,
        headers={**VERSION, **KEY},
        problems=(409, 412, 413, 415, 422),
        tag=TAG,
        operation="apply_suggestion",
    )
    def post(self, request: Request, uid: UUID) -> HttpResponse:
        """Make one change that starts it in the next round: of what it asks, of a quota, or the stop of another.

        The change is tried in a dry run first; 409 says what would start it if this does not. Its place and age in
        the queue stay. It needs the right to make that change: to change the workload, to stop the other, or (quotas)
        that of a platform admin. The answer is the workload.
        """
        choice, seen = requests.read_suggestion(request.data), if_match(request)
        workload = self.one(uid)
        self.may_apply(workload, choice)
        verdict = queries.verdict(request.user, workload, choice)

        def work() -> idempotency.Answer:
            suggestions.apply(workload=workload, verdict=verdict, version=seen, actor=self.actor)
            row = queries.row(self.one(uid))
            return idempotency.Answer(200, dumps(row).decode(), {"ETag": etag(row["version"])})

        return self.once(work)

    def may_apply(self, workload: Any, choice: Choice) -> None:
        """Raise unless the user may make such a change by other means."""
        if choice.kind in IN_QUOTA:
            if not is_platform_admin(self.request.user):
                raise PermissionDenied("Only a platform admin changes quotas. Ask one, or choose another suggestion.")
        elif choice.kind is ChangeKind.STOP:
            victim = queries.get(self.request.user, choice.target)
            if victim is None:
                message = (
                    "There is no workload with this uid, or you may not see it. Take the target of the explanation."
                )
                raise Refused(404, "NotFound", "target", message)
            self.may(Verb.ACT, victim.team.name)
        else:
            self.may(Verb.CHANGE, workload.team.name, submitter=workload.created_by_id)


@instead("/api/v1/workloads/{uid}/suggestion", post="apply_remedy")
class Remedy(Suggestion):
    """The old address."""
