"""When a reason that a claimant was told is written again: another code at once, other words only after a while."""

from typing import Any

import numpy as np

from scheduler.fit.capacity import Refusal
from scheduler.model.settings import Settings
from scheduler.model.workload import Workload


def is_news(workload: Workload, refusal: Refusal, at: float, settings: Settings) -> bool:
    """Whether a reason is worth writing."""
    if workload.reason != refusal.reason:
        return True
    if workload.message == refusal.message:
        return False
    return bool(is_time(workload.reason_at, workload.queued_at, at, settings))


def is_time(told_at: Any, queued_at: Any, at: float, settings: Settings) -> Any:
    """Whether other words for the same reason may be written again, of one or of columns of many."""
    least = settings.wait_refresh_fraction * (told_at - queued_at)
    return at - told_at >= np.maximum(settings.wait_refresh_seconds, least)
