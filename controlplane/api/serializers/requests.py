"""Request bodies: each is a table of shapes, read strictly; its OpenAPI schema is the same table's."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.plumbing import ResolvedComponent
from rest_framework import serializers as s

from controlplane import jobfile, spec
from controlplane.api.refusals import Faulty
from controlplane.policyfields import PARTS, known_fields
from controlplane.quantities import seconds
from controlplane.queries import lab
from controlplane.shapes import BAD, REQUIRED, Document, Faults, Field, Flag, Quantity, Record, Schema, Text, Whole

YEAR = 365 * 86_400.0
ONE_LINE = r"[^\x00-\x1f\x7f]+"
MOST_MILLI = 10**9  # a million GPUs
MOST_HOURS = 10**9


def _settings_of(part: str) -> Schema:
    """The JSON schema of one part of a policy."""
    words = {int: "integer", float: "number", bool: "boolean"}
    properties: dict[str, Any] = {}
    for one in (f for f in known_fields() if f.part == part):
        properties[one.name] = {"type": words.get(one.kind, "string"), "description": one.about}
        if one.choices:
            properties[one.name]["enum"] = list(one.allowed(in_force=True))
        elif one.kind in (int, float):
            properties[one.name] |= {"minimum": one.least, "maximum": one.most}
    return {"properties": properties, "additionalProperties": False}


LOGIN = Record(
    (
        Field("username", Text(150, ONE_LINE), "The user's name.", REQUIRED),
        Field("password", Text(1024), "The user's password.", REQUIRED),
        Field("name", Text(80, ONE_LINE), "What the token is for.", "cli"),
    )
)
TOKEN = Record(
    (
        Field("name", Text(80, ONE_LINE), "What the token is for.", REQUIRED),
        Field(
            "expires_in",
            Quantity(seconds, 60.0, YEAR, '"90d"', ("1m", "365d")),
            "How long it lives, at most 365d.",
            "90d",
        ),
    )
)
QUOTA = Record(
    (
        Field("nominal_milli", Whole(0, MOST_MILLI), "milli-GPU owned; 1000 = one GPU.", REQUIRED),
        Field("borrowing_limit_milli", Whole(0, MOST_MILLI, True), "milli-GPU it may borrow; null = no limit."),
        Field("lending_limit_milli", Whole(0, MOST_MILLI, True), "milli-GPU others may borrow; null = all."),
        Field("weight", Whole(1, 10_000), "Its part in what is over, against other borrowers'.", 1),
    )
)
BUDGET = Record(
    (
        Field("gpu_hours", Whole(1, MOST_HOURS), "GPU hours in each period.", REQUIRED),
        Field("is_hard", Flag(), "Once used up nothing new starts; else it is only told.", False),
    )
)
QUOTA_PARTS = Record(tuple(replace(f, default=None) for f in QUOTA.fields))
POLICY = Record(
    (
        *(Field(part, Document(dict, _settings_of(part)), f"Settings of {part} that change.", None) for part in PARTS),
        Field("comment", Text(200, may_be_empty=True), "Why, in one line.", ""),
    )
)
CHANGES = Record(
    tuple(
        {f.name: f for record in jobfile.RECORDS.values() for f in record.fields}[name]
        for name in ("priority_class", "workers", "replicas", "expected_duration", "max_duration", "labels")
    )
)
MOST_IN_BATCH = 100


def read(record: Record, body: Any) -> dict[str, Any]:
    """The body by its table. Raises Faulty with every fault."""
    faults = Faults()
    values = record.read(body, "", faults)
    if faults.errors or values is BAD:
        raise Faulty(faults.errors)
    return dict(values)


def read_batch(body: Any) -> list[spec.Spec]:
    """The job files of a list; the faults of all of them, each field with its place in the list."""
    if not isinstance(body, list) or not 0 < len(body) <= MOST_IN_BATCH:
        raise Faulty([spec.FieldError("", f"Send a list of 1 to {MOST_IN_BATCH} job files.")])
    found, faults = [], []
    for i, one in enumerate(body):
        try:
            found.append(spec.parse(one))
        except spec.SpecError as error:
            faults += [spec.FieldError(f"{i}.{e.field}".rstrip("."), e.message) for e in error.errors]
    if faults:
        raise spec.SpecError(faults)
    return found


class JobFile(s.Serializer[object]):
    """A job file: training, notebook or inference."""


class JobFiles(s.Serializer[object]):
    """Several job files, all or none."""


class Changes(s.Serializer[object]):
    """What may change after the submission."""


class Login(s.Serializer[object]):
    """A user's name and password."""


class TokenRequest(s.Serializer[object]):
    """A token to be made."""


class QuotaRequest(s.Serializer[object]):
    """A quota, whole."""


class BudgetRequest(s.Serializer[object]):
    """A budget, whole."""


class PolicyRequest(s.Serializer[object]):
    """Settings of a new version; what is left out stays as in force."""


class SimulationRequest(s.Serializer[object]):
    """A what-if."""


class QuotaChanges(s.Serializer[object]):
    """Parts of a quota."""


def _changes() -> Schema:
    schema = CHANGES.schema()
    for name in ("workers", "replicas"):
        schema["properties"][name].pop("required", None)
    for one in schema["properties"].values():
        one.pop("default", None)
    return schema


class _FromTable(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """The component of a body that a table describes."""

    target_class = s.Serializer
    match_subclasses = True
    priority = 1

    @classmethod
    def _matches(cls, target: Any) -> bool:
        kind = target if isinstance(target, type) else type(target)
        return kind in _SCHEMAS

    def map_serializer(self, auto_schema: Any, direction: Any) -> Schema:
        """Return the schema of the table."""
        if isinstance(self.target, JobFile):
            return self._job_file(auto_schema)
        if isinstance(self.target, JobFiles):
            one = auto_schema._map_serializer(JobFile(), direction)
            return {"type": "array", "items": one, "minItems": 1, "maxItems": MOST_IN_BATCH}
        return dict(_SCHEMAS[type(self.target)]())

    def _job_file(self, auto_schema: Any) -> Schema:
        refs = {}
        for kind, schema in spec.schemas().items():
            component = ResolvedComponent(  # type: ignore[no-untyped-call]
                name=f"{kind.capitalize()}JobFile", type=ResolvedComponent.SCHEMA, schema=schema, object=kind
            )
            auto_schema.registry.register_on_missing(component)
            refs[kind] = component.ref["$ref"]
        return {
            "oneOf": [{"$ref": ref} for ref in refs.values()],
            "discriminator": {"propertyName": "type", "mapping": refs},
        }


_SCHEMAS: dict[type, Callable[[], Schema]] = {
    JobFile: dict,
    JobFiles: dict,
    Changes: _changes,
    Login: LOGIN.schema,
    TokenRequest: TOKEN.schema,
    QuotaRequest: QUOTA.schema,
    QuotaChanges: QUOTA_PARTS.schema,
    BudgetRequest: BUDGET.schema,
    PolicyRequest: POLICY.schema,
    SimulationRequest: lab.REQUEST.schema,
}
