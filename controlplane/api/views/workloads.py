"""Workloads: submit, list, read, change, stop, and what can be done with one."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any
from uuid import UUID

from django.db import transaction
from django.http import Http404, HttpResponse, HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import errors, waiting
from controlplane.api.endpoint import PAGE, VERSION, Parameter, View, endpoint, etag, if_match, no_body, versioned
from controlplane.api.feed import FEED, or_leave
from controlplane.api.refusals import Faulty
from controlplane.api.rendering import dumps
from controlplane.api.serializers import requests
from controlplane.api.serializers import workloads as answers
from controlplane.api.serializers.submitted import named, read_batch, read_job, read_unsuspended
from controlplane.jobspec import jobfile, spec
from controlplane.jobspec.shapes import Choice, FieldError, Items, Text, Whole
from controlplane.queries.accounts import access
from controlplane.queries.accounts.access import Verb
from controlplane.queries.accounts.viewers import viewer
from controlplane.queries.audit import feed, naming
from controlplane.queries.workloads import workloads as queries
from controlplane.services.errors import Refused
from controlplane.services.intake.ownership import Hand
from controlplane.services.workloads import applying, idempotency, workloads
from controlplane.services.workloads.rehearsal import rehearse
from scheduler.model.workload import ENDED, Phase

KEY = {"Idempotency-Key": "Sent again within 24 h with the same body, the first answer is given again."}
TAG = "workloads"
ANY_NAME = Text(63, jobfile.LABEL, jobfile.LABEL_RULE)


class WorkloadView(View):
    """Views of one or more workloads."""

    def one(self, uid: UUID) -> Any:
        """The workload, if the user may see it; else 404."""
        workload = queries.get(self.request.user, uid)
        if workload is None:
            raise Http404
        return workload

    @property
    def hand(self) -> Hand:
        """By whose hand the caller changes workloads."""
        return Hand.ADMIN if access.is_platform_admin(self.request.user) else Hand.PERSON

    def answered(self, uid: UUID) -> Response:
        """The workload as it stands now."""
        return self.shown(self.one(uid))

    def shown(self, workload: Any) -> Response:
        """This workload."""
        row = queries.row(workload)
        return versioned(row, row["version"])

    def suspended(self, uid: Any) -> dict[str, Any]:
        """The row of a workload of the caller, which rests from now on."""
        workloads.suspend(workload=self.one(uid), actor=self.actor)
        row: dict[str, Any] = queries.row(self.one(uid))
        return row

    def may_submit(self, specs: Sequence[spec.Spec], prefix: bool) -> None:
        """Raise unless the user may submit to every team named."""
        for i, one in enumerate(specs):
            try:
                self.may(Verb.SUBMIT, one.team)
            except Http404:
                field = f"{i}.team" if prefix else "team"
                raise Refused(404, "NotFound", field, access.NO_TEAM.format(team=one.team)) from None

    def once(self, work: Callable[[], idempotency.Answer]) -> HttpResponse:
        """Do the work in one transaction, the answer rendered in it; at most once for an idempotency key."""
        key = self.request.META.get("HTTP_IDEMPOTENCY_KEY")
        if key is None:
            with transaction.atomic():
                done = work()
        else:
            request = (str(self.request.method), self.request.path, self.request.data)
            done = idempotency.once(user=self.caller, key=key, request=request, work=work)
        headers = done.headers | ({"Idempotent-Replayed": "true"} if done.is_replayed else {})
        return HttpResponse(done.body, status=done.status, content_type="application/json", headers=headers)


MET = {
    "terminal": frozenset(phase.value for phase in ENDED),
    "running": frozenset(phase.value for phase in ENDED | {Phase.RUNNING, Phase.SCALING, Phase.DEGRADED}),
}
LONGEST_WAIT = 60  # s: below what proxies allow a request that is silent
WAIT = (
    Parameter("wait_for", Choice(tuple(MET)), "Answer once it has ended (terminal), or also once it runs (running)."),
    Parameter("timeout", Whole(0, LONGEST_WAIT), "With wait_for: answer after so many seconds at the latest.", 30),
)
PHASES = Items(Choice(tuple(answers.PHASES), names_all=True), 20)
FILTERS = (
    Parameter("team", jobfile.TEAM, "Of this team."),
    Parameter("type", Choice(tuple(answers.KINDS)), "Of this type."),
    Parameter(
        "phase", Items(Choice(tuple(answers.PHASES), names_all=True), 20), "In one of these phases, comma between them."
    ),
    Parameter("name", ANY_NAME, "With this name."),
    Parameter("q", Text(63), "With this in the name."),
    Parameter("ordering", Choice(("seq", "-seq")), "By submission, oldest or newest first.", "-seq"),
    *PAGE,
)


class Workloads(WorkloadView):
    """All workloads."""

    @endpoint(answer=answers.WorkloadPage, tag=TAG, operation="list_workloads", parameters=FILTERS)
    def get(self, request: Request) -> Response:
        """List the workloads of your teams."""
        return self.page_of(self.given["type"])

    @endpoint(
        answer=answers.Workload,
        body=requests.JobFile,
        status=201,
        headers=KEY,
        problems=(409, 413, 415, 422),
        tag=TAG,
        operation="submit_workload",
    )
    def post(self, request: Request) -> HttpResponse:
        """Submit a job file."""
        return self.submitted(request.data)

    def page_of(self, kind: str | None) -> Response:
        """One page of what the parameters ask for; of this type, if one is given."""
        given = self.given
        found = queries.filtered(
            queries.visible(self.request.user).select_related(None),
            team=given["team"],
            kind=kind,
            phases=given["phase"] or (),
            name=given["name"],
            text=given["q"],
        )

        def show(keys: list[Any]) -> list[dict[str, Any]]:
            return queries.listed([key.uid for key in keys])

        keys = found.values_list("uid", "seq", named=True)
        return self.listed_at_once(keys, given["ordering"], show)

    def submitted(self, body: Any) -> HttpResponse:
        """The workload that a job file has made."""
        job = read_job(body)

        def work() -> idempotency.Answer:
            row = queries.row(workloads.submit(spec=job.spec, user=self.caller, actor=self.actor))
            if job.is_suspended:
                row = self.suspended(row["uid"])
            where = self.request.build_absolute_uri(f"/api/v1/workloads/{row['uid']}")
            return idempotency.Answer(201, _json(row), {"Location": where, "ETag": etag(row["version"])})

        with named([job]):
            self.may_submit([job.spec], prefix=False)
            return self.once(work)


class Batch(WorkloadView):
    """Several submissions at once."""

    @endpoint(
        answer=answers.WorkloadBatch,
        body=requests.JobFiles,
        status=201,
        headers=KEY,
        problems=(409, 413, 415, 422),
        tag=TAG,
        operation="submit_workloads",
    )
    def post(self, request: Request) -> HttpResponse:
        """Submit several job files, all or none; `after` may name others of the list."""
        jobs = read_batch(request.data)
        specs = [job.spec for job in jobs]

        def work() -> idempotency.Answer:
            made = workloads.submit_many(specs=specs, user=self.caller, actor=self.actor)
            rows = queries.rows(made, in_full=True)
            found = [
                self.suspended(row["uid"]) if job.is_suspended else row for row, job in zip(rows, jobs, strict=True)
            ]
            return idempotency.Answer(201, _json({"results": found}))

        with named(jobs, is_batch=True):
            self.may_submit(specs, prefix=True)
            return self.once(work)


class Preview(WorkloadView):
    """What a submission would meet."""

    @endpoint(
        answer=answers.Preview,
        body=requests.JobFile,
        problems=(409, 413, 415, 422),
        tag=TAG,
        operation="preview_workload",
    )
    def post(self, request: Request) -> Response:
        """Tell what the next round would decide about a job file; refuses what a submission would. Writes nothing."""
        job = read_unsuspended(request.data)
        with named([job]):
            self.may_submit([job.spec], prefix=False)
            unmet = rehearse(spec=job.spec, user=self.caller)
        return Response(queries.preview(request.user, job.spec, unmet))


class Apply(WorkloadView):
    """A job file as what a name should be."""

    @endpoint(
        answer=answers.Applied,
        body=requests.JobFile,
        headers=KEY,
        problems=(409, 412, 413, 415, 422),
        tag=TAG,
        operation="apply_workload",
    )
    def post(self, request: Request) -> HttpResponse:
        """Submit a job file, or change the live workload of its name to what the file says."""
        job = read_unsuspended(request.data)
        parsed = job.spec
        live = queries.live(request.user, parsed.team, parsed.name)
        if live is not None:
            self.may(Verb.CHANGE, parsed.team, submitter=live.created_by_id)

        def work() -> idempotency.Answer:
            done = applying.apply(spec=parsed, live=live, user=self.caller, actor=self.actor)
            row = queries.row(self.one(done.uid))
            told = {"outcome": done.outcome.value, "changed": list(done.changed), "workload": row}
            return idempotency.Answer(200, _json(told), {"ETag": etag(row["version"])})

        with named([job]):
            if live is None:
                self.may_submit([parsed], prefix=False)
            return self.once(work)


class Diff(WorkloadView):
    """What applying a job file would change."""

    @endpoint(answer=answers.Diff, body=requests.JobFile, problems=(413, 415, 422), tag=TAG, operation="diff_workload")
    def post(self, request: Request) -> Response:
        """Compare a job file with the live workload of its name; `uid` is null if there is none. Writes nothing."""
        parsed = read_unsuspended(request.data).spec
        self.may(Verb.READ, parsed.team)
        live = queries.live(request.user, parsed.team, parsed.name)
        found = applying.compared(parsed, live) if live is not None else ()
        return Response({"uid": live and str(live.pk), "differences": [asdict(one) for one in found]})


class Workload(WorkloadView):
    """One workload."""

    @endpoint(answer=answers.Workload, tag=TAG, operation="read_workload", parameters=WAIT)
    def get(self, request: Request, uid: UUID) -> HttpResponseBase:
        """Read a workload in full; with `wait_for`, once it is there or the time is up, whichever is first."""
        return self.once_met(uid, self.given["wait_for"], self.given["timeout"])

    def once_met(self, uid: UUID, until: str | None, seconds: int) -> HttpResponseBase:
        """The workload, later if it is not where the caller waits for it to be."""
        workload = self.one(uid)
        if until is None or workload.phase in MET[until]:
            return self.shown(workload)
        watching, workload = viewer(self.request), self.one(uid)  # in this order: what changes in between is noticed
        scope = feed.Scope(frozenset([workload.team.name]), uid)
        with or_leave(FEED.join(watching, scope)) as inbox:
            seconds = 0 if self.one(uid).phase in MET[until] else seconds  # read again: what follows is told
        parked = waiting.LongPoll(inbox, lambda event: event.phase in MET[until], seconds, lambda: self.later(uid))
        if waiting.has_event_loop(self.request):
            return parked
        with contextlib.closing(parked):
            parked.wait()
        return self.answered(uid)

    def later(self, uid: UUID) -> HttpResponse:
        """The workload as it stands now, outside of the framework's handling of a request."""
        workload = queries.get(self.request.user, uid)
        if workload is None:
            return errors.answer(404, f"There is no workload {uid} any more, or you may not see it.")
        row = queries.row(workload)
        headers = {"ETag": etag(row["version"]), "Cache-Control": "no-store"}
        told = naming.document(dumps(row), self.request.user)  # no middleware sees an answer that comes later
        return HttpResponse(told, content_type="application/json", headers=headers)

    @endpoint(
        answer=answers.Workload,
        body=requests.Changes,
        headers=VERSION,
        problems=(409, 412, 413, 415, 422),
        tag=TAG,
        operation="change_workload",
    )
    def patch(self, request: Request, uid: UUID) -> Response:
        """Change priority class, durations or labels, and while it waits size, resources or topology; see below.

        null takes an optional field away; resources and topology are given whole. While it runs, cpu and memory in
        resources may change: its workers go on, and `resize` says how far that is. 409 NoRoom: a node has no room.
        Of a service image, env, objective and gateway may change too: another image or environment is a new revision,
        which replaces its replicas one by one; GET /inferences/{uid}/revisions says how far that is.
        """
        workload = self.one(uid)
        self.may(Verb.CHANGE, workload.team.name, submitter=workload.created_by_id)
        if not isinstance(request.data, dict):
            raise Faulty([FieldError("", "The body is not an object. Send the fields to change.")])
        workloads.patch(workload=workload, changes=request.data, version=if_match(request), actor=self.actor)
        return self.answered(uid)

    @endpoint(answer=answers.Workload, headers=VERSION, problems=(409, 412), tag=TAG, operation="delete_workload")
    def delete(self, request: Request, uid: UUID) -> Response:
        """Stop a workload; its record stays, so the answer is the workload."""
        no_body(request)
        workload = self.one(uid)
        self.may(Verb.ACT, workload.team.name)
        workloads.delete(workload=workload, actor=self.actor, version=if_match(request), hand=self.hand)
        return self.answered(uid)


def _json(value: Any) -> str:
    return dumps(value).decode()
