"""The What-if lab's form: its fields, and the request that their texts make."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from controlplane.jobspec.shapes import FieldError
from controlplane.queries.scheduling import lab
from frontend import words
from frontend.forms import FormField

KEEP = ""  # the current policy
STARTING = {"source": "history", "cycles": "200", "trace": "demo", "hours": "6", "policy": KEEP}
# Which field of the form shows the fault of which part of the request; the first that fits.
SHOWN_AT = (
    ("policy.scheduling.policy", "policy"),
    ("policy", "settings"),
    ("quotas", "quotas"),
    ("nodes.remove", "remove"),
    ("nodes", "add"),
)
ABOUT = {
    "source": "Stored rounds replay your own cluster's work; a trace starts from an empty cluster.",
    "cycles": "How many of the newest rounds.",
    "trace": "philly and openb are read from WEFT_DATA if the files are there; otherwise models of them are used.",
    "hours": "Hours of the cluster's clock.",
    "policy": "The policy of the replay.",
    "settings": "Changed settings, one per line.",
    "quotas": "Changed nominal quotas, one per line: team, pool, GPUs.",
    "add": "Nodes to add, one kind per line: an existing node, and how many more like it.",
    "remove": "Nodes to remove, by name.",
}
MAX_NAMED = 3  # quotas of a request in a few words
EXAMPLES = {
    "settings": "max_preemptions = 1",
    "quotas": "nlp a100 32",
    "add": "a100-00 4",
    "remove": "a100-07",
}


def fields(values: Mapping[str, str], policies: Sequence[str], errors: Iterable[FieldError]) -> dict[str, Any]:
    """The form's fields as the page draws them, in two groups, and the faults that belong to none of them."""
    faults: dict[str, str] = {}
    rest: list[str] = []
    for error in errors:
        at = _field_of(error.field)
        if at is None:
            rest.append(error.message)
        else:
            faults[at] = f"{faults[at]} {error.message}" if at in faults else error.message
    options: dict[str, tuple[tuple[str, str], ...]] = {
        "source": (("history", "stored rounds"), ("trace", "a trace")),
        "trace": tuple((name, name if name == work else f"{name}: {work}") for name, work in lab.traces()),
        "policy": ((KEEP, "current"), *((name, name) for name in policies)),
    }

    def drawn(name: str, label: str, width: str = "half", is_long: bool = False) -> FormField:
        return FormField(
            path=name,
            label=label,
            help=ABOUT[name],
            value=values.get(name, ""),
            fault=faults.get(name, ""),
            placeholder=EXAMPLES.get(name, ""),
            options=options.get(name, ()),
            is_long=is_long,
            width="wide" if is_long else width,
        )

    work = (drawn("source", "Replay"), drawn("cycles", "Rounds"), drawn("trace", "Trace"), drawn("hours", "Hours"))
    other = (
        drawn("policy", "Policy", "wide"),
        drawn("settings", "Settings", is_long=True),
        drawn("quotas", "Quotas", is_long=True),
        drawn("add", "Add nodes", is_long=True),
        drawn("remove", "Remove nodes", is_long=True),
    )
    return {"groups": (("Work to replay", work), ("Changes", other)), "faults": rest}


def request(values: Mapping[str, str]) -> tuple[dict[str, Any], list[FieldError]]:
    """The request that the form's texts make, and what of them cannot be read."""
    errors: list[FieldError] = []
    made: dict[str, Any] = {"source": values.get("source") or "history"}
    names = ("cycles",) if made["source"] == "history" else ("trace", "hours")
    for name in names:
        text = values.get(name, "").strip()
        if text:
            made[name] = text if name == "trace" else _whole(text)
    settings = dict(_pairs(values.get("settings", ""), errors))
    if values.get("policy", KEEP) != KEEP:
        settings["policy"] = values["policy"]
    if settings:
        made["policy"] = {"scheduling": settings}
    if quotas := list(_quotas(values.get("quotas", ""), errors)):
        made["quotas"] = quotas
    added = list(_added(values.get("add", ""), errors))
    removed = values.get("remove", "").replace(",", " ").split()
    if added or removed:
        made["nodes"] = {"add": added, "remove": removed}
    return made, errors


def differs(asked: Mapping[str, Any]) -> str:
    """A request in a few words: policy, settings, quotas and nodes."""
    settings = dict((asked.get("policy") or {}).get("scheduling") or {})
    said = [f"policy {settings.pop('policy')}"] if "policy" in settings else []
    said += [f"{name} = {value}" for name, value in settings.items()]
    if scaling := (asked.get("policy") or {}).get("scaling"):
        said.append(words.plural(len(scaling), "setting") + " of scaling")
    quotas = asked.get("quotas") or ()
    said += [f"{row.get('team')} in {row.get('pool')}" for row in quotas[:MAX_NAMED]]
    said += [f"{words.plural(len(quotas) - MAX_NAMED, 'quota')} more"] if len(quotas) > MAX_NAMED else []
    nodes = asked.get("nodes") or {}
    added = sum(row.get("count") or 1 for row in nodes.get("add") or ())
    gone = len(nodes.get("remove") or ())
    said += [f"{words.plural(n, 'node')} {verb}" for n, verb in ((added, "added"), (gone, "removed")) if n]
    return ", ".join(said) or "nothing"


def replayed(asked: Mapping[str, Any]) -> str:
    """What a request replays."""
    if asked.get("source", "history") == "history":
        return f"the newest {asked.get('cycles', lab.DEFAULT_CYCLES)} rounds"
    return f"{asked.get('hours', lab.DEFAULT_HOURS)} h of {asked.get('trace', 'demo')}"


def _pairs(text: str, errors: list[FieldError]) -> Iterable[tuple[str, Any]]:
    for line in _lines(text):
        name, found, value = line.partition("=")
        if not found:
            errors.append(FieldError("policy.scheduling", f"{line!r} is not a setting. Write name = value."))
        else:
            yield name.strip().removeprefix("scheduling."), _number(value.strip())


def _quotas(text: str, errors: list[FieldError]) -> Iterable[dict[str, Any]]:
    for line in _lines(text):
        parts = line.replace(",", " ").split()
        number = _number(parts[2]) if len(parts) == 3 else None
        if not isinstance(number, int | float):
            errors.append(FieldError("quotas", f"{line!r} is not a quota. Write team, pool and GPUs: nlp a100 32."))
        else:
            yield {"team": parts[0], "pool": parts[1], "nominal_milli": round(number * 1000)}


def _added(text: str, errors: list[FieldError]) -> Iterable[dict[str, Any]]:
    for line in _lines(text):
        parts = line.replace(",", " ").split()
        count = _whole(parts[1]) if len(parts) == 2 else 1
        if len(parts) > 2 or not isinstance(count, int):
            errors.append(
                FieldError("nodes.add", f"{line!r} adds no nodes. Write a node's name and a number: a100-00 4.")
            )
        else:
            yield {"like": parts[0], "count": count}


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _field_of(path: str) -> str | None:
    if path in STARTING:
        return path
    return next((field for prefix, field in SHOWN_AT if path.startswith(prefix)), None)


def _whole(text: str) -> Any:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text


def _number(text: str) -> Any:
    try:
        value = float(text)
    except ValueError:
        return text
    return int(value) if value.is_integer() and abs(value) < 1e15 else value if abs(value) < 1e15 else text
