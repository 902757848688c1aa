"""CPU and memory of the workers of what runs, changed in place: what the pages ask and show."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.urls import reverse

from controlplane.lifecycle.resizing import RESIZABLE
from controlplane.queries.workloads import workloads as queries
from frontend import words
from frontend.forms import FormField
from frontend.layout import WIDTH

VERB = "resize"
EFFECT = "Its workers go on while their nodes change it. If a node refuses, it is put back."
_FIELDS = (("cpu", "CPU", "cores", "Such as 8 or 500m."), ("memory", "Memory", "", "Such as 64Gi."))


def may_be(w: Any) -> bool:
    """Whether its workers run, so that they can be resized."""
    return w.phase in RESIZABLE


def shown(w: Any) -> dict[str, Any]:
    """What the head of its page says of a resize that goes on."""
    now = queries.resize_of(w)
    if now is None:
        return {}
    what = "gets back" if now["is_put_back"] else "is being given"
    text = f"Each worker {what} {words.size(now['cpu_milli'], now['memory_mib'])}"
    if now["message"]:
        text += f" ({now['message']})"
    return {"resizing": text, "resize_since": datetime.fromisoformat(now["since"]).timestamp()}


def changes(w: Any, given: Mapping[str, str]) -> dict[str, Any]:
    """The change that the form's texts make; what is left empty stays as it is."""
    texts = {name: given.get(f"resources.{name}", "").strip() for name, *_ in _FIELDS}
    return {"resources": w.spec["resources"] | {name: text for name, text in texts.items() if text}}


def question(w: Any, values: Mapping[str, Any], faults: Mapping[str, str]) -> dict[str, Any]:
    """What is asked: CPU and memory of each worker, with what was wrong with them. `values`: those of resources."""
    others = [text for field, text in faults.items() if field not in {f"resources.{name}" for name, *_ in _FIELDS}]
    return {
        "w": w,
        "verb": VERB,
        "label": "Resize",
        "question": f"Resize each worker of {w.name}?",
        "effect": " ".join([*others, EFFECT]),
        "fields": [
            FormField(path, label, text, str(values.get(name) or ""), faults.get(path, ""), unit=unit, width=WIDTH[1])
            for name, label, unit, text in _FIELDS
            for path in (f"resources.{name}",)
        ],
        "action_url": reverse("frontend:resize", args=[w.pk]),
    }
