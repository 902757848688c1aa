"""Cursor pages over a unique column: constant work however far one reads, and stable while rows come and go."""

import base64
import json
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpRequest

from controlplane.api.refusals import Faulty
from controlplane.jobspec.shapes import FieldError

DEFAULT_SIZE = 50
MAX_SIZE = 200

Value = TypeVar("Value", int, str)


def page(
    request: HttpRequest,
    rows: QuerySet[Any],
    *,
    order: str,
    show: Callable[[list[Any]], Iterable[dict[str, Any]]],
    size: int = DEFAULT_SIZE,
) -> dict[str, Any]:
    """Return `{"next", "results"}`. order is a unique column, with a leading - for descending."""
    column = order.removeprefix("-")
    after = request.GET.get("cursor")
    if after is not None:
        way = "lt" if order.startswith("-") else "gt"
        rows = rows.filter(**{f"{column}__{way}": _decoded(after, order, int)})
    found = list(rows.order_by(order)[: size + 1])
    following = _next(request, order, getattr(found[size - 1], column)) if len(found) > size else None
    return {"next": following, "results": list(show(found[:size]))}


def part(
    request: HttpRequest, rows: Iterable[dict[str, Any]], key: Callable[[dict[str, Any]], str], size: int
) -> dict[str, Any]:
    """The same of rows in memory, ordered by a key that stays when others come and go."""
    every = sorted(rows, key=key)
    after = request.GET.get("cursor")
    first = 0 if after is None else bisect_right(every, _decoded(after, "key", str), key=key)
    shown = every[first : first + size]
    following = _next(request, "key", key(shown[-1])) if first + size < len(every) else None
    return {"next": following, "results": shown}


def _next(request: HttpRequest, order: str, last: Any) -> str:
    cursor = base64.urlsafe_b64encode(json.dumps([order, last]).encode()).decode().rstrip("=")
    query = {**request.GET.dict(), "cursor": cursor}
    return f"{request.build_absolute_uri(request.path)}?{urlencode(query)}"


def _decoded(cursor: str, order: str, kind: type[Value]) -> Value:
    """The value a cursor stands at; it must be ours and of the same order."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        given, last = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, TypeError, RecursionError):
        given, last = "", None
    if given == order and isinstance(last, kind) and not isinstance(last, bool):
        value: Value = last
        if isinstance(value, str) or 0 <= value < 2**63:
            return value
    message = "cursor does not belong to this list. Take it from `next` of the page before, or leave it out."
    raise Faulty([FieldError("cursor", message)])
