"""What would start a workload now, each with the page on which one does it."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import yaml
from django.urls import reverse

from controlplane.domain.suggestion import job_changes
from controlplane.jobspec import spec
from frontend import forms
from frontend.layout import LAYOUT
from scheduler.explain.change import IN_QUOTA, Change, ChangeKind, Choice
from scheduler.model.workload import Kind


def with_links(found: Sequence[Mapping[str, Any]], w: Any, *, may_submit: bool) -> list[dict[str, Any]]:
    """Each suggestion with `href` and `action`, empty where no page does it; `asks` where that is a dialogue."""
    out = []
    for one in found:
        href, action = (applying(one, w), "Apply…") if one["may_apply"] else _link(one, w, may_submit)
        out.append({**one, "href": href, "action": action, "asks": one["may_apply"]})
    return out


def applying(suggestion: Mapping[str, Any], w: Any) -> str:
    """The address that asks whether to apply the suggestion, and does it."""
    named = {name: suggestion[name] for name in ("kind", "after", "target", "pool") if suggestion[name] != ""}
    return f"{reverse('frontend:suggestion', args=[w.pk])}?{urlencode({**named, 'version': w.version})}"


def choice_of(given: Mapping[str, str]) -> Choice:
    """The change that such an address names. Raises ValueError if it is none."""
    after, target, pool = (given.get(name, "") for name in ("after", "target", "pool"))
    if not f"{after}{target}{pool}".isprintable():
        raise ValueError("a name with a control character")
    return Choice(ChangeKind(given.get("kind", "")), after, target, pool)


def effect(change: Change, w: Any, victim: Any = None) -> str:
    """What else applying a suggestion means, beside its own sentence; victim: the other one, of a stop."""
    name = w.name
    match change.kind:
        case ChangeKind.NOMINAL | ChangeKind.BORROWING:
            return f"This holds for all work of team {change.target}, not for {name} alone, until it is changed again."
        case ChangeKind.STOP:
            return (
                f"{victim.name} is stopped permanently; its workers get their grace period. {name} starts on its GPUs."
            )
        case ChangeKind.PRIORITY:
            firm = (
                "" if change.preemptible else " It then cannot be preempted, so it must fit within the nominal quota."
            )
            return f"{name} keeps its age in the queue and goes ahead of all work of its team with a lower class.{firm}"
        case _:
            return f"{name} keeps its position and age in the queue; its command is not changed."


def _link(suggestion: Mapping[str, Any], w: Any, may_submit: bool) -> tuple[str, str]:
    kind = suggestion["kind"]
    if kind in IN_QUOTA:
        return reverse("frontend:teams"), "Teams & quotas"
    if kind == "stop":
        return (reverse("frontend:workload", args=[suggestion["target"]]), "Open") if suggestion["target"] else ("", "")
    texts = texts_of(Kind(w.kind), asked_so(job_of(w.spec), suggestion)) if may_submit else None
    if texts is None:
        return "", ""
    return f"{reverse('frontend:submit')}?{urlencode({'type': w.kind, **texts})}", "Submit with this change"


def job_of(stored: Mapping[str, Any] | None) -> dict[str, Any]:
    """The job file as it was given, without what the server keeps beside it."""
    beside = ("normalised", "simulated", "kubernetes")
    return {name: value for name, value in (stored or {}).items() if name not in beside}


def asked_so(job: Mapping[str, Any], suggestion: Mapping[str, Any]) -> dict[str, Any]:
    """The job file of a second workload that asks what the suggestion says."""
    change = Change(
        ChangeKind(suggestion["kind"]),
        suggestion["before"],
        suggestion["after"],
        suggestion["target"],
        suggestion["pool"],
    )
    return {**job, "name": f"{job.get('name', '')[:60]}-2", **job_changes(job, change)}


def texts_of(kind: Kind, job: Mapping[str, Any]) -> dict[str, str] | None:
    """The form's texts that make this job file; None where the form cannot say all of it."""
    texts: dict[str, str] = {}

    def walk(part: Mapping[str, Any], prefix: str) -> None:
        for name, value in part.items():
            path = f"{prefix}{name}"
            if isinstance(value, Mapping) and path not in ("env", "labels", "resources.extra"):
                walk(value, f"{path}.")
            elif value not in (None, [], {}, ""):
                texts[path] = _text(path, value)

    walk({name: value for name, value in job.items() if name != "type"}, "")
    shown = {path for _, paths in LAYOUT[kind] for path in paths}
    texts = {path: text for path, text in texts.items() if path in shown}  # the rest must be what is so anyway
    try:
        wanted = spec.parse({**job, "type": kind.value})
        is_same = replace(spec.parse(forms.document(kind, texts)), text=wanted.text) == wanted
    except spec.SpecError:
        return None
    return texts if is_same else None


def _text(path: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return "\n".join(f"{name}={text}" for name, text in value.items())
    if isinstance(value, list) and any(isinstance(one, Mapping) for one in value):
        return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))
    if isinstance(value, list):
        return shlex.join(map(str, value)) if path in ("command", "args") else ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
