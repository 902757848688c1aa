"""When a notebook that nobody uses is parked: by its job file, and by its team."""

from collections.abc import Mapping
from typing import Any

MINUTE = 60.0
MOST_MINUTES = 60 * 24 * 366  # as of idle.park_after


def park_after(spec: Mapping[str, Any], minutes: int) -> float | None:
    """Seconds without use after which a notebook is parked, by its stored job file and its team; None: never.

    minutes: the team's limit, 0 for none.
    """
    asked = (spec.get("normalised") or {}).get("park_after_seconds")
    limit = MINUTE * minutes or None
    return min((float(one) for one in (asked, limit) if one), default=None)
