"""A custom resource to the job file that it is, and back, by one mechanical rule. Pure.

`metadata.name` is the name, `metadata.namespace` the team's, `spec` the rest in camelCase. Names that people choose (of
variables, labels, devices) stay as they are. What is not of the right type stays as well: reading it says so.
"""

from collections.abc import Mapping
from typing import Any

from controlplane.domain import addresses
from controlplane.jobspec.named import Named
from controlplane.jobspec.shapes import Field, Items, Record, Shape
from controlplane.kubeobjects.crd import SUSPEND, fields
from controlplane.kubeobjects.names import API_VERSION, WORKLOAD, camel
from controlplane.kubeobjects.teamfile import TEAM_FILE

Json = dict[str, Any]


def team_of(namespace: str, prefix: str) -> str:
    """The team whose namespace this is; empty if it is none's."""
    return namespace.removeprefix(prefix) if namespace.startswith(prefix) else ""


def job_file(thing: Mapping[str, Any], prefix: str) -> Json:
    """The job file that a Workload object stands for, not read yet."""
    meta, spec = thing["metadata"], thing.get("spec") or {}
    found = _snake(fields(), {name: value for name, value in spec.items() if name != SUSPEND})
    return {**found, "name": meta["name"], "team": team_of(meta["namespace"], prefix)}


def is_suspended(thing: Mapping[str, Any]) -> bool:
    """Whether the object says that its workload is to rest."""
    return bool((thing.get("spec") or {}).get(SUSPEND))


def workload(document: Mapping[str, Any], prefix: str) -> Json:
    """The Workload object of a job file."""
    given = {name: value for name, value in document.items() if name not in ("name", "team")}
    meta = {"name": document["name"], "namespace": addresses.namespace(document["team"], prefix)}
    return {"apiVersion": API_VERSION, "kind": WORKLOAD, "metadata": meta, "spec": _camel(fields(), given)}


def team_file(thing: Mapping[str, Any]) -> Json:
    """What a Team object says, not read yet."""
    return _snake(TEAM_FILE.fields, thing.get("spec") or {})


def _snake(known: tuple[Field, ...], value: Mapping[str, Any]) -> Json:
    named = {camel(f.name): f for f in known}
    return {named[n].name if n in named else n: _back(named[n].shape, v) if n in named else v for n, v in value.items()}


def _back(shape: Shape, value: Any) -> Any:
    return _each(shape, value, _snake)


def _camel(known: tuple[Field, ...], value: Mapping[str, Any]) -> Json:
    named = {f.name: f for f in known}
    return {camel(name): _each(named[name].shape, one, _camel) for name, one in value.items()}


def _each(shape: Shape, value: Any, turn: Any) -> Any:
    """The value with its fields renamed, in as far as it is what the shape says."""
    if isinstance(shape, Named):
        shape = shape.record
    if isinstance(shape, Record):
        return turn(shape.fields, value) if isinstance(value, Mapping) else value
    if isinstance(shape, Items) and isinstance(value, list | tuple):
        return [_each(shape.each, one, turn) for one in value]
    return value
