"""The submit form: text fields for the job file's fields, and the job file that they make.

What a field means, may hold and defaults to comes from the job file's own table (controlplane.jobspec.jobfile); what is
wrong is said by the same `spec.parse` as everywhere else.
"""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import yaml

from controlplane.jobspec import jobfile
from controlplane.jobspec.shapes import (
    REQUIRED,
    Choice,
    Field,
    FieldError,
    Flag,
    Items,
    Pairs,
    Record,
    Whole,
    WholeOrWord,
)
from frontend.layout import EXAMPLES, HALF, LABELS, LAYOUT, NONE, OFFERED_ONLY, THIRD, UNITS, WIDTH
from scheduler.model.workload import Kind

YES = "true"  # of a field that is set or not
NO_CHOICES: Mapping[str, Sequence[str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FormField:
    """One field as the page draws it."""

    path: str
    label: str
    help: str
    value: str
    fault: str = ""
    placeholder: str = ""
    unit: str = ""
    options: tuple[tuple[str, str], ...] = ()
    is_long: bool = False
    width: str = ""
    key: str = ""  # where a page has several fields of one name

    @property
    def id(self) -> str:
        """For label and input."""
        return (self.key or self.path).replace(".", "-").replace("_", "-")


@dataclass(frozen=True, slots=True)
class Group:
    """Fields under one heading; `More` is folded away unless something in it is wrong."""

    title: str
    fields: tuple[FormField, ...]

    @property
    def is_more(self) -> bool:
        """Whether it is folded."""
        return self.title == "More"

    @property
    def has_fault(self) -> bool:
        """Whether a field of it needs a look."""
        return any(f.fault or f.value for f in self.fields)


def groups(
    kind: Kind, values: Mapping[str, str], errors: Iterable[FieldError], choices: Mapping[str, Sequence[str]]
) -> tuple[list[Group], list[str]]:
    """The form's groups, and the faults that belong to no field of it. `choices` are the options of some fields."""
    faults: dict[str, str] = {}
    for error in errors:
        faults[error.field] = f"{faults[error.field]} {error.message}" if error.field in faults else error.message
    known = fields_of(kind)
    drawn = []
    for title, all_paths in LAYOUT[kind]:
        paths = [path for path in all_paths if path not in OFFERED_ONLY or path in choices]
        fields = (_drawn(path, known[path], values, _taken(faults, path), choices) for path in paths)
        drawn.append(Group(title, tuple(replace(f, width=f.width or WIDTH.get(len(paths), "")) for f in fields)))
    return drawn, list(faults.values())


def fields_of(kind: Kind) -> dict[str, Field]:
    """Every field of this kind's job file by its dotted path."""
    found: dict[str, Field] = {}

    def walk(record: Record, prefix: str) -> None:
        for one in record.fields:
            path = f"{prefix}{one.name}"
            found[path] = one
            if isinstance(one.shape, Record):
                walk(one.shape, f"{path}.")

    walk(jobfile.RECORDS[kind], "")
    return found


def document(kind: Kind, values: Mapping[str, str]) -> dict[str, Any]:
    """The job file that these texts make; what is empty is left out, what cannot be read stays text and is refused."""
    known = fields_of(kind)
    made: dict[str, Any] = {"type": kind.value}
    for path, text in values.items():
        text = text.replace("\r\n", "\n").strip()
        if not text or path not in known or path == "type":
            continue
        *parents, name = path.split(".")
        place = made
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = _read(known[path], text)
    made.setdefault("resources", {})
    return made


def as_yaml(job: Mapping[str, Any]) -> str:
    """A job file as one would write it."""
    return yaml.safe_dump(dict(job), sort_keys=False, allow_unicode=True, default_flow_style=None, width=100)


def copies(job: Mapping[str, Any], origin: str) -> list[tuple[str, str, str]]:
    """(label, id, text) of the same submission as YAML, by the CLI and by curl."""
    body = json.dumps(job, ensure_ascii=False)
    curl = (
        f'curl -sS {origin}/api/v1/workloads \\\n  -H "Authorization: Bearer $WEFT_TOKEN" \\\n'
        f"  -H 'Content-Type: application/json' -H \"Idempotency-Key: $(uuidgen)\" \\\n  -d {shlex.quote(body)}"
    )
    text = as_yaml(job)
    return [
        ("Job file", "as-yaml", text),
        ("weft", "as-cli", f"weft submit -f - <<'EOF'\n{text}EOF"),
        ("curl", "as-curl", curl),
    ]


def _taken(faults: dict[str, str], path: str) -> str:
    """The fault of this field, which then belongs to it; an element's fault is its list's."""
    mine = [at for at in faults if at == path or at.startswith((f"{path}[", f"{path}."))]
    return " ".join(faults.pop(at) for at in mine)


def _drawn(
    path: str, field: Field, values: Mapping[str, str], fault: str, choices: Mapping[str, Sequence[str]]
) -> FormField:
    is_long = isinstance(field.shape, Pairs) or _is_yaml(field)
    offered = options(path, field, choices)
    return FormField(
        path=path,
        label=LABELS.get(path, path),
        help=_help(field),
        value=values.get(path, ""),
        fault=fault,
        placeholder=EXAMPLES.get(path, ""),
        unit=UNITS.get(path, ""),
        options=offered,
        is_long=is_long,
        width="wide" if is_long else "half" if path in HALF else "third" if path in THIRD else "",
    )


def _help(field: Field) -> str:
    has_default = field.default not in (None, REQUIRED) and "if absent" not in field.about
    default = f" Default: {field.default}." if has_default else ""
    return f"{field.about}{default}{' As YAML.' if _is_yaml(field) else ''}"


def options(path: str, field: Field, choices: Mapping[str, Sequence[str]] = NO_CHOICES) -> tuple[tuple[str, str], ...]:
    """What a field offers to choose from, value and label each; empty: it takes text."""
    if path in choices:
        names = [(name, name) for name in choices[path]]
        return tuple(names if field.default is REQUIRED else [("", NONE.get(path, "default")), *names])
    if isinstance(field.shape, Choice):
        none = "any" if path.startswith("topology.") else "default"
        return (("", none), *((str(v), str(v)) for v in field.shape.words))
    if isinstance(field.shape, Flag):
        return (("", "no"), (YES, "yes"))
    return ()


def _read(field: Field, text: str) -> Any:
    if _is_yaml(field):
        return _yaml(text)
    if isinstance(field.shape, Items) and isinstance(field.shape.each, Whole):
        return [_whole(one) for one in _names(text)]
    if isinstance(field.shape, Items):
        return _names(text) if field.shape.is_unique else _arguments(text)
    if isinstance(field.shape, Pairs):
        return _pairs(text)
    if isinstance(field.shape, Whole | WholeOrWord):
        return _whole(text)
    if isinstance(field.shape, Flag):
        return True if text == YES else text
    return _number(text) if getattr(field.shape, "takes_numbers", False) else text


def _is_yaml(field: Field) -> bool:
    """Whether it is a list of objects, which the form takes as YAML."""
    return isinstance(field.shape, Items) and isinstance(field.shape.each, Record)


def _yaml(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        return value if abs(value) < float("inf") else text
    return text


def _whole(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        return text


def _names(text: str) -> Any:
    return text.replace(",", " ").split()


def _arguments(text: str) -> Any:
    try:
        return shlex.split(text)
    except ValueError:  # an open quote
        return [text]


def _pairs(text: str) -> Any:
    pairs = {}
    for line in text.split("\n"):
        name, _, value = line.partition("=")
        if line.strip():
            pairs[name.strip()] = value.strip()
    return pairs
