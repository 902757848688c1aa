"""Request bodies: each is a table of shapes, read strictly; its OpenAPI schema is the same table's."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.plumbing import ResolvedComponent
from rest_framework import serializers as s

from controlplane.api.refusals import Faulty
from controlplane.api.serializers import acting, sharing, telling
from controlplane.api.serializers.submitted import MAX_IN_BATCH
from controlplane.api.serializers.suggestionbody import REMEDY
from controlplane.domain.policyfields import OLD_NAMES, PARTS, known_fields
from controlplane.domain.quotavalues import QUOTA_FIELDS
from controlplane.jobspec import jobfile, spec
from controlplane.jobspec.oldnames import deprecated
from controlplane.jobspec.quantities import seconds
from controlplane.jobspec.shapes import (
    BAD,
    REQUIRED,
    Choice,
    Document,
    Faults,
    Field,
    Flag,
    Quantity,
    Record,
    Schema,
    Text,
    Whole,
)
from controlplane.kubeobjects import jobs
from controlplane.queries.accounts import access
from controlplane.queries.scheduling import lab
from controlplane.services.accounts import savedviews
from controlplane.services.workloads import templates
from scheduler.explain.change import ChangeKind
from scheduler.explain.change import Choice as Named
from scheduler.model.workload import Kind

_NAMES = {"type": "array", "items": {"type": "string"}}
CELLS: dict[str, Any] = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "properties": {"pools": _NAMES, "racks": _NAMES},
        "additionalProperties": False,
    },
}
YEAR = 365 * 86_400.0
ONE_LINE = r"[^\x00-\x1f\x7f]+"
MAX_HOURS = 10**9


def _settings_of(part: str) -> Schema:
    """The JSON schema of one part of a policy."""
    words = {int: "integer", float: "number", bool: "boolean"}
    properties: dict[str, Any] = {}
    for one in (f for f in known_fields() if f.part == part):
        properties[one.name] = {"type": words.get(one.kind, "string"), "description": one.about}
        if one.is_cells:
            properties[one.name] |= CELLS
        if one.choices:
            properties[one.name]["enum"] = list(one.allowed(in_force=True))
        elif one.kind in (int, float):
            properties[one.name] |= {"minimum": one.least, "maximum": one.most}
    properties |= {was: deprecated(properties[name], name) for was, name in OLD_NAMES.get(part, {}).items()}
    return {"properties": properties, "additionalProperties": False}


TEAM = Text(40, r"[-a-zA-Z0-9_]+", "Give the name of a team.")
LOGIN = Record(
    (
        Field("username", Text(150, ONE_LINE), "The user's name.", REQUIRED),
        Field("password", Text(1024), "The user's password.", REQUIRED),
        Field("name", Text(80, ONE_LINE), "What the token is for.", "cli"),
        Field("code", Text(16, ONE_LINE), "From the authenticator app, for users with two-factor authentication."),
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
        Field(
            "scope", Choice(tuple(access.Scope.values)), "read, submit, or admin: all that its user may do.", "admin"
        ),
        Field("team", TEAM, "Of use only in this team and those below it."),
    )
)
MEMBER = Record((Field("role", Choice(tuple(access.Role.values)), "What they may do in the team.", REQUIRED),))
SERVICE_ACCOUNT = Record(
    (
        Field("team", TEAM, "The team that owns it.", REQUIRED),
        Field("name", Text(40, r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?", "Use a-z, 0-9 and -."), "Its name.", REQUIRED),
        Field("role", Choice(tuple(access.Role.values)), "What it may do in the team.", "member"),
    )
)
SERVICE_TOKEN = Record(tuple(replace(f, default="submit") if f.name == "scope" else f for f in TOKEN.fields[:3]))
GROUP_MAPPING = Record(
    (
        Field("group", Text(200, ONE_LINE), "The group, as the provider's groups claim has it.", REQUIRED),
        Field("team", TEAM, "The team.", REQUIRED),
        Field("role", Choice(tuple(access.Role.values)), "What the group may do there.", "member"),
    )
)
QUOTA = Record(QUOTA_FIELDS)
BUDGET = Record(
    (
        Field("gpu_hours", Whole(1, MAX_HOURS), "GPU hours in each period.", REQUIRED),
        Field("is_hard", Flag(), "Once used up nothing new starts; else it is only told.", False),
        Field("accept_used_up", Flag(), "Save it although as much is used already in the present period.", False),
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
        for name in (*spec.AMENDABLE, *spec.OF_SERVICES)
    )
)
_JOB = Field("job", Document(dict), "Fields of a job file, without name and team.", REQUIRED)
_ABOUT = Field("about", templates.ABOUT, "What it is for, in one line.", "")
TEMPLATE = Record(
    (
        Field("name", templates.NAME, "The name in the list.", REQUIRED),
        Field(
            "team",
            jobfile.TEAM,
            "The team that owns it; without it, it is for all teams, and only platform admins may save it.",
            None,
        ),
        _ABOUT,
        _JOB,
    )
)
TEMPLATE_CHANGES = Record((_ABOUT, _JOB))
SAVED_VIEW = Record(
    (
        Field("name", savedviews.NAME, "Its name.", REQUIRED),
        Field("query", Text(2000, may_be_empty=True), "As in the page's address: phase=waiting&sort=-priority", ""),
    )
)
PRIORITY = Record(
    (Field("priority_class", Text(253, ONE_LINE), "The name of the class; null for the default one.", REQUIRED),)
)
SCALE = Record(
    tuple(
        Field(name, Whole(1, jobfile.MAX_WORKERS), about)
        for name, about in (
            ("count", "Workers wanted, of a training."),
            ("min", "The least workers, or replicas of a service."),
            ("max", "The most workers, or replicas of a service."),
        )
    )
)


def read_body(record: Record, body: Any) -> dict[str, Any]:
    """The body by its table. Raises Faulty with every fault."""
    faults = Faults()
    values = record.read(body, "", faults)
    if faults.errors or values is BAD:
        raise Faulty(faults.errors)
    return dict(values)


def read_suggestion(body: Any) -> Named:
    """The change that a body names. Raises Faulty."""
    values = read_body(REMEDY, body)
    return Named(ChangeKind(values["kind"]), values["after"], values["target"], values["pool"])


def read_scale(kind: str, body: Any) -> dict[str, Any]:
    """The changes that a new size means for a workload of this kind: `workers` or `replicas` of its job file."""
    if not isinstance(body, dict) or not body:
        raise Faulty([spec.FieldError("", 'Send the size as an object, such as {"count": 4} or {"min": 1, "max": 6}.')])
    if kind == Kind.NOTEBOOK:
        raise Faulty([spec.FieldError("", "A notebook has one worker. Submit a training for more.")])
    if kind == Kind.INFERENCE and "count" in body:
        fix = "Set min and max, both to the same number for a fixed one."
        raise Faulty([spec.FieldError("count", f"count of a service is the autoscaler's, between min and max. {fix}")])
    return {"replicas" if kind == Kind.INFERENCE else "workers": body}


def read_priority(body: Any) -> dict[str, Any]:
    """The new priority class, as a change of the job file; null is the platform's default."""
    if isinstance(body, dict) and body == {"priority_class": None}:
        return dict(body)
    return read_body(PRIORITY, body)


class Scale(s.Serializer[object]):
    """How many workers or replicas; what is left out stays."""


class Priority(s.Serializer[object]):
    """Another priority class."""


class JobFile(s.Serializer[object]):
    """A job file: training, notebook or inference; or the Workload object of Kubernetes that stands for one."""


class JobFiles(s.Serializer[object]):
    """Several job files, all or none."""


class Changes(s.Serializer[object]):
    """What may change after the submission."""


class Login(s.Serializer[object]):
    """A user's name and password."""


class TokenRequest(s.Serializer[object]):
    """A token to be made."""


class MemberRequest(s.Serializer[object]):
    """A member's role."""


class ServiceAccountRequest(s.Serializer[object]):
    """A service account to be made."""


class ServiceTokenRequest(s.Serializer[object]):
    """A service account's token to be made."""


class GroupMappingRequest(s.Serializer[object]):
    """A group's role in a team."""


class QuotaRequest(s.Serializer[object]):
    """A quota, whole."""


class BudgetRequest(s.Serializer[object]):
    """A budget, whole."""


class PolicyRequest(s.Serializer[object]):
    """Settings of a new version; what is left out stays as it is."""


class SuggestionRequest(s.Serializer[object]):
    """One change that would start a waiting workload, as the explanation tells it."""


class SimulationRequest(s.Serializer[object]):
    """A what-if."""


class TemplateRequest(s.Serializer[object]):
    """A template, whole."""


class TemplateChanges(s.Serializer[object]):
    """What a template says anew."""


class SavedViewRequest(s.Serializer[object]):
    """A view to be saved."""


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
            return {"type": "array", "items": one, "minItems": 1, "maxItems": MAX_IN_BATCH}
        return dict(_SCHEMAS[type(self.target)]())

    def _job_file(self, auto_schema: Any) -> Schema:
        refs = {
            kind: _component(auto_schema, f"{kind.capitalize()}JobFile", schema)
            for kind, schema in spec.schemas().items()
        }
        files = {
            "oneOf": [{"$ref": ref} for ref in refs.values()],
            "discriminator": {"propertyName": "type", "mapping": refs},
        }
        return {"anyOf": [files, {"$ref": _component(auto_schema, "WorkloadObject", jobs.schema())}]}


def _component(auto_schema: Any, name: str, schema: Schema) -> str:
    """Where the document has this schema under this name."""
    component = ResolvedComponent(  # type: ignore[no-untyped-call]
        name=name, type=ResolvedComponent.SCHEMA, schema=schema, object=name
    )
    auto_schema.registry.register_on_missing(component)
    return str(component.ref["$ref"])


def _scale() -> Schema:
    return {**SCALE.schema(), "minProperties": 1}


def _priority() -> Schema:
    schema = PRIORITY.schema()
    schema["properties"]["priority_class"]["type"] = ["string", "null"]
    return schema


class TrainingFile(s.Serializer[object]):
    """A training's job file; the address says the type."""


class NotebookFile(s.Serializer[object]):
    """A notebook's job file; the address says the type."""


class InferenceFile(s.Serializer[object]):
    """A service's job file; the address says the type."""


BODY_OF = {Kind.TRAINING: TrainingFile, Kind.NOTEBOOK: NotebookFile, Kind.INFERENCE: InferenceFile}


def _of_kind(kind: Kind) -> Callable[[], Schema]:
    def schema() -> Schema:
        whole = spec.schemas()[kind.value]
        return {**whole, "required": [name for name in whole["required"] if name != "type"]}

    return schema


_SCHEMAS: dict[type, Callable[[], Schema]] = {
    JobFile: dict,
    JobFiles: dict,
    Changes: _changes,
    Scale: _scale,
    Priority: _priority,
    **{body: _of_kind(kind) for kind, body in BODY_OF.items()},
    Login: LOGIN.schema,
    TokenRequest: TOKEN.schema,
    MemberRequest: MEMBER.schema,
    ServiceAccountRequest: SERVICE_ACCOUNT.schema,
    ServiceTokenRequest: SERVICE_TOKEN.schema,
    GroupMappingRequest: GROUP_MAPPING.schema,
    QuotaRequest: QUOTA.schema,
    QuotaChanges: QUOTA_PARTS.schema,
    sharing.TeamChanges: sharing.TEAM_CHANGES.schema,
    sharing.NodePoolChanges: sharing.NODE_POOL.schema,
    BudgetRequest: BUDGET.schema,
    PolicyRequest: POLICY.schema,
    TemplateRequest: TEMPLATE.schema,
    TemplateChanges: TEMPLATE_CHANGES.schema,
    SavedViewRequest: SAVED_VIEW.schema,
    SuggestionRequest: REMEDY.schema,
    SimulationRequest: lab.REQUEST.schema,
    **acting.SCHEMAS,
    **telling.SCHEMAS,
}
