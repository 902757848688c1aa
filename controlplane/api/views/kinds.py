"""Each type under its own name: /trainings, /notebooks and /inferences, with what only one type has."""

from typing import Any
from uuid import UUID

from django.http import Http404, HttpResponse, HttpResponseBase
from django.urls import URLPattern, path
from rest_framework.request import Request
from rest_framework.response import Response

from autoscaler.latency import FIRST_TOKEN, Within
from controlplane.api.endpoint import VERSION, Parameter, endpoint, if_match, no_body
from controlplane.api.serializers import acting, details, scaling
from controlplane.api.serializers import workloads as answers
from controlplane.api.serializers.requests import BODY_OF, Changes
from controlplane.api.views.workloads import FILTERS, KEY, WAIT, Workload, Workloads, WorkloadView
from controlplane.domain.ondemand import on_demand
from controlplane.jobspec import jobfile
from controlplane.jobspec.objective import FIELDS
from controlplane.jobspec.objective import within as promised
from controlplane.jobspec.quantities import iso
from controlplane.kubeobjects import jobs
from controlplane.queries.accounts.access import Verb
from controlplane.queries.reports import sla
from controlplane.queries.tenancy import platform
from controlplane.queries.workloads import details as queries
from controlplane.queries.workloads import diagnosis, experiments, notebooks, objectiveprice, revisions, standby
from controlplane.queries.workloads import workloads as rows
from controlplane.services.errors import Refused
from controlplane.services.scheduling import clock
from controlplane.services.training import changing
from controlplane.services.workloads import idle, workloads
from scheduler.model.workload import Kind, Phase

WITHOUT_TYPE = tuple(one for one in FILTERS if one.name != "type")


class OfKind(WorkloadView):
    """Views of one type."""

    kind: Kind

    def one(self, uid: UUID) -> Any:
        """The workload, if it is of this type and the user may see it; else 404."""
        workload = super().one(uid)
        if workload.kind != self.kind:
            raise Http404
        return workload


def _list(of: Kind) -> type[WorkloadView]:
    class OneType(Workloads):
        """The workloads of one type."""

        kind = of

        @endpoint(answer=answers.WorkloadPage, tag=f"{of}s", operation=f"list_{of}s", parameters=WITHOUT_TYPE)
        def get(self, request: Request) -> Response:
            return self.page_of(self.kind.value)

        @endpoint(
            answer=answers.Workload,
            body=BODY_OF[of],
            status=201,
            headers=KEY,
            problems=(409, 413, 415, 422),
            tag=f"{of}s",
            operation=f"submit_{of}",
        )
        def post(self, request: Request) -> HttpResponse:
            return self.submitted(self.typed(request.data))

        def typed(self, body: Any) -> Any:
            """The job file with its type; another type is refused."""
            if not isinstance(body, dict):
                return body
            if jobs.is_object(body):
                message = "This is an object of Kubernetes. Send it to /api/v1/workloads, or send a job file here."
                raise Refused(400, "Invalid", "apiVersion", message)
            if body.get("type", self.kind.value) != self.kind.value:
                fix = f"Leave it out here, or send the job file to /api/v1/{body['type']}s."
                raise Refused(400, "Invalid", "type", f"type is {str(body['type'])[:40]}, not {self.kind}. {fix}")
            return {"type": self.kind.value, **body}

    OneType.get.__doc__ = f"List the workloads of type {of}, as /workloads?type={of} does."
    OneType.post.__doc__ = f"Submit a {of}; `type` may be left out of the job file."
    OneType.__name__ = f"{of.capitalize()}s"
    return OneType


def _single(of: Kind) -> type[WorkloadView]:
    class One(OfKind, Workload):
        """One workload of one type."""

        kind = of

        @endpoint(answer=answers.Workload, tag=f"{of}s", operation=f"read_{of}", parameters=WAIT)
        def get(self, request: Request, uid: UUID) -> HttpResponseBase:
            return super().get(request, uid)

        @endpoint(
            answer=answers.Workload,
            body=Changes,
            headers=VERSION,
            problems=(409, 412, 413, 415, 422),
            tag=f"{of}s",
            operation=f"change_{of}",
        )
        def patch(self, request: Request, uid: UUID) -> Response:
            return super().patch(request, uid)

        @endpoint(answer=answers.Workload, headers=VERSION, problems=(412,), tag=f"{of}s", operation=f"delete_{of}")
        def delete(self, request: Request, uid: UUID) -> Response:
            return super().delete(request, uid)

    One.get.__doc__ = f"Read a {of} in full; 404 for a workload of another type."
    One.patch.__doc__ = f"Change a {of}, as PATCH /workloads/{{uid}} does."
    One.delete.__doc__ = f"Stop a {of}; its record stays, so the answer is the workload."
    One.__name__ = of.capitalize()
    return One


P95_LATENCY = Parameter(
    "p95_latency", jobfile.P95_LATENCY, "A latency to be held to, as in the objective of a job file, such as 200ms."
)
P95_FIRST_TOKEN = Parameter(
    "p95_first_token", jobfile.P95_FIRST_TOKEN, "In place of it a time to the first token, such as 500ms."
)
STANDBY = Parameter("standby", jobfile.STANDBY, "So many replicas on standby, as in a job file: a number, or auto.")
BURN_RATES = ("five_minutes", "half_hour", "hour", "six_hours")  # of sla.SPANS, which ascend


class Slo(OfKind):
    """A service's objective."""

    kind = Kind.INFERENCE

    @endpoint(answer=details.Objective, tag="inferences", operation="read_inference_slo")
    def get(self, request: Request, uid: UUID) -> Response:
        """Tell how a service stands against its objective; 404 with code NoObjective if it has none."""
        workload = self.one(uid)
        found = sla.one(clock.now(), workload)
        if found is None:
            fix = "Give one in the job file: objective: {p95_latency: 200ms}, or {p95_first_token: 500ms}."
            raise Refused(404, "NoObjective", "objective", f"{workload.name} has no objective. {fix}")
        same = ("requests", "over", "attainment", "budget_left", "burn_rate", "requests_per_second")
        return Response(
            {
                "uid": str(found.uid),
                "p95_target_seconds": found.p95_target,
                "p95_of": found.p95_of,
                "unknown_why": found.unknown_why,
                "availability_target": found.target,
                "window_seconds": found.window,
                "standing": found.standing.value,
                "burn_rates": dict(zip(BURN_RATES, found.burn_rates.values(), strict=True)),
                "p95_seconds": found.p95,
                **{name: getattr(found, name) for name in same},
            }
        )


class SloPrice(OfKind):
    """What a service's objective costs."""

    kind = Kind.INFERENCE

    @endpoint(
        answer=scaling.ObjectivePrice,
        tag="inferences",
        operation="price_inference_slo",
        parameters=(P95_LATENCY, P95_FIRST_TOKEN, STANDBY),
    )
    def get(self, request: Request, uid: UUID) -> Response:
        """Tell how many GPU hours a day a service's objective takes at the load of its last day; or other terms."""
        workload = self.one(uid)
        given = {of: self.given[name] for of, name in FIELDS.items() if self.given[name] is not None}
        if len(given) > 1:
            fix = "Ask about p95_latency or about p95_first_token."
            raise Refused(400, "Invalid", FIELDS[FIRST_TOKEN], f"Two latencies are given. {fix}")
        other = next((Within(seconds, of) for of, seconds in given.items()), None)
        if other is None and self.given["standby"] is not None:
            other = promised(sla.objective(workload.spec))
        kept = standby.replicas_of(workload, self.given["standby"])
        now, asked = objectiveprice.costs(workload, clock.now(), other, kept)
        prices = {"now": objectiveprice.row(now), "asked": objectiveprice.row(asked)}
        return Response({"uid": str(workload.pk), **prices, "standby": standby.price_of(workload, kept)})


class Autoscaling(OfKind):
    """A service's replicas."""

    kind = Kind.INFERENCE

    @endpoint(answer=scaling.Autoscaling, tag="inferences", operation="read_inference_autoscaling")
    def get(self, request: Request, uid: UUID) -> Response:
        """Tell how many replicas a service may have, should have and has, and the newest changes with their reasons."""
        return Response(queries.autoscaling(self.one(uid), clock.now(), platform.scope(request.user)))


class Revisions(OfKind):
    """A service's revisions."""

    kind = Kind.INFERENCE

    @endpoint(answer=scaling.Revisions, tag="inferences", operation="read_inference_revisions")
    def get(self, request: Request, uid: UUID) -> Response:
        """List the images and environments that a service has had, and how far the wanted one is brought in."""
        return Response(revisions.revisions(self.one(uid)))


class Rollback(OfKind):
    """A service's way back."""

    kind = Kind.INFERENCE

    @endpoint(
        answer=scaling.Revisions,
        body=acting.Undo,
        headers=VERSION,
        problems=(409, 412, 413, 415, 422),
        tag="inferences",
        operation="rollback_inference",
    )
    def post(self, request: Request, uid: UUID) -> Response:
        """Go back to the revision before, or to the one that `to` names: replica by replica, like any change."""
        workload = self.one(uid)
        self.may(Verb.CHANGE, workload.team.name, submitter=workload.created_by_id)
        to = acting.read_undo(request.data)
        workloads.undo(workload=workload, actor=self.actor, to=to, version=if_match(request), hand=self.hand)
        return Response(revisions.revisions(self.one(uid)))


class Connect(OfKind):
    """A notebook's address."""

    kind = Kind.NOTEBOOK

    @endpoint(answer=details.Connection, tag="notebooks", operation="read_notebook_connection")
    def get(self, request: Request, uid: UUID) -> Response:
        """Tell where a notebook is reached inside the cluster and by a browser, and whether it runs."""
        workload = self.one(uid)
        is_ready = workload.phase == Phase.RUNNING
        found = {"address": rows.address(workload), "is_ready": is_ready, "browser_url": notebooks.page(workload)}
        return Response(found)


class Activity(OfKind):
    """A notebook's idleness."""

    kind = Kind.NOTEBOOK

    @endpoint(answer=details.Activity, tag="notebooks", operation="read_notebook_activity")
    def get(self, request: Request, uid: UUID) -> Response:
        """Tell since when a notebook is measured idle, and when it will be parked if it stays so."""
        return Response(_activity(self.one(uid)))


class Extend(OfKind):
    """A notebook's time without use."""

    kind = Kind.NOTEBOOK

    @endpoint(
        answer=details.Activity,
        problems=(409, 413, 415, 422),
        tag="notebooks",
        operation="extend_notebook",
    )
    def post(self, request: Request, uid: UUID) -> Response:
        """Count a notebook's time without use anew, as if it had just been used, so that it is parked later."""
        no_body(request)
        workload = self.one(uid)
        self.may(Verb.ACT, workload.team.name)
        idle.extend(workload=workload, actor=self.actor)
        return Response(_activity(self.one(uid)))


def _activity(workload: Any) -> dict[str, Any]:
    since = rows.idle_since(workload)
    after = notebooks.park_after(workload)
    return {
        "idle_since": None if since is None else iso(since),
        "park_after_seconds": after,
        "parks_at": None if since is None or after is None else iso(since + after),
        "on_demand": workload.offloads,
        **on_demand(notebooks.on_gpu(workload) if workload.offloads else None),
    }


class Diagnosis(OfKind):
    """What slows a training."""

    kind = Kind.TRAINING

    @endpoint(answer=scaling.Diagnosis, tag="trainings", operation="read_training_diagnosis")
    def get(self, request: Request, uid: UUID) -> Response:
        """Tell what the steps of a training wait for, with the evidence; bottleneck is null while that is not known."""
        return Response(diagnosis.shown(self.one(uid)))


class Experiments(OfKind):
    """Changes that a training tries."""

    kind = Kind.TRAINING

    @endpoint(answer=scaling.Experiments, tag="trainings", operation="read_training_experiments")
    def get(self, request: Request, uid: UUID) -> Response:
        """Tell what would make a training faster, what was tried for that, and what it gained."""
        return Response(experiments.shown(self.one(uid)))


class TakeBack(OfKind):
    """A training's way back."""

    kind = Kind.TRAINING

    @endpoint(answer=scaling.Experiments, problems=(409,), tag="trainings", operation="take_back_training_experiment")
    def post(self, request: Request, uid: UUID) -> Response:
        """Have the workers get what they had before the newest change of Weft's; it is not tried again."""
        workload = self.one(uid)
        self.may(Verb.CHANGE, workload.team.name, submitter=workload.created_by_id)
        changing.take_back(workload=workload, actor=self.actor, hand=self.hand)
        return Response(experiments.shown(self.one(uid)))


ROUTES: list[URLPattern] = [
    *(path(f"{kind}s", _list(kind).as_view()) for kind in Kind),
    *(path(f"{kind}s/<uuid:uid>", _single(kind).as_view()) for kind in Kind),
    path("trainings/<uuid:uid>/diagnosis", Diagnosis.as_view()),
    path("trainings/<uuid:uid>/experiments", Experiments.as_view()),
    path("trainings/<uuid:uid>/experiments/take-back", TakeBack.as_view()),
    path("inferences/<uuid:uid>/slo", Slo.as_view()),
    path("inferences/<uuid:uid>/slo/price", SloPrice.as_view()),
    path("inferences/<uuid:uid>/autoscaling", Autoscaling.as_view()),
    path("inferences/<uuid:uid>/revisions", Revisions.as_view()),
    path("inferences/<uuid:uid>/rollback", Rollback.as_view()),
    path("notebooks/<uuid:uid>/connect", Connect.as_view()),
    path("notebooks/<uuid:uid>/activity", Activity.as_view()),
    path("notebooks/<uuid:uid>/extend", Extend.as_view()),
]
