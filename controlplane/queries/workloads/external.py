"""What an autoscaler of Kubernetes may ask of one workload (controlplane/externalmetrics)."""

from uuid import UUID

from django.conf import settings

from controlplane.domain import addresses
from controlplane.models import ServiceWindow, Workload
from controlplane.queries.scheduling.snapshot import observed_at

WINDOW_SECONDS = 60.0  # of a ServiceWindow row
STALE_SECONDS = 180.0  # a newest minute that ended before that says nothing of now


def requests_per_second(namespace: str, uid: str) -> tuple[int, float] | None:
    """Requests a second of all replicas in thousandths, and when; None: not known, or of another namespace."""
    try:
        key = UUID(uid)
    except ValueError:
        return None
    team = Workload.objects.filter(pk=key).values_list("team__name", flat=True).first()
    if team is None or addresses.namespace(team, settings.NAMESPACE_PREFIX) != namespace:
        return None
    since = observed_at() - WINDOW_SECONDS - STALE_SECONDS
    known = ServiceWindow.objects.filter(workload=key, start__gte=since, requests_per_second__isnull=False)
    newest = known.order_by("-start").values_list("requests_per_second", "start").first()
    if newest is None:
        return None
    rate, start = newest
    return round(1000 * (rate or 0.0)), start + WINDOW_SECONDS
