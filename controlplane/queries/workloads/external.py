"""What an autoscaler of Kubernetes may ask of one workload (controlplane/externalmetrics)."""

from uuid import UUID

from django.conf import settings

from controlplane.adopted.native import IN_FLIGHT
from controlplane.domain import addresses
from controlplane.models import ServiceScaler, ServiceWindow, Workload
from controlplane.queries.scheduling.snapshot import observed_at

WINDOW_SECONDS = 60.0  # of a ServiceWindow row
STALE_SECONDS = 180.0  # a newest minute that ended before that says nothing of now


def value(metric: str, namespace: str, uid: str) -> tuple[int, float] | None:
    """A metric of one workload in thousandths, and when; None: not known, or of another namespace."""
    return in_flight(namespace, uid) if metric == IN_FLIGHT else requests_per_second(namespace, uid)


def in_flight(namespace: str, uid: str) -> tuple[int, float] | None:
    """Requests that replicas work on or that wait for one, in thousandths, and when; None: not known."""
    key = _within(namespace, uid)
    if key is None:
        return None
    fresh = ServiceScaler.objects.filter(workload=key, at__gte=observed_at() - STALE_SECONDS, in_flight__isnull=False)
    found = fresh.values_list("in_flight", "at").first()
    return None if found is None else (found[0] or 0, found[1] or 0.0)


def _within(namespace: str, uid: str) -> UUID | None:
    """The key of a workload whose team has this namespace."""
    try:
        key = UUID(uid)
    except ValueError:
        return None
    team = Workload.objects.filter(pk=key).values_list("team__name", flat=True).first()
    is_there = team is not None and addresses.namespace(team, settings.NAMESPACE_PREFIX) == namespace
    return key if is_there else None


def requests_per_second(namespace: str, uid: str) -> tuple[int, float] | None:
    """Requests a second of all replicas in thousandths, and when; None: not known, or of another namespace."""
    key = _within(namespace, uid)
    if key is None:
        return None
    since = observed_at() - WINDOW_SECONDS - STALE_SECONDS
    known = ServiceWindow.objects.filter(workload=key, start__gte=since, requests_per_second__isnull=False)
    newest = known.order_by("-start").values_list("requests_per_second", "start").first()
    if newest is None:
        return None
    rate, start = newest
    return round(1000 * (rate or 0.0)), start + WINDOW_SECONDS
