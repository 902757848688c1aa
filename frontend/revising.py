"""Another image, environment or objective for a service, its canary, and the way back: what the pages ask and show."""

from collections.abc import Mapping
from typing import Any

from django.urls import reverse

from autoscaler.latency import Within
from controlplane.jobspec.jobfile import AUTO, GATEWAY, OBJECTIVE, P95_LATENCY
from controlplane.jobspec.objective import FIELDS as MEASURED
from controlplane.jobspec.scaling import PACK
from controlplane.jobspec.shapes import Faults
from controlplane.lifecycle.canaries import WHOLE
from controlplane.queries.workloads import revisions
from controlplane.queries.workloads.objectiveprice import Costs
from frontend import forms, words
from frontend.forms import FormField
from frontend.layout import EXAMPLES, LABELS, STANDBY, UNITS, WIDTH
from scheduler.model.workload import Kind

EFFECT = (
    "The objective and standby count from now on, the queue in front and what replicas are spread over from the next "
    "replica that starts. Another image or "
    "environment replaces the replicas one by one: each goes once a new one is ready. If new ones do not become ready, "
    "or the error budget burns, the revision before is brought back. With a share of requests below 100 it gets only "
    "that part of them, until you promote it or roll it back. With steps it gets one share after the other, each while "
    "it keeps the objective, and is promoted after the last."
)
IMAGE, ENV = "image", "env"
PROMISED = tuple(f"objective.{field.name}" for field in OBJECTIVE.fields)
QUEUED = tuple(f"gateway.{field.name}" for field in GATEWAY.fields)
ROLLED = ("weight", "steps", "step_minutes")  # of a job file's rollout: how requests come to a new revision
WEIGHT = "rollout.weight"
SPREAD = "replicas.spread"
FIELDS = (IMAGE, ENV, *(f"rollout.{name}" for name in ROLLED), *PROMISED, *QUEUED, *STANDBY, SPREAD)
LATENCIES = {f"objective.{name}": of for of, name in MEASURED.items()}
STANDING_BY = "standby"


def texts(spec: Mapping[str, Any]) -> dict[str, str]:
    """The fields of a stored job file as the form shows them."""
    found = {}
    for path in (*PROMISED, *QUEUED):
        record, _, name = path.partition(".")
        found[path] = str((spec.get(record) or {}).get(name, ""))
    env = "\n".join(f"{name}={value}" for name, value in (spec.get(ENV) or {}).items())
    found |= {name: str(spec.get(name) or "") for name in STANDBY}
    found[SPREAD] = spec["replicas"].get("spread") or ""
    given = spec.get("rollout") or {}
    steps = ", ".join(map(str, given.get("steps") or ()))
    rolled = {"weight": str(given.get("weight", WHOLE)), "steps": steps, "step_minutes": given.get("step_minutes", "")}
    found |= {f"rollout.{name}": str(rolled[name]) for name in ROLLED}
    return {IMAGE: str(spec["image"]), ENV: env, **found}


def changes(spec: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, Any]:
    """What the form's texts change; an objective or queue of which nothing is left is taken away."""
    made = forms.document(Kind.INFERENCE, {path: given.get(path, "") for path in FIELDS})
    before = {name: spec.get(name) for name in (IMAGE, ENV, "objective", "gateway", *STANDBY)}
    after = {name: made.get(name) for name in before}
    after[IMAGE] = after[IMAGE] or ""
    asked = {"weight": WHOLE, **(made.get("rollout") or {})}
    present = spec.get("rollout") or {}
    if asked != {"weight": WHOLE, **{name: present[name] for name in ROLLED if present.get(name)}}:
        before["rollout"] = spec.get("rollout")
        kept = {name: value for name, value in present.items() if name not in ROLLED}
        after["rollout"] = {**kept, **asked}
    spread, spread_now = ((one or {}).get("spread") or PACK for one in (made.get("replicas"), spec["replicas"]))
    if spread != spread_now:
        before["replicas"], after["replicas"] = None, {"spread": spread}
    return {name: value for name, value in after.items() if (value or None) != (before[name] or None)}


def question(w: Any, values: Mapping[str, str], faults: Mapping[str, str]) -> dict[str, Any]:
    """What is asked. `values` are texts by field, `faults` what was wrong with them."""
    known = forms.fields_of(Kind.INFERENCE)
    others = [text for field, text in faults.items() if _shown_at(field) not in FIELDS]
    mine = {_shown_at(field): text for field, text in faults.items()}
    return {
        "w": w,
        "verb": "change",
        "label": "Change",
        "question": f"Change {w.name}?",
        "effect": " ".join([*others, EFFECT]),
        "focus": next((path for path in FIELDS if path in mine), IMAGE),
        "fields": [
            FormField(
                path,
                LABELS[path],
                known[path].about,
                values.get(path, ""),
                mine.get(path, ""),
                placeholder=EXAMPLES.get(path, ""),
                is_long=path == ENV,
                unit=UNITS.get(path, ""),
                options=forms.options(path, known[path]),
                width="wide" if path in (IMAGE, ENV, WEIGHT) else WIDTH.get(len(PROMISED), ""),
            )
            for path in FIELDS
        ],
        "action_url": reverse("frontend:change_service", args=[w.pk]),
        "price_url": reverse("frontend:service_price", args=[w.pk]),
        "price_of": [f"#f-{FormField(path, '', '', '').id}" for path in (*LATENCIES, STANDING_BY)],
    }


def latency(texts: Mapping[str, str]) -> Within | None:
    """The latency that a person has typed, by field; None where that is none, or two."""
    found = []
    for path, of in LATENCIES.items():
        faults = Faults()
        seconds = P95_LATENCY.read(texts.get(path, "").strip(), path, faults)
        found += [] if faults.errors else [Within(seconds, of)]
    return found[0] if len(found) == 1 else None


def replicas_on_standby(text: str, w: Any) -> int:
    """How many replicas a person has typed that are to stand by: those of now where that is no number of them."""
    found = forms.document(Kind.INFERENCE, {STANDING_BY: text}).get(STANDING_BY, 0)
    if found == AUTO:
        return int(w.workers_max - w.workers_min)
    return found if isinstance(found, int) and found >= 0 else int(w.standby)


def costs(now: Costs | None, asked: Costs | None, most: int) -> str:
    """What an objective costs, in a sentence or two; most: replicas that the service may have."""
    one = asked or now
    if one is None:
        return ""
    if one.price is None or one.gpu_hours is None:
        return "What it costs is known once requests of this service were measured."
    hours = f"{one.gpu_hours:,.1f} GPU-hours a day"
    told = f"At the load of the last day {_within(one)} takes about {hours}"
    told += f": {one.price.mean:.1f} replicas on average, {one.price.most} at most"
    if asked is not None and now is not None and now.gpu_hours is not None and asked.within != now.within:
        told += f"; {_within(now)}, as it is now, {now.gpu_hours:,.1f}"
    if one.price.short:
        part = words.percent(one.price.short, 1)
        told += f". {part} of the time that needs more replicas than its max, {most}"
    return f"{told}."


def _within(of: Costs) -> str:
    first = "a first token within " if of.within.is_first_token else ""
    return f"{first}{words.latency(of.within.seconds)}"


def undo(w: Any, number: int) -> dict[str, Any]:
    """What is asked before an earlier revision is brought back."""
    return {
        "w": w,
        "verb": "rollback",
        "label": "Roll back",
        "question": f"Roll {w.name} back to revision {number}?",
        "effect": "Its replicas are replaced one by one: each goes once one of that revision is ready.",
        "action_url": f"{reverse('frontend:rollback', args=[w.pk])}?to={number}",
    }


def shown(w: Any) -> dict[str, Any]:
    """The revisions as the page lists them, and how far the wanted one is."""
    found = revisions.revisions(w)
    if found["rollout"] and found["rollout"]["percent"] is not None:
        found["rollout"]["rest"] = WHOLE - found["rollout"]["percent"]
    now = found["rollout"]
    next_step = following(now) if now else ""
    return {"revisions": found["revisions"], "rollout": now, "rolling": sentence(now), "following": next_step}


def promotion(w: Any, rollout: Mapping[str, Any]) -> dict[str, Any]:
    """What is asked before a canary is promoted."""
    return {
        "w": w,
        "verb": "promote",
        "label": "Promote",
        "question": f"Promote revision {rollout['to']} of {w.name}?",
        "effect": f"It replaces revision {rollout['before']}, replica by replica, and each then gets as many requests.",
        "action_url": reverse("frontend:promote", args=[w.pk]),
    }


def weighed(spec: Mapping[str, Any], weight: Any) -> dict[str, Any]:
    """The change that gives the new revision this part of the requests; no steps follow it by themselves."""
    kept = {name: value for name, value in (spec.get("rollout") or {}).items() if name not in ROLLED}
    return {"rollout": {**kept, "weight": weight}}


def judged(rollout: Mapping[str, Any]) -> str:
    """What a canary is judged by, in a sentence."""
    if rollout["judged_by"] == "requests":
        own = _of(rollout["own_over"], rollout["own_requests"])
        before = _of(rollout["before_over"], rollout["before_requests"])
        return f"Late or failed: {own} of revision {rollout['to']}, {before} of revision {rollout['before']}."
    if rollout["judged_by"] == "service":
        return "Its own requests are not measured: it is judged by how the whole service stands."
    return "Nothing of its requests is measured yet, so nothing takes it back by itself but replicas that fail."


def following(rollout: Mapping[str, Any]) -> str:
    """What the next step of a canary gives, when, and what it waits for; empty of one without steps."""
    if rollout["next_weight"] is None:
        return ""
    last = rollout["next_weight"] == WHOLE
    what = "it replaces the one before" if last else f"{rollout['next_weight']} %"
    soonest = f", at {rollout['next_at'][11:19]} UTC at the soonest" if rollout["next_at"] else ""
    return f"Next{soonest}: {what}.{' ' if rollout['held'] else ''}{rollout['held']}"


def _of(over: int, requests: int) -> str:
    return f"{over:,} of {words.plural(requests, 'request')}"


def sentence(rollout: Mapping[str, Any] | None) -> str:
    """`Revision 3 replaces revision 2: 1 of 4 replicas`; empty when nothing is being replaced."""
    if rollout is None:
        return ""
    if rollout["is_canary"]:
        gets = "is to get" if rollout["percent"] is None else "gets"
        ready = f"{rollout['ready']} of {words.plural(rollout['of'], 'replica')} ready"
        told = f"Revision {rollout['to']} {gets} {rollout['weight']} % of the requests: {ready}. {judged(rollout)}"
        return f"{told} {following(rollout)}".rstrip()
    again = " again" if rollout["is_back"] else ""
    done = f"{rollout['ready']} of {words.plural(rollout['of'], 'replica')} ready"
    why = f" {rollout['message']}" if rollout["message"] else ""
    return f"Revision {rollout['to']} replaces revision {rollout['before']}{again}: {done}.{why}"


def _shown_at(field: str) -> str:
    """The field of the form at which a fault stands: one in a variable is the environment's."""
    return ENV if field.startswith(f"{ENV}.") or field.startswith(f"{ENV}[") else field
