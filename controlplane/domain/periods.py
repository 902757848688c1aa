"""The periods of a budget or report, by the cluster's clock in UTC. Free of the database."""

from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum


class Period(StrEnum):
    """How long a budget lasts before it begins anew."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"


def span(period: Period, at: float) -> tuple[float, float]:
    """Start and end, cluster-clock seconds, of the period that `at` lies in; weeks begin on Monday."""
    day = datetime.fromtimestamp(at, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if period is Period.DAY:
        start, end = day, day + timedelta(days=1)
    elif period is Period.WEEK:
        start = day - timedelta(days=day.weekday())
        end = start + timedelta(days=7)
    else:
        start = day.replace(day=1)
        end = (start + timedelta(days=32)).replace(day=1)
    return start.timestamp(), end.timestamp()


def month_at(text: str) -> float:
    """The start, cluster-clock seconds, of a month such as `2026-11`. Raises ValueError."""
    day = None
    with suppress(ValueError):
        day = date.fromisoformat(f"{text}-01")
    if day is None or len(text) != len("2026-11"):
        raise ValueError(f"{text!r} is not a month. Write it as 2026-11")
    return datetime(day.year, day.month, 1, tzinfo=UTC).timestamp()


def month_of(at: float) -> str:
    """The month that a moment lies in, such as `2026-11`."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m}"
