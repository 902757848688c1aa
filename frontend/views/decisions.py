"""What was decided: a feed, the stored rounds, and one of them with every decision."""

import json
from collections.abc import Mapping
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from controlplane.queries.accounts import access
from controlplane.queries.audit import changes
from controlplane.queries.scheduling import decisions
from frontend import words
from frontend.answers import answer, link, number, seen_teams, teams_for

PAGE = 50
DECISIONS = 100  # of a round on one page
GROUPS = (
    ("placed", "Placed"),
    ("made-room", "Evicted"),
    ("waits", "Waiting"),
    ("scaled", "Replicas"),
    ("ended", "Ended"),
    ("people", "Changed by users"),
)
TONES = {"Place": "ok", "Evict": "bad", "Shrink": "warn", "Wait": "warn", "Scale": "accent", "Offload": "accent"}
VERBS = {
    "Place": "placed",
    "Evict": "evicted",
    "Shrink": "shrunk",
    "Wait": "waiting",
    "Scale": "scaled",
    "Offload": "weights moved",
}


@login_required
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """The feed, narrowed down by what the URL says, newest first."""
    given = {name: request.GET.get(name, "").replace("\x00", "")[:63] for name in ("group", "team", "q")}
    before = number(request.GET.get("before"), 0, 10**9)
    found = decisions.feed(
        seen_teams(request),
        group=given["group"],
        team=given["team"],
        text=given["q"],
        before=before,
        limit=PAGE + 1,
    )
    context = {
        **given,
        "text": given["q"],
        "rows": [_event(event) for event in found[:PAGE]],
        "older": link(request, before=found[PAGE - 1].pk) if len(found) > PAGE else "",
        "newer": link(request, before=None) if before else "",
        "is_filtered": any(given.values()),
        "team_names": teams_for(request, access.Verb.READ),
        "groups": GROUPS,
        "tab": "feed",
    }
    return answer(request, "decisions", "decision_rows", context)


@login_required
@require_GET
def rounds(request: HttpRequest) -> HttpResponse:
    """The stored rounds of the loops, newest first."""
    loop = request.GET.get("loop", "")
    loop = loop if loop in decisions.LOOPS else ""
    before = number(request.GET.get("before"), 0, 10**9)
    found = decisions.rounds(loop=loop, before=before, limit=PAGE + 1)
    context = {
        "rounds": [{"round": one, "counts": _counts(one.counts)} for one in found[:PAGE]],
        "loop": loop,
        "loops": decisions.LOOPS,
        "older": link(request, before=found[PAGE - 1].number) if len(found) > PAGE else "",
        "newer": link(request, before=None) if before else "",
        "tab": "rounds",
    }
    return answer(request, "rounds", "round_rows", context)


@login_required
@require_GET
def detail(request: HttpRequest, number_: int) -> HttpResponse:
    """One round: what it counted, and each decision about workloads that the viewer may see."""
    found = decisions.round_(number_)
    if found is None:
        raise Http404
    offset = number(request.GET.get("from"), 0)
    told, total = decisions.decided(number_, seen_teams(request), offset=offset, limit=DECISIONS)
    context = {
        "round": found,
        "counts": _counts(found.counts),
        "rows": [_decision(one) for one in told],
        "total": total,
        "older": link(request, **{"from": offset + DECISIONS}) if offset + DECISIONS < total else "",
        "newer": link(request, **{"from": max(0, offset - DECISIONS)}) if offset else "",
        "tab": "rounds",
    }
    return answer(request, "round", "round_detail", context)


def _event(event: Any) -> dict[str, Any]:
    person = "" if event.actor.startswith("loop:") else event.actor
    sentence = words.event_sentence(event.kind, event.reason, event.message, event.data)
    if not event.workload and not event.message:
        sentence = _changes(event.data)
    return {"event": event, "sentence": sentence, "person": person}


def _changes(data: Mapping[str, Any]) -> str:
    """What a person's change changed, where the event says before and after."""
    told = [f"{what}: {before} → {after}" for what, before, after in changes.lines(data) if before]
    return ", ".join(told)


def _counts(counts: Mapping[str, int]) -> list[tuple[str, str]]:
    """(tone, "3 placed") of each kind of decision."""
    return [(TONES.get(kind, "dim"), f"{n:,} {VERBS.get(kind, kind)}") for kind, n in sorted(counts.items())]


def _decision(told: decisions.Told) -> dict[str, Any]:
    one = told.data
    match told.kind:
        case "Place":
            nodes = list(dict.fromkeys(str(worker.get("node")) for worker in one.get("workers", ())))
            said = f"{words.plural(len(one.get('workers', ())), 'worker')} on {words.listed(nodes)}"
            if one.get("after"):
                leaving = len(one["after"])
                said += f", after {words.plural(leaving, 'workload')} {'has' if leaving == 1 else 'have'} left"
        case "Evict" | "Shrink":
            said = str(one.get("message") or one.get("reason") or "")
            said += f" For {told.by}." if told.by else ""
        case "Scale":
            said = f"{words.plural(int(one.get('workers', 0)), 'replica')}: {one.get('message', '')}"
        case _:
            said = str(one.get("message") or "")
    left_out = ("kind", "workload", "message")
    rest = {name: value for name, value in one.items() if name not in left_out and value not in (None, "", [], ())}
    return {
        "told": told,
        "tone": TONES.get(told.kind, "dim"),
        "word": VERBS.get(told.kind, told.kind),
        "reason": str(one.get("reason", "")),
        "sentence": said,
        "data": json.dumps(rest, indent=1, ensure_ascii=False, default=str),
    }
