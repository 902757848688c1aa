"""The members of a gang by rank, as a job file has them: role members first, role by role, then the workers.

The same rule as `scheduler.model.workload.Workload.role_of`, on the stored document, for adapters and pages.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from scheduler.model.workload import MAIN_ROLE

Document = Mapping[str, Any]

_OWN = ("image", "command", "args", "resources")  # what a role may say in place of the workers' own


def roles(document: Document) -> Sequence[Document]:
    """The roles of a job file: pod sets beside the workers."""
    found = document.get("roles")
    return [role for role in found if isinstance(role, Mapping)] if isinstance(found, list | tuple) else []


def counted(document: Document, values: Iterable[Any]) -> Document:
    """The job file with as many members of each role as its row has (podsets.py): Weft may have changed these."""
    counts = {name: count for name, count, _ in values}
    found = [{**role, "count": counts.get(str(role["name"]), _count(role))} for role in roles(document)]
    is_same = all(one["count"] == _count(role) for one, role in zip(found, roles(document), strict=True))
    return document if is_same else {**document, "roles": found}


def role_members(document: Document) -> int:
    """How many members the roles have: the rank of the first worker."""
    return sum(_count(role) for role in roles(document))


def role_of(document: Document, rank: int) -> tuple[str, int]:
    """The role of the member with this rank, and its number within the role."""
    for role in roles(document):
        if rank < _count(role):
            return str(role["name"]), rank
        rank -= _count(role)
    return MAIN_ROLE, rank


def ranks(document: Document) -> Iterator[tuple[str, range]]:
    """Each role with the ranks of its members."""
    first = 0
    for role in roles(document):
        yield str(role["name"]), range(first, first + _count(role))
        first += _count(role)


def of_rank(document: Document, rank: int) -> Document:
    """The job file as it holds for the member with this rank: what its role says goes before what the workers' says.

    A role with a command of its own gets no arguments of the workers'; variables are those of both.
    """
    number = next((i for i, (_, own) in enumerate(ranks(document)) if rank in own), None)
    if number is None:
        return document
    role = roles(document)[number]
    own = {name: role[name] for name in _OWN if name in role}
    if "command" in role and "args" not in role:
        own["args"] = None
    if "env" in role:
        own["env"] = {**(document.get("env") or {}), **role["env"]}
    normalised = document.get("normalised")
    if isinstance(normalised, Mapping):
        own["normalised"] = {**normalised, **normalised["roles"][number]}
    return {**document, **own}


def _count(role: Document) -> int:
    return int(role.get("count") or 1)
