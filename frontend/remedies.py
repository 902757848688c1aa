"""What would start a workload now, each with the page on which one does it."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import yaml
from django.urls import reverse

from controlplane import spec
from frontend import forms
from scheduler.workload import Kind

IN_QUOTA = ("nominal", "borrowing")


def with_links(found: Sequence[Mapping[str, Any]], w: Any, *, may_submit: bool) -> list[dict[str, Any]]:
    """Each remedy with `href` and `action`, empty where no page does it."""
    return [{**one, **dict(zip(("href", "action"), _link(one, w, may_submit), strict=True))} for one in found]


def _link(remedy: Mapping[str, Any], w: Any, may_submit: bool) -> tuple[str, str]:
    kind = remedy["kind"]
    if kind in IN_QUOTA:
        return reverse("frontend:teams"), "Teams & quotas"
    if kind == "stop":
        return (reverse("frontend:workload", args=[remedy["target"]]), "Open it") if remedy["target"] else ("", "")
    texts = texts_of(Kind(w.kind), asked_so(job_of(w.spec), remedy)) if may_submit else None
    if texts is None:
        return "", ""
    return f"{reverse('frontend:submit')}?{urlencode({'type': w.kind, **texts})}", "Submit it so"


def job_of(stored: Mapping[str, Any] | None) -> dict[str, Any]:
    """The job file as it was given, without what the server keeps beside it."""
    return {name: value for name, value in (stored or {}).items() if name not in ("normalised", "simulated")}


def asked_so(job: Mapping[str, Any], remedy: Mapping[str, Any]) -> dict[str, Any]:
    """The job file of a second workload that asks what the remedy says."""
    kind, before, after = remedy["kind"], remedy["before"], remedy["after"]
    made = {**job, "name": f"{job.get('name', '')[:60]}-2"}
    if kind == "workers":
        workers = dict(job.get("workers", {}))
        is_rigid = all(workers.get(name, before) == before for name in ("count", "min", "max"))
        made["workers"] = {name: after for name in workers} if is_rigid else {**workers, "min": after}
    elif kind == "topology":
        near = {name: level for name, level in job.get("topology", {}).items() if name != "require"}
        made["topology"] = near if after == "any" else {**near, "require": after}
    elif kind == "priority":
        made["priority_class"] = remedy["target"]
    else:
        made["resources"] = _resources(job.get("resources", {}), kind, after)
    return made


def _resources(asked: Mapping[str, Any], kind: str, after: Any) -> dict[str, Any]:
    share: Mapping[str, Any] | None = asked.get("gpu_share")
    if kind == "model":
        models = asked.get("gpu_model") or []
        return {**asked, "gpu_model": [] if after == "any" else [*models, after]}
    if share and kind in ("share", "gpu_memory"):
        part = {"guarantee": after / 1000} if kind == "share" else {"memory": f"{after}Mi"}
        return {**asked, "gpu_share": {**share, **part}}
    return {**asked, kind: {"gpus": after, "cpu": after / 1000}.get(kind, f"{after}Mi")}


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
    try:
        wanted = spec.parse({**job, "type": kind.value})
        is_same = replace(spec.parse(forms.document(kind, texts)), text=wanted.text) == wanted
    except spec.SpecError:
        return None
    return texts if is_same and texts.keys() <= forms.fields_of(kind).keys() else None


def _text(path: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return "\n".join(f"{name}={text}" for name, text in value.items())
    if isinstance(value, list) and any(isinstance(one, Mapping) for one in value):
        return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))
    if isinstance(value, list):
        return shlex.join(map(str, value)) if path in ("command", "args") else ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
