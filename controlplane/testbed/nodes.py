"""Machines for the test cluster, as Kubernetes nodes that KWOK plays the kubelet of."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from controlplane.simulator.worlds import catalogue, openb
from scheduler.model.snapshot import Node

FAKE = ("kwok.x-k8s.io/node", "fake")  # the annotation by which KWOK knows its nodes
MAX_PODS = 256
NODES_PER_RACK, RACKS_PER_ZONE = 16, 8


def fleet(count: int, *, gpus: int = 8) -> tuple[Node, ...]:
    """`count` equal machines: node-0000, node-0001, ..., 16 to a rack and 8 racks to a zone."""
    return tuple(_machine(f"node-{i:04}", gpus, i) for i in range(count))


def named(*names: str, gpus: int = 8) -> tuple[Node, ...]:
    """Equal machines of these names."""
    return tuple(_machine(name, gpus, i) for i, name in enumerate(names))


def of_openb(data: Path) -> tuple[tuple[Node, ...], str]:
    """The 1,213 GPU machines of Alibaba's openb trace, or of the model after it, and which. Raises PresetError."""
    machines, source = catalogue.openb_machines(data)
    return openb.nodes(machines), source


def manifest(node: Node, port: int = 0) -> dict[str, Any]:
    """The node as its kubelet would register it, ready; port is the kubelet's, for logs."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    resources = {
        "cpu": f"{node.cpu_milli}m",
        "memory": f"{node.memory}Mi",
        "pods": str(MAX_PODS),
        "nvidia.com/gpu": str(node.gpus),
    }
    healthy = resources | {"nvidia.com/gpu": str(node.gpus - len(node.lost))}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "KubeletReady"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": _labels(node), "annotations": dict([FAKE])},
        "spec": {"unschedulable": True} if not node.schedulable else {},
        "status": {
            "capacity": resources,
            "allocatable": healthy,
            "conditions": [ready | {"lastHeartbeatTime": now, "lastTransitionTime": now}],
            "addresses": [
                {"type": "InternalIP", "address": "127.0.0.1"},
                {"type": "Hostname", "address": node.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            "nodeInfo": dict.fromkeys(_NODE_INFO, "") | {"architecture": "amd64", "operatingSystem": "linux"},
            "phase": "Running",
        },
    }


_NODE_INFO = (
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "osImage",
    "systemUUID",
)


def _labels(node: Node) -> dict[str, str]:
    """Those of NVIDIA's GPU feature discovery, Kubernetes' zone and our own for the rest."""
    labels = {
        "kubernetes.io/hostname": node.name,
        "nvidia.com/gpu.product": node.model,
        "nvidia.com/gpu.memory": str(node.gpu_memory),
        "nvidia.com/gpu.count": str(node.gpus),
        "weft.dev/pool": node.pool,
        "weft.dev/rack": node.rack,
        "topology.kubernetes.io/zone": node.zone,
        "weft.dev/nvlink": str(node.nvlink),
        "weft.dev/shares": "true" if node.takes_shares else "",
        "weft.dev/shares-enforced": "true" if node.takes_shares and node.enforces_limits else "",
    }
    return {name: value for name, value in labels.items() if value}


def _machine(name: str, gpus: int, index: int) -> Node:
    rack = index // NODES_PER_RACK
    return Node(
        name=name,
        pool="a100",
        model="A100",
        gpus=gpus,
        gpu_memory=80 * 1024,
        cpu_milli=12_000 * gpus,
        memory=128 * 1024 * gpus,
        rack=f"rack-{rack:02}",
        zone=f"zone-{rack // RACKS_PER_ZONE}",
        nvlink=gpus,
    )
