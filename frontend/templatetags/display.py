"""Filters and drawings of the pages: each part has one template, and its geometry is worked out here."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from frontend import lab, words

register = template.Library()
for _filter in (
    words.gpus, words.gpu_hours, words.percent, words.duration, words.latency, words.memory, words.cores, words.exact,
    words.tone, words.iso,
):  # fmt: skip
    register.filter(_filter.__name__, _filter)

PATTERN_AFTER = 8  # teams beyond the eight colours
WIDE, HIGH = 100.0, 24.0  # user units of a sparkline


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
def count(number: int) -> str:
    """A whole number, in groups of three."""
    return f"{number:,}"


@register.filter
def budget_words(service: Any) -> str:
    """What is left of a service's error budget, in words that fit a narrow column."""
    left = service.budget_left
    if left is None:
        return "no requests yet"
    if left < 0:
        return f"budget used {1 - left:,.1f} ×" if left < -1 else "budget used up"
    return f"{'at risk: ' if service.standing == 'at risk' else ''}budget {words.percent(left)}"


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
def minus(a: float, b: float) -> float:
    """a - b."""
    return a - b


@register.filter
def get(mapping: Mapping[str, Any], key: str) -> Any:
    """A mapping's value, or nothing."""
    return mapping.get(key, "")


@register.filter
def pretty(value: object) -> str:
    """JSON to be read."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


@register.filter
def undo(message: Any) -> str:
    """Where the way back of a toast leads: its tag is `undo VERB UID`."""
    _, verb, uid = (str(message.extra_tags or "").split() + ["", "", ""])[:3]
    return reverse("frontend:act", args=[uid, verb]) if uid else ""


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


@register.inclusion_tag("frontend/parts/state.html")
def state(phase: str) -> dict[str, str]:
    """A phase as a coloured word."""
    return {"tone": words.tone(phase), "word": phase}


@register.inclusion_tag("frontend/parts/state.html")
def event_label(kind: str, reason: str = "") -> dict[str, str]:
    """An event as a coloured word."""
    tone, word = words.event_word(kind, reason)
    return {"tone": tone, "word": word}


@register.inclusion_tag("frontend/parts/bullet.html")
def bullet(row: Any, scale: int) -> dict[str, Any]:
    """Nominal (a tick), held (pale), borrowed (hatched) and computing (solid), on one scale for all teams."""
    whole = max(scale, 1)

    def part(milli: float) -> str:
        return f"{min(100.0, 100 * milli / whole):.2f}%"

    own = row.held - row.borrowed
    computing = words.gpus(row.computing)
    return {
        "colour": row.colour,
        "own": part(own),
        "borrowed": part(row.borrowed),
        "has_borrowed": row.borrowed > 0,
        "computing": part(row.computing or 0),
        "nominal": part(row.nominal),
        "label": f"{row.name}: {computing} computing of {words.gpus(row.held)} held, "
        f"{words.gpus(row.nominal)} nominal, {words.gpus(row.borrowed)} borrowed",
    }


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
    tone = {"ok": "ok", "at risk": "warn", "violated": "bad"}.get(str(service.standing), "dim")
    # A used-up budget still shows a stub: nothing at all would read as "not known".
    width = 0.0 if left is None else max(6.0, min(100.0, 100 * left))
    return {"width": f"{width:.1f}%", "tone": tone, "label": f"{words.percent(left)} of the error budget is left"}


@register.inclusion_tag("frontend/parts/gpu.html")
def gpu(device: Any, x: int) -> dict[str, Any]:
    """One GPU as a cell: free is dashed, whole is the team's colour, shares are stacked, unhealthy is crossed."""
    height, top = 18.0, 18.0
    slices = []
    for tenant in device.tenants:
        part = height * min(1.0, tenant.milli / 1000)
        top -= part
        who = f"{tenant.team}/{tenant.name}" if tenant.name else f"team {tenant.team}"
        slices.append({"colour": tenant.colour, "y": f"{max(0.0, top):.1f}", "h": f"{part:.1f}", "who": who,
                       "gpus": words.gpus(tenant.milli), "leaving": tenant.is_leaving})  # fmt: skip
    return {"x": x, "gpu": device, "slices": slices}


@register.filter
def cells(gpus: Iterable[Any]) -> list[tuple[int, Any]]:
    """GPUs with the left edge of their cells."""
    return [(i * 16, device) for i, device in enumerate(gpus)]


@register.filter
def cells_width(gpus: Sequence[Any]) -> int:
    """Width of a row of cells."""
    return max(1, len(gpus) * 16)
