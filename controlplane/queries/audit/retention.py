"""How long what a page shows is kept."""

from django.conf import settings

from controlplane.domain import retention

# By the tab that shows it.
SHOWN = {"feed": retention.EVENTS, "rounds": retention.CYCLES, "audit": retention.AUDIT_LOG}


def days(shown: str) -> int:
    """Days for which the rows of this list are kept; 0 for a list without retention."""
    found = SHOWN.get(shown)
    return int(settings.KEEP_DAYS[found.variable]) if found else 0


def event_days() -> int:
    """Days for which events are kept."""
    return days("feed")
