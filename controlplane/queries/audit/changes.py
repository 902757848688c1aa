"""What people changed: events about one thing, each with the values before and after."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q

from controlplane.models import Event
from gpushare.gpu import WHOLE

MILLI = ("nominal", "borrowing_limit", "lending_limit")  # values of events that are milli-GPU
LABELS = {"price_per_gpu_hour": "price per GPU-hour"}


@dataclass(frozen=True, slots=True)
class Change:
    """One event. at is the database's clock; lines are (what, before, after), before empty where it was nothing."""

    at: datetime
    actor: str
    kind: str
    lines: tuple[tuple[str, str, str], ...]


def told(about: Q, limit: int) -> list[Change]:
    """The newest events that match, newest first. One query."""
    found = Event.objects.filter(about).order_by("-id")[:limit]
    return [Change(event.at, event.actor, event.kind, lines(event.data)) for event in found]


def lines(data: Mapping[str, Any]) -> tuple[tuple[str, str, str], ...]:
    """An event's data as lines: [before, after] as two values, anything else as the value after."""
    out = []
    for name, value in data.items():
        before, after = value if isinstance(value, list) and len(value) == 2 else (None, value)
        label = LABELS.get(name, name.replace("_", " "))
        out.append((label, _said(name, before) if isinstance(value, list) else "", _said(name, after)))
    return tuple(out)


def _said(name: str, value: Any) -> str:
    if name in MILLI and (value is None or isinstance(value, int)):
        return ("0" if name == "nominal" else "no limit") if value is None else f"{value / WHOLE:g} GPUs"
    return "–" if value is None else "yes" if value is True else "no" if value is False else str(value)
