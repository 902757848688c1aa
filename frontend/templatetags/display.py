"""Filters and drawings of the pages: each part has one template, and its geometry is worked out here."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django import template
from django.conf import settings
from django.template.defaultfilters import floatformat
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from autoscaler.sla import Standing
from controlplane.domain.holds import Hold
from controlplane.queries.audit import retention
from frontend import drawing, lab, trainingwords, words
from gpushare.backends.catalogue import BACKENDS, Backend, Guarantee
from gpushare.gpu import Enforcer

register = template.Library()
for _filter in (
    words.gpus, words.gpu_hours, words.percent, trainingwords.gain, words.duration, words.latency, words.memory,
    words.cores, words.exact, words.tone, words.iso, words.burn, words.promised, words.p95,
):  # fmt: skip
    register.filter(_filter.__name__, _filter)

PATTERN_AFTER = 8  # teams beyond the eight colours
WIDE, HIGH = 100.0, 24.0  # user units of a sparkline


@register.simple_tag
def kept_days(shown: str) -> int:
    """Days for which what this tab shows is kept; 0 for no limit."""
    return retention.days(shown)


@register.filter
def backend(name: str) -> Backend:
    """What is known of what holds shares to their parts, by its name."""
    return BACKENDS[Enforcer(name)]


@register.filter
def guarantees(row: Backend) -> str:
    """What it holds of a share, in words."""
    return "holds " + ", ".join(one.value for one in Guarantee if one in row.guarantees)


# How a worker's hold on a GPU reads; the second is what that is.
HOLDS = {
    Hold.WHOLE: ("whole GPU", "Nobody else computes on it."),
    Hold.SHARE: ("share", "A part of the GPU: it always gets its guarantee, and may use up to its limit."),
    Hold.ON_DEMAND: (
        "on demand",
        "A notebook that has a GPU of its node while a cell runs; else it is in host memory.",
    ),
    Hold.STANDBY: ("on standby", "A replica that is loaded and serves no request until it wakes."),
    Hold.LENT: ("on a lent GPU", "A training's worker on the GPU of a replica on standby, until that wakes."),
    Hold.HARVEST: ("harvest", "A training's worker in the time that the shares leave; nothing is guaranteed to it."),
}


@register.filter
def hold(name: str) -> tuple[str, str]:
    """By what a worker is on a GPU, in words, and what that is."""
    return HOLDS[Hold(name)]


@register.filter
def asks(workload: Any) -> str:
    """What a workload asks for."""
    columns = ("workers", "gpu_models", "share_guarantee", "gpus", "cpu_milli", "topology_require", "roles")
    return words.asks({name: getattr(workload, name) for name in columns})


@register.filter
def gpus_round(milli: float | None) -> str:
    """Measured milli-GPU, to the whole GPU."""
    return words.NOT_KNOWN if milli is None else f"{milli / 1000:,.0f}"


@register.filter
def gpus_measured(milli: float | None) -> str:
    """Measured milli-GPU, each with one decimal, so that a column of them is aligned."""
    return words.NOT_KNOWN if milli is None else f"{milli / 1000:,.1f}"


@register.filter
def count(number: int) -> str:
    """A whole number, in groups of three."""
    return f"{number:,}"


@register.filter
def standing_tone(service: Any) -> str:
    """The colour of a number that says how a service stands; none where it stands well or that is not known."""
    tone = words.STANDINGS[service.standing][0]
    return tone if tone in ("bad", "warn") else ""


@register.filter
def stood(minutes: Mapping[Standing, int]) -> list[tuple[str, str, float]]:
    """(tone, word, minutes) of each standing that a service had for a time."""
    return [(*words.STANDINGS[word], count) for word, count in minutes.items() if count]


@register.filter
def spent(minutes: int) -> str:
    """Minutes as a length of time."""
    return words.duration(60.0 * minutes)


@register.filter
def budget_words(service: Any) -> str:
    """What is left of a service's error budget, in words that fit a narrow column."""
    left = service.budget_left
    if left is None:
        return "no requests yet"
    if left <= 0:
        return f"error budget used {1 - left:,.1f}x" if left < -1 else "error budget exhausted"
    return f"budget {words.percent(left)}".replace(" %", "\u00a0%")


@register.simple_tag
def currency() -> str:
    """What costs and prices are in."""
    return str(settings.CURRENCY)


@register.filter
def money(amount: Decimal) -> str:
    """An amount with its currency, which stay on one line."""
    return f"{floatformat(amount, '2g')}\u00a0{settings.CURRENCY}"


@register.filter
def plural(number: int, word: str) -> str:
    """ "4 workers"."""
    return words.plural(number, word)


@register.filter
def what_differs(asked: Mapping[str, Any]) -> str:
    """A what-if in a few words: its policy, settings, quotas and nodes."""
    return lab.differs(asked)


@register.filter
def what_replayed(asked: Mapping[str, Any]) -> str:
    """What a what-if replays."""
    return lab.replayed(asked)


@register.filter
def get(mapping: Mapping[str, Any], key: str) -> Any:
    """A mapping's value, or nothing."""
    return mapping.get(key, "")


@register.filter
def pretty(value: object) -> str:
    """JSON to be read."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


@register.filter
def undo(message: Any) -> dict[str, Any]:
    """The way back of a toast, an address and what is sent there; empty without one.

    Its tag says `undo VERB UID [PRIORITY]`, `undo VERB node/NAME` of a machine, or `undo-view QUERY NAME`.
    """
    word, first, second, *rest = (str(message.extra_tags or "").split() + ["", "", ""])[:12]
    if word == "undo" and second.startswith("node/"):
        return {"url": reverse("frontend:node_act", args=[second.removeprefix("node/"), first]), "fields": {}}
    if word == "undo" and second:
        return {
            "url": reverse("frontend:act", args=[second, first]),
            "fields": {"priority": rest[0]} if any(rest) else {},
        }
    if word == "undo-view" and second:
        query, name = "" if first == "-" else first, " ".join([second, *filter(None, rest)])
        return {"url": reverse("frontend:save_view"), "fields": {"query": query, "name": name}}
    return {}


@register.simple_tag(takes_context=True)
def ago(context: Mapping[str, Any], at: float | None, suffix: str = "") -> SafeString | str:
    """How long ago by the cluster's clock, with the exact moment for hover and machines."""
    if at is None:
        return words.NOT_KNOWN
    now = context["clock"].now
    text = words.duration(now - at) + (f" {suffix}" if suffix else "")
    name = "simulated cluster clock" if context["clock"].is_simulated else "cluster clock"
    return format_html(
        '<time datetime="{}" title="{} UTC, {}" data-at="{}" data-suffix="{}">{}</time>',
        words.iso(at), words.exact(at), name, at, suffix, text,
    )  # fmt: skip


@register.simple_tag
def moment(at: datetime) -> SafeString:
    """How long ago, or in how long, by the real clock: of sign-ins and tokens."""
    seconds = (timezone.now() - at).total_seconds()
    text = f"{words.duration(seconds)} ago" if seconds >= 0 else f"in {words.duration(-seconds)}"
    exact = at.astimezone(UTC)
    return format_html(
        '<time datetime="{}" title="{} UTC">{}</time>', exact.isoformat(), exact.strftime("%d %b %Y, %H:%M:%S"), text
    )


@register.filter
def browser(agent: str) -> str:
    """The browser and the system that a User-Agent header names, as far as one can tell."""
    names = (("Edg/", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"), ("Safari/", "Safari"))
    systems = (
        ("Windows", "Windows"),
        ("Android", "Android"),
        ("iPhone", "iPhone"),
        ("Mac OS", "macOS"),
        ("Linux", "Linux"),
    )
    name = next((shown for mark, shown in names if mark in agent), "Another browser")
    system = next((shown for mark, shown in systems if mark in agent), "")
    return f"{name} on {system}" if system else name


@register.simple_tag(takes_context=True)
def clocktime(context: Mapping[str, Any], at: float | None) -> SafeString | str:
    """The time of day on the cluster's clock."""
    if at is None:
        return words.NOT_KNOWN
    clock = context["clock"]
    name = "simulated cluster clock" if clock.is_simulated else "cluster clock"
    title = f"{words.exact(at)} UTC, {name}"
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', words.iso(at), title, words.clock_time(at, clock.now)
    )


@register.simple_tag
def day(at: float) -> SafeString:
    """A day of the calendar, UTC."""
    return format_html('<time datetime="{}">{}</time>', words.iso(at)[:10], words.exact(at)[:10])


@register.inclusion_tag("frontend/parts/state.html")
def state(phase: str) -> dict[str, str]:
    """A phase as a coloured word."""
    return {"tone": words.tone(phase), "word": phase}


@register.inclusion_tag("frontend/parts/standing.html")
def standing(phase: str, standing: Standing | str | None) -> dict[str, Any]:
    """A phase and how the service stands against its objective, as two words; that it runs is no good news then."""
    if not standing:  # none, or, as templates write what there is not, an empty text
        return {"states": [(words.tone(phase), phase)]}
    is_up = words.tone(phase) == "ok"
    return {"states": [("dim" if is_up else words.tone(phase), phase), words.STANDINGS[Standing(standing)]]}


@register.inclusion_tag("frontend/parts/state.html")
def event_label(kind: str, reason: str = "") -> dict[str, str]:
    """An event as a coloured word."""
    tone, word = words.event_word(kind, reason)
    return {"tone": tone, "word": word}


@register.simple_tag
def bullet(row: Any, scale: int) -> SafeString | str:
    """Nominal (a tick), held (pale), borrowed (hatched) and computing (solid), on one scale for all teams."""
    return drawing.bullet(row.name, row.colour, row, row.computing, scale)


@register.simple_tag
def quota_bullet(team: Any, quota: Any, scale: int) -> SafeString | str:
    """The same of one team in one pool; what computes is not known by pool."""
    return drawing.bullet(f"{team.name} in {quota.pool}", team.colour, quota, None, scale)


@register.inclusion_tag("frontend/parts/sparkline.html")
def sparkline(values: Sequence[float]) -> dict[str, Any]:
    """A line of the last hours without axes; nothing for fewer than two values."""
    if len(values) < 2:
        return {"points": ""}
    low, high = min(values), max(values)
    spread = (high - low) or 1.0
    step = WIDE / (len(values) - 1)
    points = [f"{i * step:.1f},{HIGH - 2 - (v - low) / spread * (HIGH - 4):.1f}" for i, v in enumerate(values)]
    return {"points": " ".join(points)}


@register.inclusion_tag("frontend/parts/budget.html")
def budget(service: Any) -> dict[str, Any]:
    """How much of a service's error budget is left."""
    left = service.budget_left
    tone = words.STANDINGS[service.standing][0]
    # A used-up budget still shows a stub: nothing at all would read as "not known".
    width = 0.0 if left is None else max(6.0, min(100.0, 100 * left))
    return {"width": f"{width:.1f}%", "tone": tone, "label": _budget_label(left)}


def _budget_label(left: float | None) -> str:
    if left is None:
        return "the error budget is not known: there were no requests"
    return f"{words.percent(left)} of the error budget is left" if left > 0 else "error budget exhausted"


@register.simple_tag
def gpu(device: Any, x: int, show: str = "") -> SafeString | str:
    """One GPU as a cell, of which `use` also shows how much of the time it computes."""
    return drawing.cell(device, x, shows_use=show == "use")


@register.simple_tag(name="gpus")
def gpu_row(devices: Sequence[Any], show: str = "") -> SafeString | str:
    """The GPUs of one machine side by side; `show` as in `gpu`."""
    return drawing.row(devices, shows_use=show == "use")


@register.filter
def cells_width(gpus: Sequence[Any]) -> int:
    """Width of a row of cells."""
    return max(1, len(gpus) * 16)
