"""One workload closely: decisions, ETA, measurements, pods, allocations, cost."""

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.endpoint import PAGE, Parameter, endpoint
from controlplane.api.pagination import part
from controlplane.api.serializers import details as answers
from controlplane.api.views.workloads import TAG, WorkloadView
from controlplane.jobspec.shapes import Choice, Whole
from controlplane.queries.tenancy import platform
from controlplane.queries.workloads import details as queries
from controlplane.services.scheduling import clock

MAX_MINUTES = 24 * 60


class Decisions(WorkloadView):
    """What was decided about a workload."""

    @endpoint(
        answer=answers.DecisionPage,
        tag=TAG,
        operation="list_workload_decisions",
        parameters=(Parameter("ordering", Choice(("id", "-id")), "Oldest or newest first.", "-id"), *PAGE),
    )
    def get(self, request: Request, uid: UUID) -> Response:
        """List what rounds of the scheduler and the autoscaler decided about a workload, with the rounds."""
        found = queries.decisions(self.one(uid))
        return self.listed_at_once(found, self.given["ordering"], queries.decision_rows)


class Eta(WorkloadView):
    """When it starts and ends."""

    @endpoint(answer=answers.Eta, tag=TAG, operation="read_workload_eta")
    def get(self, request: Request, uid: UUID) -> Response:
        """Tell when a workload is expected to start and to end, and what that is based on."""
        return Response(queries.eta(self.one(uid)))


class Metrics(WorkloadView):
    """What is measured."""

    @endpoint(
        answer=answers.Metrics,
        tag=TAG,
        operation="read_workload_metrics",
        parameters=(Parameter("minutes", Whole(1, MAX_MINUTES), "So many of the last minutes of a service.", 60),),
    )
    def get(self, request: Request, uid: UUID) -> Response:
        """Tell what a workload's GPUs do now, and how a service fared in each of the last minutes."""
        visible = platform.scope(request.user)
        return Response(queries.metrics(self.one(uid), self.given["minutes"], clock.now(), visible))


class Pods(WorkloadView):
    """The pods."""

    @endpoint(answer=answers.PodPage, tag=TAG, operation="list_workload_pods", parameters=PAGE)
    def get(self, request: Request, uid: UUID) -> Response:
        """List the pods of a workload's present attempt."""
        rows = queries.pods(self.one(uid))
        return Response(part(request, rows, lambda row: f"{row['rank']:09}", self.given["page_size"]))


class Allocations(WorkloadView):
    """What was held."""

    @endpoint(answer=answers.AllocationPage, tag=TAG, operation="list_workload_allocations", parameters=PAGE)
    def get(self, request: Request, uid: UUID) -> Response:
        """List what a workload held in all its attempts, oldest first: the ledger behind usage and cost."""
        workload, now = self.one(uid), clock.now()
        found = queries.allocations(workload)
        return self.listed(found, "id", lambda seat: queries.allocation_row(seat, workload.roles, now))


class Cost(WorkloadView):
    """What it costs."""

    @endpoint(answer=answers.Cost, tag=TAG, operation="read_workload_cost")
    def get(self, request: Request, uid: UUID) -> Response:
        """Tell the GPU hours of a workload and their cost at the pools' present prices."""
        return Response(queries.cost(self.one(uid)))


DETAILS = {
    "decisions": Decisions,
    "eta": Eta,
    "metrics": Metrics,
    "pods": Pods,
    "allocations": Allocations,
    "cost": Cost,
}
