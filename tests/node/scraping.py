"""What Prometheus scrapes of a real node: its devices and its kubelet's cAdvisor."""

from typing import Any

from controlplane.testbed.kubernetes import TestCluster
from controlplane.testbed.realnode.node import RealNode


def devices(node: RealNode) -> dict[str, Any]:
    """The job of its GPUs' exporter."""
    return {"job_name": "dcgm", "honor_labels": True, "static_configs": [{"targets": [node.exporter]}]}


def cadvisor(node: RealNode, kubernetes: TestCluster) -> dict[str, Any]:
    """The job of what its containers use."""
    return {
        "job_name": "cadvisor", "honor_labels": True, "scheme": "https", "metrics_path": "/metrics/cadvisor",
        "static_configs": [{"targets": [f"{node.place.address}:10250"]}],
        "authorization": {"credentials": kubernetes.layout.token}, "tls_config": {"insecure_skip_verify": True},
    }  # fmt: skip


def every(seconds: float, *jobs: dict[str, Any]) -> dict[str, Any]:
    """Prometheus' settings: these jobs, so often."""
    text = f"{seconds * 1000:.0f}ms"
    return {"global": {"scrape_interval": text, "scrape_timeout": text}, "scrape_configs": list(jobs)}
