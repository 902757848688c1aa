"""Templates to submit from, saved views, and search."""

from typing import Any
from urllib.parse import parse_qsl

from django.core.exceptions import PermissionDenied
from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.endpoint import PAGE, VERSION, Parameter, View, endpoint, if_match, no_body, versioned
from controlplane.api.serializers import personal as answers
from controlplane.api.serializers import requests
from controlplane.api.serializers.workloads import KINDS
from controlplane.jobspec import jobfile
from controlplane.jobspec.shapes import Choice, Text
from controlplane.queries.accounts import access, personal
from controlplane.queries.accounts.access import Verb
from controlplane.queries.workloads import search
from controlplane.services.accounts import savedviews
from controlplane.services.errors import Refused
from controlplane.services.workloads import templates

TAG = "templates"


class Templates(View):
    """All templates."""

    @endpoint(
        answer=answers.TemplateList,
        tag=TAG,
        operation="list_templates",
        parameters=(
            Parameter("team", jobfile.TEAM, "Of this team."),
            Parameter("type", Choice(tuple(KINDS)), "Of this type."),
            *PAGE,
        ),
    )
    def get(self, request: Request) -> Response:
        """List the platform's templates and those of your teams, newest first."""
        found = personal.templates(request.user, team=self.given["team"], kind=self.given["type"])
        return self.listed(found, "-pk", personal.template_row)

    @endpoint(
        answer=answers.Template,
        status=201,
        body=requests.TemplateRequest,
        problems=(409, 413, 415),
        tag=TAG,
        operation="save_template",
    )
    def post(self, request: Request) -> Response:
        """Keep a job file for your team, or as a platform admin for all teams."""
        body = request.data
        if isinstance(body, dict) and body.get("team", "") is None:  # as an answer has it
            body = {name: value for name, value in body.items() if name != "team"}
        given = requests.read_body(requests.TEMPLATE, body)
        team = None
        if given["team"] is not None:
            team = self.team(Verb.SUBMIT, given["team"])
        elif not access.is_platform_admin(request.user):
            raise PermissionDenied("A template without a team is for all teams. Name one of your teams.")
        made = templates.create(team=team, name=given["name"], about=given["about"], job=given["job"], user=self.caller)
        return versioned(personal.template_row(made), made.version, 201)


class Template(View):
    """One template."""

    @endpoint(answer=answers.Template, tag=TAG, operation="read_template")
    def get(self, request: Request, number: int) -> Response:
        """Read a template."""
        found = self.one(number)
        return versioned(personal.template_row(found), found.version)

    @endpoint(
        answer=answers.Template,
        body=requests.TemplateChanges,
        headers=VERSION,
        problems=(412, 413, 415),
        tag=TAG,
        operation="change_template",
    )
    def put(self, request: Request, number: int) -> Response:
        """Replace what a template says: its author, the team's admins."""
        given = requests.read_body(requests.TEMPLATE_CHANGES, request.data)
        found = self.mine(number)
        made = templates.change(
            template=found, about=given["about"], job=given["job"], version=if_match(request), actor=self.actor
        )
        return versioned(personal.template_row(made), made.version)

    @endpoint(status=204, tag=TAG, operation="remove_template")
    def delete(self, request: Request, number: int) -> Response:
        """Forget a template: its author, the team's admins."""
        no_body(request)
        templates.remove(template=self.mine(number), actor=self.actor)
        return Response(status=204)

    def one(self, number: int) -> Any:
        """The template, if the caller may see it."""
        found = personal.template(self.request.user, number)
        if found is None:
            raise Http404
        return found

    def mine(self, number: int) -> Any:
        """The template, if the caller may change it."""
        found = self.one(number)
        if not personal.may_change(self.request.user, found):
            raise PermissionDenied("Only its author and admins of its team change a template. Save one of your own.")
        return found


class SavedViews(View):
    """The caller's saved views."""

    @endpoint(answer=answers.SavedViewList, tag="views", operation="list_views", parameters=PAGE)
    def get(self, request: Request) -> Response:
        """List your saved lists of workloads."""
        return self.listed(personal.views(self.caller), "-pk", personal.view_row)

    @endpoint(
        answer=answers.SavedView,
        status=201,
        body=requests.SavedViewRequest,
        problems=(409, 413, 415, 422),
        tag="views",
        operation="save_view",
    )
    def post(self, request: Request) -> Response:
        """Keep a list of workloads under a name; one of the same name is replaced."""
        given = requests.read_body(requests.SAVED_VIEW, request.data)
        made = savedviews.save(user=self.caller, name=given["name"], given=_filters(given["query"]))
        return Response(personal.view_row(made), status=201)


class SavedView(View):
    """One of them."""

    @endpoint(status=204, tag="views", operation="remove_view")
    def delete(self, request: Request, number: int) -> Response:
        """Forget a saved view."""
        no_body(request)
        if not savedviews.remove(user=self.caller, number=number):
            raise Http404
        return Response(status=204)


class Search(View):
    """Everything by its name."""

    @endpoint(
        answer=answers.Hits,
        tag="search",
        operation="search",
        parameters=(Parameter("q", Text(search.LONGEST), "A part of a name, team/name or a uid.", ""),),
    )
    def get(self, request: Request) -> Response:
        """Find workloads of your teams, your teams, and nodes, by a part of their name."""
        return Response({"results": search.rows(search.find(request.user, self.given["q"]))})


def _filters(query: str) -> dict[str, str]:
    """The parameters of an address; one given twice is refused, as the page would read only one of them."""
    pairs = parse_qsl(query.removeprefix("?"), keep_blank_values=True)
    if len({name for name, _ in pairs}) < len(pairs):
        raise Refused(422, "BadQuery", "query", "A filter is given twice. Give it once.")
    return dict(pairs)
