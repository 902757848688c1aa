"""The two CustomResourceDefinitions, made from the tables of the job file and of teams. Pure."""

import json
from typing import Any

from controlplane.jobspec import jobfile
from controlplane.jobspec.shapes import REQUIRED, Field
from controlplane.kubeobjects import rules, schema
from controlplane.kubeobjects.names import GROUP, TEAM, TEAMS, VERSION, WORKLOAD, WORKLOADS, camel
from controlplane.kubeobjects.teamfile import TEAM_FILE
from scheduler.model.workload import Kind

Json = dict[str, Any]
SUSPEND = "suspend"  # the one field that a job file has not
_IN_METADATA = ("name", "team")  # metadata.name; the namespace is the team's


def fields() -> tuple[Field, ...]:
    """Every field that a Workload's spec may have: of all types, but for what its metadata says."""
    # Services last: a share of theirs has more fields than others, and in the schema all types are one.
    found = {f.name: f for kind in (*Kind, Kind.INFERENCE) for f in jobfile.RECORDS[kind].fields}
    return tuple(f for f in found.values() if f.name not in _IN_METADATA)


def definitions() -> list[Json]:
    """Both, as `kubectl apply` takes them."""
    made: list[Json] = json.loads(json.dumps([_workloads(), _teams()]))  # parts are shared no more: YAML names those
    return made


def _workloads() -> Json:
    own = {f.name for kind in Kind for f in jobfile.OWN[kind]}
    needed = [camel(f.name) for f in fields() if f.default is REQUIRED and f.name not in own]
    properties = {camel(f.name): schema.field(f) for f in fields()}
    properties[SUSPEND] = {
        "type": "boolean",
        "description": "Take it off the machines (its checkpoint is kept) or out of the queue, until false again.",
    }
    spec = {
        "type": "object",
        "description": "The job file (docs/job-file.md) without name and team, which are the object's own.",
        "properties": properties,
        "required": needed,
        "x-kubernetes-validations": rules.of_kinds(),
    }
    name = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 63, "minLength": 1}},
    }
    columns = (
        _column("Type", ".spec.type"),
        _column("Phase", ".status.phase"),
        _column("Standing", ".status.conditions[?(@.type=='ObjectiveMet')].reason"),
        _column("Reason", ".status.reason"),
        _column("GPUs", ".status.gpus"),
        _column("Workers", ".status.workers"),
        _column("Age", ".metadata.creationTimestamp", kind="date"),
        _column("Priority", ".spec.priorityClass", is_wide=True),
        _column("Accepted", ".status.conditions[?(@.type=='Accepted')].status", is_wide=True),
        _column("Message", ".status.message", is_wide=True),
    )
    status = {
        "phase": _text("As in docs/lifecycle.md; empty while it is not accepted."),
        "reason": _text("Why it is in this phase, a code."),
        "message": _text("The same as a sentence."),
        "gpus": _text("GPUs of all workers together."),
        "workers": _text("Workers that run, and how many are wanted."),
        "attempt": {"type": "integer", "format": "int64"},
        "exitCode": {"type": "integer", "format": "int64"},
        **{name: {"type": "string", "format": "date-time"} for name in ("submittedAt", "startedAt", "endedAt")},
    }
    found = _definition(WORKLOAD, WORKLOADS, "Namespaced", (name, spec, status), columns)
    found["spec"]["names"]["categories"] = ["weft"]  # not of teams: who may see a team's work seldom sees all teams
    found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = rules.of_changes()
    return found


def _teams() -> Json:
    columns = (
        _column("Parent", ".spec.parent"),
        _column("Accepted", ".status.conditions[?(@.type=='Accepted')].status"),
        _column("Reason", ".status.conditions[?(@.type=='Accepted')].reason"),
        _column("Namespace", ".status.namespace"),
        _column("Age", ".metadata.creationTimestamp", kind="date"),
        _column("Message", ".status.conditions[?(@.type=='Accepted')].message", is_wide=True),
    )
    spec = schema.record(TEAM_FILE)
    spec["properties"]["quotas"] |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["pool"]}
    name = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 40, "minLength": 1}}}
    status = {"namespace": _text("Where its workloads lie.")}
    return _definition(TEAM, TEAMS, "Cluster", (name, spec, status), columns)


def _definition(kind: str, plural: str, scope: str, parts: tuple[Json, Json, Json], columns: tuple[Json, ...]) -> Json:
    meta, spec, status = parts
    names = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": plural,
        "singular": kind.lower(),
    }
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": list(columns),
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "required": ["spec"],
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "metadata": meta,
                    "spec": spec,
                    "status": {"type": "object", "properties": {**_CONDITIONS, **status}},
                },
            }
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}", "labels": {"app.kubernetes.io/part-of": "weft"}},
        "spec": {"group": GROUP, "scope": scope, "names": names, "versions": [version]},
    }


def _column(name: str, path: str, kind: str = "string", *, is_wide: bool = False) -> Json:
    return {"name": name, "type": kind, "jsonPath": path} | ({"priority": 1} if is_wide else {})


def _text(about: str) -> Json:
    return {"type": "string", "description": about}


_CONDITIONS: Json = {
    "observedGeneration": {"type": "integer", "format": "int64"},
    "conditions": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "reason", "lastTransitionTime"],
            "properties": {
                "type": {"type": "string"},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "reason": {"type": "string"},
                "message": {"type": "string"},
                "observedGeneration": {"type": "integer", "format": "int64"},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
            },
        },
    },
}
