"""Job files, and the Workload objects of Kubernetes that stand for them: what this program has to know of either."""

from collections.abc import Mapping
from typing import Any

Body = Mapping[str, Any]


def is_object(body: Body) -> bool:
    """Whether this is an object as kubectl takes it."""
    return "apiVersion" in body or "metadata" in body


def job_of(body: Body) -> Body:
    """The fields of the job: the file's own, or the object's spec."""
    return _within(body, "spec") if is_object(body) else body


def type_of(body: Body) -> Any:
    """Its type, as it is written."""
    return job_of(body).get("type")


def name_of(body: Body) -> Any:
    """Its name, as it is written."""
    return (_within(body, "metadata") if is_object(body) else body).get("name")


def place_of(body: Body) -> Any:
    """Its team, or where an object lies: its namespace."""
    return body.get("team") or (_within(body, "metadata").get("namespace") if is_object(body) else None)


def is_same_team(one: Body, other: Body) -> bool:
    """Whether both are one team's, as far as that can be seen here: of a namespace only the server knows the prefix."""
    places = sorted((str(place_of(one)), str(place_of(other))), key=len)
    return places[0] == places[1] or (_lies(one) != _lies(other) and places[1].endswith(f"-{places[0]}"))


def names_team(body: Body) -> bool:
    """Whether it says which team's it is."""
    return "team" in body or (is_object(body) and "namespace" in _within(body, "metadata"))


def path_of(body: Body) -> str:
    """Its team (an object: its namespace) and name, to be shown."""
    return f"{place_of(body) or ''}/{name_of(body) or ''}"


def with_after(body: Body, after: list[Any]) -> dict[str, Any]:
    """The same job, starting after these."""
    return {**body, "spec": {**job_of(body), "after": after}} if is_object(body) else {**body, "after": after}


def _lies(body: Body) -> bool:
    return is_object(body) and not body.get("team")


def _within(body: Body, part: str) -> Body:
    found = body.get(part)
    return found if isinstance(found, Mapping) else {}
