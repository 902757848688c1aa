"""The nodes: a list, one of them, the ledger of their GPUs, and the actions of platform admins."""

from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods

from controlplane.lifecycle.draining import Fate
from controlplane.queries.accounts import access
from controlplane.queries.audit import changes
from controlplane.queries.scheduling import cluster, ledger
from controlplane.queries.scheduling import nodes as queries
from controlplane.queries.tenancy import teams
from controlplane.services.scheduling import draining, nodes
from frontend import words
from frontend.answers import answer, clock, link, number, seen_teams

PAGE = 50
EVENTS = 20
STATES = (
    ("ready", "Ready"),
    ("cordoned", "Cordoned"),
    ("not-ready", "Not ready"),
    ("unhealthy-gpu", "With unhealthy GPUs"),
)
LABELS = {"cordon": "Cordon", "uncordon": "Uncordon", "drain": "Drain"}
UNDO = {"cordon": "uncordon", "uncordon": "cordon", "drain": "uncordon"}
DONE = {"cordon": "Cordoned", "uncordon": "Uncordoned"}
EFFECT = {
    "cordon": "It takes no new work. Running workloads continue.",
    "uncordon": "New work may be placed there again.",
    "drain": "It takes no new work, and preemptible workloads leave it.",
}
# How a drain's effect on one workload reads, and in which order they are told.
FATES = {
    Fate.MOVES: "leaves within its grace period and is queued again",
    Fate.SHRINKS: "continues with its workers on other nodes",
    Fate.REPLACED: "gets replacement replicas on other nodes",
    Fate.GIVES_BACK: "gives up its reservation and is queued again",
    Fate.STAYS: "stays until it ends: it is not preemptible",
    Fate.LEAVES: "is leaving already",
}
MAX_NAMED = 12  # workloads in a confirmation


@login_required
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """All machines with their health, and what is held and computes there."""
    given = {name: request.GET.get(name, "").replace("\x00", "")[:63] for name in ("pool", "rack", "state", "q")}
    found = queries.filtered(given["pool"], given["rack"], given["state"], given["q"])
    offset, totals = number(request.GET.get("from"), 0), queries.totals(found)
    context = {
        **given,
        "text": given["q"],
        "rows": queries.page(found, offset, PAGE, seen_teams(request)),
        "totals": totals,
        "is_filtered": any(given.values()),
        "pools": teams.pool_names(),
        "racks": queries.racks(given["pool"]),
        "states": STATES,
        "older": link(request, **{"from": offset + PAGE}) if offset + PAGE < totals.nodes else "",
        "newer": link(request, **{"from": max(0, offset - PAGE)}) if offset else "",
    }
    return answer(request, "nodes", "node_rows", context)


@login_required
@require_GET
def gpus(request: HttpRequest) -> HttpResponse:
    """The ledger of GPUs: who holds what of each, what is measured of it, and what holds it so; a page at a time."""
    given = {name: request.GET.get(name, "").replace("\x00", "")[:63] for name in ("pool", "q")}
    is_shared = request.GET.get("shared") == "1"
    found = ledger.keys(given["pool"], part=given["q"], is_shared=is_shared)
    offset = number(request.GET.get("from"), 0)
    context = {
        "pool": given["pool"],
        "text": given["q"],
        "is_shared": is_shared,
        "rows": ledger.devices(found[offset : offset + PAGE], seen_teams(request)),
        "total": len(found),
        "first": offset + 1,
        "last": min(offset + PAGE, len(found)),
        "is_filtered": bool(is_shared or any(given.values())),
        "pools": teams.pool_names(),
        "older": link(request, **{"from": offset + PAGE}) if offset + PAGE < len(found) else "",
        "newer": link(request, **{"from": max(0, offset - PAGE)}) if offset else "",
    }
    return answer(request, "gpus", "gpu_rows", context)


@login_required
@require_GET
def detail(request: HttpRequest, name: str) -> HttpResponse:
    """One node: its GPUs, the workloads on each of them, and its history."""
    seen = seen_teams(request)
    found = cluster.node(name, seen)
    if found is None:
        raise Http404
    verbs = ("drain", "cordon") if found.schedulable else ("drain", "uncordon")
    context = {
        "node": found,
        "workers": queries.leavers(name, clock(request).now, seen),
        "slow": queries.slow(name, seen),
        "events": [_told(event) for event in queries.events(name, EVENTS)],
        "actions": [(verb, LABELS[verb]) for verb in verbs] if access.is_platform_admin(request.user) else [],
    }
    return answer(request, "node", "node_detail", context)


@login_required
@require_http_methods(["GET", "POST"])
def act(request: HttpRequest, name: str, verb: str) -> HttpResponse:
    """Say what cordoning, uncordoning or draining would do; on POST do it."""
    if not access.is_platform_admin(request.user):
        raise PermissionDenied
    if verb not in LABELS or not queries.exists(name):
        raise Http404
    if request.method == "GET":
        return answer(request, "confirm", "confirm", _question(request, name, verb))
    actor = request.user.get_username()
    if verb == "drain":
        said = drained(name, draining.drain(name=name, actor=actor))
    else:
        nodes.cordon(name=name, on=verb == "cordon", actor=actor)
        said = f"{DONE[verb]} {name}."
    messages.info(request, said, extra_tags=f"undo {UNDO[verb]} node/{name}")
    return redirect("frontend:node", name)


def drained(name: str, left: Sequence[draining.Left]) -> str:
    """What a drain has done, as one sentence."""
    moving = sum(one.fate not in (Fate.STAYS, Fate.LEAVES) for one in left)
    stay = sum(one.fate is Fate.STAYS for one in left)
    said = f"{words.plural(moving, 'workload')} {'is' if moving == 1 else 'are'} evicted"
    if stay:
        said += f", {stay} {'stays' if stay == 1 else 'stay'} until the end"
    return f"Draining {name}: {said}." if left else f"Draining {name}: nothing runs there."


def _question(request: HttpRequest, name: str, verb: str) -> dict[str, Any]:
    effects: list[dict[str, Any]] = []
    left = 0
    if verb == "drain":
        order = list(FATES)
        found = queries.leavers(name, clock(request).now, seen_teams(request))
        ordered = sorted(found, key=lambda one: order.index(one.fate))
        effects = [{"workload": one, "what": _effect(one)} for one in ordered[:MAX_NAMED]]
        left = max(0, len(found) - MAX_NAMED)
    return {
        "subject": name,
        "verb": verb,
        "label": LABELS[verb],
        "question": f"{LABELS[verb]} {name}?",
        "effect": EFFECT[verb] + ("" if effects or verb != "drain" else " Nothing runs there."),
        "effects": effects,
        "effects_left": left,
        "is_danger": verb == "drain",
        "action_url": reverse("frontend:node_act", args=[name, verb]),
    }


def _effect(one: queries.Leaver) -> str:
    said = f"{words.plural(one.workers, 'worker')} here; {FATES[one.fate]}"
    if one.fate is Fate.MOVES:
        if one.unsaved is not None:
            return f"{said}, and loses at most {words.duration(one.unsaved)}"
        return (
            f"{said}; it has no checkpoint"
            if one.kind == "training"
            else f"{said}; data that is only in memory is lost"
        )
    return said


def _told(event: Any) -> dict[str, Any]:
    """An event of a node as a line: time, kind, change and user."""
    told = changes.lines(event.data) if event.kind == "NodeChanged" else ()
    sentence = ", ".join(f"{what}: {before} → {after}" for what, before, after in told)
    if event.kind == "Drained":
        sentence = f"{words.plural(len(event.data.get('moved', ())), 'workload')} evicted"
    if event.kind == "NodeNamedSlow":
        sentence = f"in {words.plural(len(event.data.get('trainings', ())), 'training')} within a day"
    person = "" if event.actor.startswith("loop:") else event.actor
    return {"at": event.cluster_at, "kind": event.kind, "sentence": sentence, "person": person}
