"""What can be done with one workload: POST /workloads/{id}/{verb}. Doing it twice does it once. And with several."""

from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.endpoint import VERSION, endpoint, if_match, no_body
from controlplane.api.serializers import acting, requests
from controlplane.api.serializers import workloads as answers
from controlplane.api.views.workloads import TAG, WorkloadView
from controlplane.queries.accounts.access import Verb
from controlplane.queries.workloads import workloads as queries
from controlplane.services.errors import Refused
from controlplane.services.workloads import bulkactions, workloads

NOT_THERE = Refused(404, "NotFound", "uids", "There is no such workload, or you may not see it. Check the uid.")


def _action(verb: str, about: str) -> type[WorkloadView]:
    """The view of one action without terms."""

    class Action(WorkloadView):
        """One action on one workload."""

        @endpoint(
            answer=answers.Workload,
            headers=VERSION,
            problems=(409, 412, 413, 415),
            tag=TAG,
            operation=f"{verb}_workload",
        )
        def post(self, request: Request, uid: UUID) -> Response:
            no_body(request)
            workload = self.one(uid)
            self.may(Verb.ACT, workload.team.name)
            getattr(workloads, verb)(workload=workload, actor=self.actor, version=if_match(request), hand=self.hand)
            return self.answered(uid)

        post.__doc__ = about

    Action.__name__ = f"{verb.capitalize()}Workload"
    return Action


class Change(WorkloadView):
    """One part of a workload changed by an action of its own."""

    def changed(self, uid: UUID, changes: dict[str, Any]) -> Response:
        """The workload after these changes, as in a job file."""
        workload = self.one(uid)
        self.may(Verb.CHANGE, workload.team.name, submitter=workload.created_by_id)
        workloads.patch(workload=workload, changes=changes, version=if_match(self.request), actor=self.actor)
        return self.answered(uid)


class Scale(Change):
    """How many workers or replicas."""

    @endpoint(
        answer=answers.Workload,
        body=requests.Scale,
        headers=VERSION,
        problems=(409, 412, 413, 415, 422),
        tag=TAG,
        operation="scale_workload",
    )
    def post(self, request: Request, uid: UUID) -> Response:
        """Change how many workers a training has while it waits, or the bounds of a service at any time."""
        workload = self.one(uid)
        self.may(Verb.CHANGE, workload.team.name, submitter=workload.created_by_id)
        return self.changed(uid, requests.read_scale(workload.kind, request.data))


class Priority(Change):
    """The priority class."""

    @endpoint(
        answer=answers.Workload,
        body=requests.Priority,
        headers=VERSION,
        problems=(409, 412, 413, 415, 422),
        tag=TAG,
        operation="prioritise_workload",
    )
    def post(self, request: Request, uid: UUID) -> Response:
        """Give a workload another priority class; null gives it the default one."""
        return self.changed(uid, requests.read_priority(request.data))


class Several(WorkloadView):
    """One action on several workloads."""

    @endpoint(
        answer=answers.ActedList,
        body=acting.ActionRequest,
        problems=(413, 415),
        tag=TAG,
        operation="act_on_workloads",
    )
    def post(self, request: Request) -> Response:
        """Act on up to 100 workloads, one after the other: a refusal of one undoes nothing of the others.

        200 also if all were refused: each result says what came of it.
        """
        asked = acting.read_action(request.data)
        seen = {w.pk: w for w in queries.of(self.caller, map(str, asked.uids))}
        outcomes = bulkactions.act(
            verb=asked.verb,
            chosen=[seen[uid] for uid in asked.uids if uid in seen],
            allowed=queries.open_to(self.caller, seen.values(), asked.verb),
            actor=self.actor,
            hand=self.hand,
            priorities=dict.fromkeys(asked.uids, asked.priority_class),
            missing=[uid for uid in asked.uids if uid not in seen],
        )
        refused = {one.workload.pk: one.refused for one in outcomes}
        rows = {row["uid"]: row for row in queries.listed(list(refused))}
        results = [_told(uid, refused.get(uid, NOT_THERE), rows.get(str(uid))) for uid in asked.uids]
        return Response({"results": results})


def _told(uid: UUID, refused: Refused | None, row: dict[str, Any] | None) -> dict[str, Any]:
    names = ("status", "code", "field", "message")
    refusal = {name: getattr(refused, name) for name in names} if refused else None
    return {"uid": str(uid), "is_done": refused is None, "refusal": refusal, "workload": row}


ACTIONS: dict[str, type[WorkloadView]] = {
    "suspend": _action("suspend", "Take it off the machines, keeping its checkpoint, or out of the queue."),
    "resume": _action("resume", "Queue it again."),
    "stop": _action("stop", "Stop it permanently."),
    "requeue": _action("requeue", "End this attempt and queue it again."),
    "scale": Scale,
    "priority": Priority,
}
