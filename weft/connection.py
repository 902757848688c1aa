"""A connection to one Weft server: what all methods of the SDK send and read with."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self, TypeVar
from urllib.parse import parse_qsl, quote, urlsplit

from weft.answers import Answer, Json
from weft.errors import WeftError
from weft.transport import Retries, Transport

A = TypeVar("A", bound=Answer)

PAGE = 200  # the largest the server gives
ALL = 2**63


class Connection:
    """A connection to one Weft server as one user. Use it in a `with`, or close() it."""

    def __init__(self, url: str, token: str = "", *, timeout: float = 30.0, retries: Retries | None = None) -> None:
        self._transport = Transport(url, token, timeout=timeout, retries=retries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    @property
    def url(self) -> str:
        """The server's address."""
        return self._transport.url

    def _pages(
        self,
        path: str,
        params: Mapping[str, Any],
        kind: type[A],
        limit: int | None = None,
        told: Callable[[Json], None] | None = None,
    ) -> Iterator[A]:
        """Yield all results of a list, page by page, at most `limit`. told: gets each page as it came."""
        left = limit if limit is not None else ALL
        query = dict(params)
        size = min(PAGE, left)
        while left > 0:
            page = the_object(self._transport.get(path, {**query, "page_size": size}))
            results = the_results(page, kind)
            if told is not None:
                told(page)
            yield from results[:left]
            left -= len(results)
            # Only the cursor is taken from the link: its host may be a proxy's inner name, and a token stays here.
            cursor = dict(parse_qsl(urlsplit(str(page.get("next") or "")).query)).get("cursor")
            if not cursor or not results:
                return
            query["cursor"] = cursor


def new_key() -> str:
    """Return a key under which a request counts once, however often it is sent."""
    return str(uuid.uuid4())


def part(text: str) -> str:
    """Return a text as one part of a path."""
    return quote(text, safe="")


def path_of(uid: str) -> str:
    """Return where the API has a workload."""
    return f"/workloads/{part(uid)}"


def the_object(answer: Any) -> Json:
    """Return an answer that has to be an object. Raises WeftError."""
    if not isinstance(answer, dict):
        raise WeftError(f"The server answered with {type(answer).__name__} where an object was expected.")
    return answer


def the_text(answer: Any) -> str:
    """Return an answer that has to be a text. Raises WeftError."""
    if not isinstance(answer, str):
        raise WeftError(f"The server answered with {type(answer).__name__} where a table was expected.")
    return answer


def the_results(answer: Any, kind: type[A]) -> tuple[A, ...]:
    """Return the entries of an answer that has to be a list. Raises WeftError."""
    results = the_object(answer).get("results")
    if not isinstance(results, list):
        raise WeftError("The server answered without the list that was expected.")
    return tuple(kind.of(one) for one in results)
