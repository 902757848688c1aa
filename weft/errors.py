"""What can go wrong between a client and the server, as exceptions that carry the server's words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldError:
    """One fault of a request: the field (dotted; empty = the whole request) and a sentence with the fix."""

    field: str
    message: str


Where = Callable[[str], tuple[str, str]]  # a field -> file:line and the field's own name


class WeftError(Exception):
    """A request that the server refused, or that got no usable answer.

    status is the HTTP status, 0 where there was no answer; title, detail, code and errors are those of the problem
    document (RFC 9457); retry_after is in seconds.
    """

    def __init__(
        self,
        title: str,
        *,
        status: int = 0,
        detail: str = "",
        code: str = "",
        errors: Sequence[FieldError] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(detail or title)
        self.status = status
        self.title = title
        self.detail = detail
        self.code = code
        self.errors = tuple(errors)
        self.retry_after = retry_after
        self.where: Where | None = None  # set where the request came from a file

    def prefix(self, number: str) -> None:
        """Say which of several jobs this is about, as a batch does."""
        self.errors = tuple(FieldError(f"{number}.{one.field}".rstrip("."), one.message) for one in self.errors)

    @classmethod
    def of_problem(
        cls, status: int, problem: Mapping[str, object], retry_after: float | None = None, reason: str = ""
    ) -> "WeftError":
        """Build the exception that fits a problem+json document."""
        given = problem.get("errors")
        errors = [
            FieldError(str(one.get("field") or ""), str(one.get("message") or ""))
            for one in (given if isinstance(given, list) else [])
            if isinstance(one, dict)
        ]
        kind = _BY_STATUS.get(status, WeftError)
        return kind(
            str(problem.get("title") or reason or f"HTTP {status}"),
            status=status,
            detail=str(problem.get("detail") or ""),
            code=_code(problem),
            errors=errors,
            retry_after=retry_after,
        )


class NotReachable(WeftError):  # noqa: N818 - reads as the fact it is
    """No answer: the server is down, the address wrong, or the network broken."""


class NotSignedIn(WeftError):  # noqa: N818
    """No token, or one that is unknown or has expired (401)."""


class NotFound(WeftError):  # noqa: N818
    """No such thing, or none that this user may see (404)."""


class Conflict(WeftError):  # noqa: N818
    """A live workload of the team has the name already, or its state does not allow the action (409)."""


class Outdated(Conflict):
    """It has changed since the version that was given (412): read it again."""


class WaitTimeout(WeftError):  # noqa: N818
    """What was waited for did not happen in time; the workload goes on."""


_BY_STATUS: dict[int, type[WeftError]] = {401: NotSignedIn, 404: NotFound, 409: Conflict, 412: Outdated}


def _code(problem: Mapping[str, object]) -> str:
    """Return the machine-readable reason: `code`, else the last part of the problem's type URI."""
    code = problem.get("code")
    if isinstance(code, str) and code:
        return code
    kind = problem.get("type")
    return kind.rstrip("/").rpartition("/")[2] if isinstance(kind, str) and kind != "about:blank" else ""
