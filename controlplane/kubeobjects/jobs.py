"""A Workload object in the place of a job file: one file serves `kubectl apply` and `weft submit`. Pure.

What is wrong with it is said of the object's own fields: `spec.resources.gpuModel`, not `resources.gpu_model`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.domain import addresses
from controlplane.jobspec.named import Named
from controlplane.jobspec.shapes import Faults, Field, FieldError, Flag, Items, Pairs, Record, Shape, below, shown
from controlplane.jobspec.spec import Spec, SpecError, parse
from controlplane.kubeobjects import conversion
from controlplane.kubeobjects.crd import SUSPEND, fields
from controlplane.kubeobjects.names import API_VERSION, WORKLOAD, camel

TEAM = "team"  # beside an object without a namespace: the team whose namespace it would lie in
_PARTS = ("apiVersion", "kind", "metadata", "spec", "status", TEAM)
_PROPOSED = re.compile(r"Did you mean [a-z_]+\?|Fields here: [a-z_, ]+\.")  # the fields that a fault names as its fix
_SNAKE = re.compile(r"(?<![a-z_])[a-z]+(?:_[a-z]+)+")
_IN_METADATA = {"name": "metadata.name", "team": "metadata.namespace"}


@dataclass(frozen=True, slots=True)
class Job:
    """What was sent to be submitted: a job file, or the Workload object that stands for one."""

    spec: Spec
    is_object: bool = False
    is_suspended: bool = False  # as the object says; a job file has no word for it

    def field(self, name: str) -> str:
        """What a field of the job file is called in what was sent; what is none keeps its name."""
        is_one = name.partition(".")[0] in {*_IN_METADATA, *(f.name for f in fields())}
        return in_object(name) if self.is_object and is_one else name


def is_object(document: object) -> bool:
    """Whether this is meant as an object of Kubernetes: a job file has no such fields."""
    return isinstance(document, Mapping) and any(name in document for name in ("apiVersion", "metadata"))


def read(document: object, prefix: str) -> Job:
    """A job file, or a Workload object. Raises SpecError with every fault."""
    if not isinstance(document, Mapping) or not is_object(document):
        return Job(parse(document))
    faults = Faults()
    file = _file(document, prefix, faults)
    if faults.errors:
        raise SpecError(faults.errors)
    try:
        spec = parse(file)
    except SpecError as error:
        raise SpecError(_said(one) for one in error.errors) from None
    return Job(spec, is_object=True, is_suspended=conversion.is_suspended(document))


def in_object(name: str) -> str:
    """What a dotted field of the job file is called in the object."""
    if not name:
        return ""
    first, _, rest = name.partition(".")
    return _IN_METADATA[first] if first in _IN_METADATA and not rest else f"spec.{'.'.join(_turned(fields(), name))}"


def schema() -> dict[str, Any]:
    """What REST says of such a body; its spec is described by the CustomResourceDefinition."""
    about = "The job file without name and team, in camelCase (docs/kubernetes-objects.md)."
    name = {"type": "string", "description": "The workload's name."}
    namespace = {"type": "string", "description": "The namespace of its team."}
    team = {"type": "string", "description": "In the place of metadata.namespace: the team."}
    return {
        "type": "object",
        "description": "A Workload object, as kubectl takes it.",
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": WORKLOAD},
            "metadata": {"type": "object", "properties": {"name": name, "namespace": namespace}, "required": ["name"]},
            "spec": {"type": "object", "description": about},
            TEAM: team,
        },
        "required": ["apiVersion", "kind", "metadata", "spec"],
    }


# --- from an object to its job file -------------------------------------------------------------


def _file(thing: Mapping[str, Any], prefix: str, faults: Faults) -> dict[str, Any]:
    """The job file of an object whose own parts are right, not read yet."""
    for name in sorted(str(one) for one in thing.keys() - set(_PARTS)):
        faults.add(below("", name), f"{below('', name)} is not a field of a Workload. Fields here: apiVersion, kind, "
                   "metadata, spec.")  # fmt: skip
    if (version := thing.get("apiVersion")) != API_VERSION or thing.get("kind") != WORKLOAD:
        field = "apiVersion" if version != API_VERSION else "kind"
        fix = f"Write apiVersion: {API_VERSION} and kind: {WORKLOAD}; other objects are made with kubectl."
        faults.add(
            field, f"{field} is {shown(thing[field])}. {fix}" if field in thing else f"{field} is missing. {fix}"
        )
    meta, spec = _mapping(thing, "metadata", faults), _mapping(thing, "spec", faults)
    if SUSPEND in spec:
        Flag().read(spec[SUSPEND], f"spec.{SUSPEND}", faults)
    faults.errors += _snakes(fields(), spec, "spec")
    if not meta.get("name"):
        faults.add("metadata.name", "metadata.name is missing. Add it: the workload's name.")
    team = _team(thing, meta, prefix, faults)
    if faults.errors:
        return {}
    inside = {"metadata": {"name": meta["name"], "namespace": addresses.namespace(team, prefix)}, "spec": spec}
    return conversion.job_file(inside, prefix)


def _mapping(thing: Mapping[str, Any], part: str, faults: Faults) -> Mapping[str, Any]:
    found = thing.get(part)
    if isinstance(found, Mapping):
        return found
    told = f"{part} is {shown(found)}. Give an object." if part in thing else f"{part} is missing. Add it: an object."
    faults.add(part, told)
    return {}


def _team(thing: Mapping[str, Any], meta: Mapping[str, Any], prefix: str, faults: Faults) -> str:
    """The team by the object's namespace, or by what stands beside it in its place."""
    at, example = "metadata.namespace", addresses.namespace("TEAM", prefix)
    namespace, beside = meta.get("namespace"), thing.get(TEAM)
    if beside is not None and not isinstance(beside, str):
        faults.add(TEAM, f"{TEAM} is {shown(beside)}. Give the name of a team, or {at}: {example}.")
        return ""
    if namespace is None:
        if not beside:
            faults.add(at, f"{at} is missing. Write the namespace of the team: {example}.")
        return beside or ""
    team = conversion.team_of(namespace, prefix) if isinstance(namespace, str) else ""
    if not team:
        faults.add(at, f"{at} is {shown(namespace)}, which is no team's. Write the namespace of the team: {example}.")
    elif beside and beside != team:
        faults.add(TEAM, f"{TEAM} is {shown(beside)}, and {at} is team {team}'s. Leave {TEAM} out.")
    return team


def _snakes(known: tuple[Field, ...], value: Any, at: str) -> Iterator[FieldError]:
    """Names as the job file has them: an object has camelCase, and kubectl would refuse these."""
    if not isinstance(value, Mapping):
        return
    named = {camel(f.name): f for f in known}
    files = {name: f for f in known for name in (f.name, f.was) if name and name not in named}
    for name, one in value.items():
        here = below(at, str(name))
        if name in files:
            yield FieldError(here, f"{here} is not a field of a Workload. Did you mean {camel(files[name].name)}?")
        elif at == "spec" and name in _IN_METADATA:
            yield FieldError(here, f"{here} is not a field of a Workload. Write it as {_IN_METADATA[name]}.")
        elif name in named:
            shape = _inner(named[name].shape)
            inside = enumerate(one) if isinstance(named[name].shape, Items) and isinstance(one, list) else [("", one)]
            for number, each in inside:
                if isinstance(shape, Record):
                    yield from _snakes(shape.fields, each, f"{here}.{number}".rstrip("."))


# --- and the words for what is wrong with that file ---------------------------------------------


def _said(error: FieldError) -> FieldError:
    """The same fault, of the object's field."""
    field = in_object(error.field)
    message = error.message.replace(" is not a field of the job file.", " is not a field of a Workload.", 1)
    message = _PROPOSED.sub(lambda found: _SNAKE.sub(lambda name: camel(name[0]), found[0]), message)
    starts = bool(error.field) and error.message.startswith(error.field)
    return FieldError(field, f"{field}{message[len(error.field) :]}" if starts else message)


def _turned(known: tuple[Field, ...], name: str) -> Iterator[str]:
    """The parts of a dotted field in camelCase; names that people choose themselves stay."""
    first, _, rest = name.partition(".")
    field = next((f for f in known if first in (f.name, f.was)), None)
    yield camel(first) if field else first
    if field is None or isinstance(field.shape, Pairs):
        yield from filter(None, [rest])
        return
    if rest and isinstance(field.shape, Items):
        number, _, rest = rest.partition(".")
        yield number
    shape = _inner(field.shape)
    if rest:
        yield from _turned(shape.fields if isinstance(shape, Record) else (), rest)


def _inner(shape: Shape) -> Shape:
    """What lies in it: of a list its items, of what has a short form the long one."""
    if isinstance(shape, Items):
        return _inner(shape.each)
    return shape.record if isinstance(shape, Named) else shape
