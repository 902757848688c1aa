"""What every endpoint declares, in one decorator: who may call it, its query parameters, its body and its answer.

A view method without it fails at import, so nothing is open by forgetting (docs/security.md, 8.1.1); the OpenAPI
document comes from the same words.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import exceptions
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.api import missing
from controlplane.api.errors import CONTENT_TYPE
from controlplane.api.pagination import DEFAULT_SIZE, MAX_SIZE, page, part
from controlplane.api.refusals import Faulty
from controlplane.api.renamed import with_old_names
from controlplane.api.serializers.problem import Problem
from controlplane.jobspec.shapes import BAD, Faults, FieldError, Flag, Items, Shape, Text, Whole, WholeOrWord, shown
from controlplane.queries.accounts import access

if TYPE_CHECKING:
    from controlplane.models import Team, User

Method = TypeVar("Method", bound=Callable[..., Any])
VERBS = ("get", "post", "put", "patch", "delete")
ANYONE, SIGNED_IN, PLATFORM_ADMIN = "anyone", "signed-in", "platform-admin"
WHOLE = "whole"  # signed in with all of one's rights: a limited token decides nothing that outlives it
PERSON = "person"  # the same, and no service account: who gives rights or credentials to others
SAFE = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter: its shape and a sentence."""

    name: str
    shape: Shape
    about: str
    default: Any = None


PAGE = (
    Parameter("cursor", Text(512), "Where the next page begins: from `next`."),
    Parameter("page_size", Whole(1, MAX_SIZE), "Rows on one page.", DEFAULT_SIZE),
)

VERSION = {"If-Match": "The ETag of the version that was seen; 412 if there is a newer one."}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What a view method declared."""

    least: str
    parameters: tuple[Parameter, ...]
    answer: Any = None


def endpoint(
    *,
    answer: Any = None,
    least: str = SIGNED_IN,
    status: int = 200,
    body: Any = None,
    parameters: Iterable[Parameter] = (),
    headers: Mapping[str, str] | None = None,
    problems: Iterable[int] = (),
    tag: str = "",
    operation: str = "",
    csv: bool = False,
    media: str = "",
) -> Callable[[Method], Method]:
    """Declare a view method. least is who may call it at all; roles in a team are checked on the object.

    csv: the answer may be a table instead, where a parameter asks for it. media: its media type where it is not JSON.
    """
    declared = Endpoint(least, tuple(parameters), answer)
    known = [400, 404, 406, 411, 429, 503, *([] if least == ANYONE else [401, 403]), *problems]
    given: dict[Any, Any] = {(status, media) if media else status: answer}
    if csv:
        given = {(status, "application/json"): answer, (status, "text/csv"): str}

    def declare(method: Method) -> Method:
        method.endpoint = declared  # type: ignore[attr-defined]
        sent = () if method.__name__ == "get" else (413, 415)  # a body is read, if only to refuse it
        codes = sorted({*known, *sent})
        refusals = {(code, CONTENT_TYPE): OpenApiResponse(Problem, _TITLES.get(code, "")) for code in codes}
        return extend_schema(
            operation_id=operation or None,
            tags=[tag] if tag else None,
            request=body,
            responses={**given, **refusals},
            parameters=[*map(_documented, declared.parameters), *(_header(*h) for h in (headers or {}).items())],
            auth=[] if least == ANYONE else None,
        )(method)

    return declare


class LengthRequired(exceptions.APIException):  # noqa: N818 - reads as the fact it is
    """A body of unknown length."""

    status_code = 411
    default_detail = "Send the body with Content-Length, not in chunks."


class Declared(BasePermission):
    """The permission that a method declared."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Whether the user may call this method at all."""
        declared = view.declared(request)
        if declared is None or declared.least == ANYONE:
            return True
        if not request.user.is_authenticated:
            return False
        if request.method not in SAFE and not access.may_write(request.user):
            raise PermissionDenied(
                "This token's scope is read, so it changes nothing. Use one of scope submit or admin."
            )
        if declared.least in (WHOLE, PERSON) and not access.is_whole(request.user):
            raise PermissionDenied(
                "This token is limited. Sign in, or use a token of scope admin that is bound to no team."
            )
        if declared.least == PERSON and not access.is_whole_person(request.user):
            raise PermissionDenied("A service account may not grant rights or tokens. Ask an admin of its team.")
        return declared.least in (SIGNED_IN, WHOLE, PERSON) or access.is_platform_admin(request.user)


class View(APIView):
    """A view whose methods are all declared; query parameters are read strictly into `self.given`."""

    permission_classes = [Declared]
    http_method_names = [*VERBS, "head"]  # not OPTIONS: the schema describes views
    given: dict[str, Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for verb in VERBS:
            method = cls.__dict__.get(verb)
            if method is not None and not hasattr(method, "endpoint"):
                raise TypeError(f"{cls.__name__}.{verb} declares no endpoint(...)")

    def declared(self, request: Request) -> Endpoint | None:
        """What the called method declared; None for one that does not exist (405 follows)."""
        method = getattr(self, str(request.method).lower(), None)
        return getattr(method, "endpoint", None)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Check who asks and what for, before anything is done."""
        if self.declared(request) is None:
            possible = " or ".join(name for name in self.allowed_methods if name != "HEAD")
            raise exceptions.MethodNotAllowed(
                str(request.method), f"{request.method} is not allowed here. Use {possible}."
            )
        if request.META.get("HTTP_TRANSFER_ENCODING") and not request.META.get("CONTENT_LENGTH"):
            raise LengthRequired  # the framework would take the body for empty
        super().initial(request, *args, **kwargs)
        declared = self.declared(request)
        self.given = query(request, declared.parameters if declared else ())

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Add the old names of renamed keys; keep answers out of shared caches: each is for one user."""
        declared = self.declared(request)
        if declared is not None and isinstance(response, Response) and response.status_code < 400:
            response.data = with_old_names(declared.answer, response.data)
        answer = super().finalize_response(request, response, *args, **kwargs)
        answer.headers.setdefault("Cache-Control", "no-store")
        return answer

    def may(self, verb: str, team: str, *, submitter: int | None = None) -> None:
        """Raise unless the user may do this in a team: 404 for a team not theirs, 403 for too low a role."""
        user = self.request.user
        if access.can(user, verb, team, submitter=submitter):
            return
        if not access.can(user, access.Verb.READ, team):
            raise Http404(missing.NO_TEAM)
        raise PermissionDenied(access.LOW_ROLE.format(team=team))

    def team(self, verb: str, name: str) -> "Team":
        """The team for one who may do this in it; else 404 or 403. A platform admin may, but of any name: 404 too."""
        self.may(verb, name)
        found = access.team_at(name)
        if found is None:
            raise Http404(missing.NO_TEAM)
        return found

    def listed(self, found: QuerySet[Any], order: str, row: Callable[[Any], dict[str, Any]]) -> Response:
        """The page asked for with PAGE, ordered by a unique column (- for descending), each as `row` shows it."""
        return self.listed_at_once(found, order, lambda shown: [row(one) for one in shown])

    def listed_at_once(
        self, found: QuerySet[Any], order: str, rows: Callable[[list[Any]], Iterable[dict[str, Any]]]
    ) -> Response:
        """The same, where a page's rows are shown together: with one query for all, or with the one before."""
        return Response(page(self.request, found, order=order, show=rows, size=self.given["page_size"]))

    def paged(self, rows: Iterable[dict[str, Any]], *names: str) -> Response:
        """The page asked for of rows in memory, ordered by these fields."""
        size = self.given["page_size"]
        return Response(part(self.request, rows, lambda row: "/".join(str(row[name]) for name in names), size))

    @property
    def caller(self) -> "User":
        """The user, where the method is not for anyone."""
        return self.request.user  # type: ignore[return-value]

    @property
    def actor(self) -> str:
        """The name that events carry."""
        return self.caller.username


def query(request: Request, parameters: Iterable[Parameter]) -> dict[str, Any]:
    """The query parameters by their shapes; an unknown, doubled or wrong one is a 400 that names it."""
    known = {parameter.name: parameter for parameter in parameters}
    faults = Faults()
    for name in request.GET:
        if name not in known:
            listed = f"Use {', '.join(known)}." if known else "There are no parameters here."
            faults.add(shown(name)[1:-1], f"{shown(name)[1:-1]} is not a parameter here. {listed}")
        elif len(request.GET.getlist(name)) > 1:
            faults.add(name, f"{name} is given twice. Give it once.")
    out = {}
    for name, parameter in known.items():
        text = request.GET.get(name)
        out[name] = parameter.default if text is None else parameter.shape.read(_typed(text, parameter), name, faults)
    if faults.errors or BAD in out.values():
        raise Faulty(faults.errors)
    return out


def refuse(field: str, message: str) -> NoReturn:
    """Refuse a request for one field."""
    raise Faulty([FieldError(field, message)])


def no_body(request: Request) -> None:
    """Refuse a body where none is expected; `{}` will do."""
    if request.META.get("CONTENT_LENGTH") not in (None, "", "0") and request.data != {}:
        refuse("", "This address takes no body. Send none.")


def if_match(request: Request) -> int | None:
    """The version of If-Match; None without the header."""
    text = request.META.get("HTTP_IF_MATCH", "").strip()
    if not text:
        return None
    version = text.removeprefix("W/").strip('"')
    if not (version.isascii() and version.isdigit() and len(version) < 10):
        refuse("If-Match", 'If-Match is not a valid ETag. Send the one of the last answer, such as "3".')
    return int(version)


def etag(version: int) -> str:
    """The ETag of a version, as `if_match` reads it."""
    return f'"{version}"'


def versioned(row: Any, version: int, status: int = 200) -> Response:
    """The answer of something that If-Match may name later."""
    return Response(row, status=status, headers={"ETag": etag(version)})


def _typed(text: str, parameter: Parameter) -> Any:
    """Query parameters are text; numbers, flags and lists are written out in it."""
    shape = parameter.shape
    if isinstance(shape, Whole | WholeOrWord) and text.removeprefix("-").isascii() and text.removeprefix("-").isdigit():
        return int(text) if len(text) < 20 else text
    if isinstance(shape, Flag) and text in ("true", "false"):
        return text == "true"
    if isinstance(shape, Items):
        return text.split(",")
    return text


def _documented(parameter: Parameter) -> OpenApiParameter:
    shape = parameter.shape
    schema = shape.schema()
    if isinstance(shape, Items):  # a comma list in one parameter
        return OpenApiParameter(parameter.name, schema, description=parameter.about, style="form", explode=False)
    return OpenApiParameter(parameter.name, schema, description=parameter.about, default=parameter.default)


def _header(name: str, about: str) -> OpenApiParameter:
    return OpenApiParameter(name, str, OpenApiParameter.HEADER, description=about)


_TITLES = {
    400: "The request is invalid; every error is named.",
    401: "Sign in first.",
    403: "Your role does not allow this.",
    404: "It does not exist, or you may not see it.",
    406: "Only JSON is available.",
    409: "The current state does not allow this.",
    410: "It is gone; the detail says how to continue.",
    411: "Content-Length is missing.",
    412: "It has changed since the version in If-Match.",
    413: "The body is too large.",
    415: "Send application/json.",
    422: "Well-formed, but it can never be done.",
    429: "Too many requests; see Retry-After.",
    503: "A component does not answer; see Retry-After.",
}
