"""The request bodies of one action on several workloads and of a way back, and how they are read."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from rest_framework import serializers as s

from controlplane.api.refusals import Faulty
from controlplane.jobspec.shapes import BAD, REQUIRED, Choice, Faults, Field, Items, Record, Schema, Text, Whole
from controlplane.services.workloads.bulkactions import MAX, PRIORITY, VERBS

UID = Text(36, r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", "Give the uid of a workload.")
CLASS = "priority_class"
_ABOUT = f"With verb {PRIORITY}, and only then: the name of the class; null for the default one."
ACTION = Record(
    (
        Field("verb", Choice(VERBS), "What to do.", REQUIRED),
        Field("uids", Items(UID, MAX, is_unique=True), "With which workloads.", REQUIRED),
        Field(CLASS, Text(253, r"[^\x00-\x1f\x7f]+"), _ABOUT),
    )
)
UNDO = Record((Field("to", Whole(1, 2**31 - 1), "The revision to go back to; if absent, the one before.", None),))


@dataclass(frozen=True, slots=True)
class Asked:
    """One action on several workloads; priority_class None is the default one."""

    verb: str
    uids: tuple[UUID, ...]
    priority_class: str | None


def read_action(body: Any) -> Asked:
    """The body by its table. Raises Faulty with every fault."""
    faults = Faults()
    names_class = isinstance(body, dict) and CLASS in body
    if names_class and body[CLASS] is None:
        body = {name: value for name, value in body.items() if name != CLASS}
    values = ACTION.read(body, "", faults)
    if not faults.errors and not values["uids"]:
        faults.add("uids", f"uids is empty. Name 1 to {MAX} workloads.")
    if not faults.errors and names_class != (values["verb"] == PRIORITY):
        fix = f"{CLASS} is missing. Name a class, or give null for the default one."
        faults.add(CLASS, f"{CLASS} goes with verb {PRIORITY} only. Leave it out." if names_class else fix)
    if faults.errors or values is BAD:
        raise Faulty(faults.errors)
    return Asked(values["verb"], tuple(dict.fromkeys(map(UUID, values["uids"]))), values[CLASS])


def read_undo(body: Any) -> int | None:
    """Which revision to go back to; an empty body stands for the one before. Raises Faulty with every fault."""
    faults = Faults()
    values = UNDO.read(body or {}, "", faults)
    if faults.errors or values is BAD:
        raise Faulty(faults.errors)
    to: int | None = values["to"]
    return to


class Undo(s.Serializer[object]):
    """The way back to a revision of a service."""


class ActionRequest(s.Serializer[object]):
    """One action on several workloads."""


def _schema() -> Schema:
    schema = ACTION.schema()
    schema["properties"]["uids"]["minItems"] = 1
    schema["properties"][CLASS]["type"] = ["string", "null"]
    return schema


SCHEMAS: dict[type, Callable[[], Schema]] = {ActionRequest: _schema}
