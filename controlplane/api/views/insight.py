"""What happened to a workload, why it waits, where it is, what it prints; and the queue."""

from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.endpoint import PAGE, Parameter, View, endpoint
from controlplane.api.pagination import part
from controlplane.api.refusals import Unavailable
from controlplane.api.serializers import details
from controlplane.api.serializers import workloads as answers
from controlplane.api.views.workloads import TAG, WorkloadView
from controlplane.cluster.port import ClusterUnreachable
from controlplane.jobspec import jobfile
from controlplane.jobspec.quantities import number
from controlplane.jobspec.shapes import Choice, Quantity, Whole
from controlplane.queries.scheduling import forecasts
from controlplane.queries.workloads import workloads as queries
from scheduler.predict.run_times import Spread

MAX_LINES = 10_000
SECONDS = Quantity(number, 0, 4e9, "1767225600.5", ("0", "4000000000"))


class Events(WorkloadView):
    """The history of a workload."""

    @endpoint(
        answer=answers.EventPage,
        tag=TAG,
        operation="list_workload_events",
        parameters=(Parameter("ordering", Choice(("id", "-id")), "Oldest or newest first.", "id"), *PAGE),
    )
    def get(self, request: Request, uid: UUID) -> Response:
        """List what happened to a workload."""
        return self.listed(queries.events(self.one(uid)), self.given["ordering"], queries.event_row)


class Explanation(WorkloadView):
    """Why a workload waits."""

    @endpoint(answer=details.Explanation, tag=TAG, operation="explain_workload")
    def get(self, request: Request, uid: UUID) -> Response:
        """Explain where a workload is: its one reason, with numbers, and what the next round would do."""
        return Response(queries.explanation(request.user, self.one(uid)))


class Placement(WorkloadView):
    """Where a workload is."""

    @endpoint(answer=answers.Placement, tag=TAG, operation="read_workload_placement")
    def get(self, request: Request, uid: UUID) -> Response:
        """Tell on which nodes and GPUs the workers of the present attempt are."""
        return Response(queries.placement(self.one(uid)))


class Logs(WorkloadView):
    """What a workload prints."""

    @endpoint(
        answer=answers.Logs,
        tag=TAG,
        operation="read_workload_logs",
        parameters=(
            Parameter("tail", Whole(1, MAX_LINES), "How many of the last lines.", 100),
            Parameter("since", SECONDS, "Only lines after this second of the cluster's clock."),
            Parameter("rank", Whole(0, 100_000), "Of this worker only."),
        ),
    )
    def get(self, request: Request, uid: UUID) -> Response:
        """Read the last lines of a workload's log."""
        workload, given = self.one(uid), self.given
        try:
            return Response(queries.logs(workload, tail=given["tail"], since=given["since"], rank=given["rank"]))
        except ClusterUnreachable as error:
            raise Unavailable("LogsUnavailable", "The cluster does not answer. Try again in a second.") from error


class Queue(View):
    """The queue."""

    @endpoint(
        answer=answers.Queue,
        tag="queue",
        operation="list_queue",
        parameters=(Parameter("team", jobfile.TEAM, "Of this team."), *PAGE),
    )
    def get(self, request: Request) -> Response:
        """List what waits in your teams: the queue in the order of the next round, then what has no place in it.

        Places count all teams. `position` is null for what no round looks at yet, such as a step of a pipeline that
        starts after another.
        """
        waiting = [
            {"key": _key(turn.position, number), "position": turn.position, "uid": turn.uid, "refusal": turn.refusal}
            for number, turn in enumerate(queries.queue(request.user, self.given["team"]))
        ]
        found = part(request, waiting, key=lambda row: str(row["key"]), size=self.given["page_size"])
        rows = {row["uid"]: row for row in queries.rows(queries.of(request.user, [w["uid"] for w in found["results"]]))}
        starts = forecasts.told(rows)
        listed = [_queued(rows[w["uid"]], w, starts.get(w["uid"])) for w in found["results"] if w["uid"] in rows]
        return Response({"next": found["next"], "results": listed})


def _key(position: int | None, number: int) -> str:
    """What orders a page of the queue: by place; what has none comes after all that have one."""
    return f"9{number:09}" if position is None else f"{position:010}"


def _queued(row: dict[str, Any], waiting: dict[str, Any], start: Spread | None) -> dict[str, Any]:
    """The row with what the next round would tell it, which may be newer than what is stored, and its forecast."""
    refusal = waiting["refusal"]
    told = {"reason": refusal.reason.value, "message": refusal.message} if refusal else {}
    expected = forecasts.shown(start) if start and refusal else None
    return {**row, **told, "position": waiting["position"], "will_start": refusal is None, "expected_start": expected}
