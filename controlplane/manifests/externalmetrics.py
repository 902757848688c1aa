"""What has the API server pass requests of the external metrics API on to us. Only one may serve it in a cluster."""

from typing import Any

from controlplane.adopted.native import METRICS_GROUP, METRICS_VERSION
from controlplane.manifests.site import METRICS, Json, Site, obj

PRIORITY = 100  # of the group and the version: nothing else has them


def external_metrics(site: Site) -> list[Json]:
    """The Service and the registration; nothing unless it is asked for."""
    if not site.has_external_metrics:
        return []
    ports = [{"port": 443, "targetPort": 8443, "protocol": "TCP"}]
    service = {"ports": ports, "selector": {"app.kubernetes.io/name": METRICS}}
    spec: dict[str, Any] = {
        "group": METRICS_GROUP,
        "version": METRICS_VERSION,
        "service": {"namespace": site.namespace, "name": METRICS, "port": 443},
        "groupPriorityMinimum": PRIORITY,
        "versionPriority": PRIORITY,
    }
    if site.admission_ca:
        spec["caBundle"] = site.admission_ca
    return [
        obj("v1", "Service", METRICS, site.namespace, spec=service),
        obj("apiregistration.k8s.io/v1", "APIService", f"{METRICS_VERSION}.{METRICS_GROUP}", spec=spec),
    ]
