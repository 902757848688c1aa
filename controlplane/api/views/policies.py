"""The policy's versions, and what-ifs."""

from typing import Any

from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.endpoint import PAGE, PLATFORM_ADMIN, View, endpoint, if_match, no_body, refuse, versioned
from controlplane.api.refusals import Faulty
from controlplane.api.serializers import policies as answers
from controlplane.api.serializers import requests
from controlplane.domain.policy import clashes
from controlplane.domain.policyfields import PARTS
from controlplane.queries.scheduling import lab, policies
from controlplane.queries.scheduling import simulations as asked
from controlplane.services.errors import Refused
from controlplane.services.scheduling import policy, simulations

SEEN = {"If-Match": "The ETag of the current version that was seen; 412 if there is a newer one."}


class Policies(View):
    """The policy's versions."""

    @endpoint(answer=answers.PolicyList, tag="policies", operation="list_policies", parameters=PAGE)
    def get(self, request: Request) -> Response:
        """List the versions of the policy, newest first, with what each changed. The first is the current one."""
        return self.listed_at_once(policies.versions(), "-pk", policies.rows)

    @endpoint(
        answer=answers.Policy,
        status=201,
        least=PLATFORM_ADMIN,
        body=requests.PolicyRequest,
        headers=SEEN,
        problems=(412, 413, 415, 422),
        tag="policies",
        operation="save_policy",
    )
    def post(self, request: Request) -> Response:
        """Save a new version with some settings changed; it applies from the next round on."""
        given = requests.read_body(requests.POLICY, request.data)
        changes = {part: given[part] for part in PARTS if given[part] is not None}
        for field, wrong in clashes(changes).items():
            refuse(field, wrong)
        number = policy.change(changes=changes, author=self.actor, comment=given["comment"] or "", seen=_seen(request))
        return _answered(number, status=201)


class Policy(View):
    """One version."""

    @endpoint(answer=answers.Policy, tag="policies", operation="read_policy")
    def get(self, request: Request, number: int) -> Response:
        """Read a version with all its settings; 0 is the defaults."""
        return _answered(number)


class RestorePolicy(View):
    """The way back."""

    @endpoint(
        answer=answers.Policy,
        status=201,
        least=PLATFORM_ADMIN,
        headers=SEEN,
        problems=(412, 413, 415, 422),
        tag="policies",
        operation="restore_policy",
    )
    def post(self, request: Request, number: int) -> Response:
        """Save a new version equal to this one; 0 is the defaults."""
        no_body(request)
        return _answered(policy.restore(number=number, author=self.actor, seen=_seen(request)), status=201)


class Simulations(View):
    """What-ifs."""

    @endpoint(
        answer=answers.SimulationList,
        least=PLATFORM_ADMIN,
        tag="simulations",
        operation="list_simulations",
        parameters=PAGE,
    )
    def get(self, request: Request) -> Response:
        """List what-ifs, newest first."""
        return self.listed_at_once(asked.every(), "-pk", asked.rows)

    @endpoint(
        answer=answers.SimulationRow,
        status=201,
        least=PLATFORM_ADMIN,
        body=requests.SimulationRequest,
        problems=(409, 413, 415),
        tag="simulations",
        operation="start_simulation",
    )
    def post(self, request: Request) -> Response:
        """Start a what-if in the background: replay stored rounds or a trace with what differs. Changes nothing."""
        asks: Any = request.data
        try:
            lab.read_question(asks)
        except lab.CannotBeAnsweredError as wrong:
            raise Faulty(list(wrong.errors)) from None
        row = simulations.start(asked=asks, author=self.actor)
        return Response(asked.row(row.pk), status=201, headers={"Location": f"/api/v1/simulations/{row.pk}"})


class Simulation(View):
    """One what-if."""

    @endpoint(answer=answers.SimulationRow, least=PLATFORM_ADMIN, tag="simulations", operation="read_simulation")
    def get(self, request: Request, number: int) -> Response:
        """Read how far a what-if is."""
        return Response(_simulation(number))

    @endpoint(status=204, least=PLATFORM_ADMIN, tag="simulations", operation="delete_simulation")
    def delete(self, request: Request, number: int) -> Response:
        """Delete a what-if; a running one stops."""
        no_body(request)
        if not simulations.remove(number=number):
            raise Http404
        return Response(status=204)


class ApplySimulation(View):
    """From a what-if to the policy."""

    @endpoint(
        answer=answers.Policy,
        status=201,
        least=PLATFORM_ADMIN,
        headers=SEEN,
        problems=(409, 412, 413, 415, 422),
        tag="simulations",
        operation="apply_simulation",
    )
    def post(self, request: Request, number: int) -> Response:
        """Save a new version of the policy with the settings that a what-if tried; its quotas and nodes stay tried."""
        no_body(request)
        return _answered(simulations.apply(number=number, author=self.actor, seen=_seen(request)), status=201)


class SimulationResults(View):
    """The answer."""

    @endpoint(
        answer=answers.SimulationResult,
        least=PLATFORM_ADMIN,
        problems=(409,),
        tag="simulations",
        operation="read_simulation_results",
    )
    def get(self, request: Request, number: int) -> Response:
        """Read what came of a what-if: figures per team, before, after and their difference."""
        row, found = _simulation(number), asked.result(number)
        if found is None:
            said = row["error"] or "It is still running: ask again when its state is Done."
            raise Refused(409, "NoResults", "", said)
        return Response(found)


def _answered(number: int, status: int = 200) -> Response:
    found = policies.row(number)
    if found is None:
        raise Http404
    return versioned({**found, "described": policies.described()}, number, status)


def _simulation(number: int) -> dict[str, Any]:
    found = asked.row(number)
    if found is None:
        raise Http404
    return found


def _seen(request: Request) -> int:
    wanted = if_match(request)
    return policy.ANY if wanted is None else wanted
