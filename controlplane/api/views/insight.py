"""What happened to a workload, why it waits, where it is, what it prints; and the queue."""

from collections import Counter
from collections.abc import Iterable, Iterator
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
from controlplane.jobspec.quantities import iso, number
from controlplane.jobspec.shapes import Choice, Flag, Quantity, Whole
from controlplane.queries.scheduling import forecasts
from controlplane.queries.workloads import workloads as queries
from scheduler.predict.run_times import Spread

MAX_LINES = 10_000
SEARCH = Parameter("search", Flag(), "True: search for what would start it also on a large cluster: it takes seconds.")
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

    @endpoint(answer=details.Explanation, tag=TAG, operation="explain_workload", parameters=(SEARCH,))
    def get(self, request: Request, uid: UUID) -> Response:
        """Explain where a workload is: its one reason, with numbers, and what the next round would do.

        On a large cluster it is what the newest full round told it; `as_of` says when that was.
        """
        return Response(queries.explanation(request.user, self.one(uid), searches=bool(self.given["search"])))


class Placement(WorkloadView):
    """Where a workload is."""

    @endpoint(answer=answers.Placement, tag=TAG, operation="read_workload_placement")
    def get(self, request: Request, uid: UUID) -> Response:
        """Tell on which nodes and GPUs the workers of the present attempt are."""
        return Response(queries.placement(self.one(uid)))


class Logs(WorkloadView):
    """What a workload prints."""

    @endpoint(
        answer=details.Logs,
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
        starts after another. On a large cluster the list is as the newest full round left it, with what came since;
        `as_of` says when that was.
        """
        line = queries.queue(request.user, self.given["team"])
        waiting = [
            {"key": key, "position": turn.position, "uid": turn.uid, "refusal": turn.refusal}
            for key, turn in zip(_keys(turn.position for turn in line.turns), line.turns, strict=True)
        ]
        found = part(request, waiting, key=lambda row: str(row["key"]), size=self.given["page_size"])
        rows = {row["uid"]: row for row in queries.rows(queries.of(request.user, [w["uid"] for w in found["results"]]))}
        starts = forecasts.told(rows)
        listed = [_queued(rows[w["uid"]], w, starts.get(w["uid"])) for w in found["results"] if w["uid"] in rows]
        as_of = None if line.as_of is None else iso(line.as_of)
        return Response({"next": found["next"], "results": listed, "as_of": as_of})


def _keys(positions: Iterable[int | None]) -> Iterator[str]:
    """What orders pages of the queue: by place, of several cells then by cell; what has no place comes last."""
    seen: Counter[int] = Counter()
    for index, position in enumerate(positions):
        if position is None:
            yield f"9{index:09}"
            continue
        again = f"-{seen[position]:03}" if seen[position] else ""
        seen[position] += 1
        yield f"{position:010}{again}"


def _queued(row: dict[str, Any], waiting: dict[str, Any], start: Spread | None) -> dict[str, Any]:
    """The row with what the next round would tell it, which may be newer than what is stored, and its forecast."""
    refusal = waiting["refusal"]
    told = {"reason": refusal.reason.value, "message": refusal.message} if refusal else {}
    expected = forecasts.shown(start) if start and refusal else None
    return {**row, **told, "position": waiting["position"], "will_start": refusal is None, "expected_start": expected}
