"""A claim on storage of the real node, bound by hand: this cluster has no controller that would."""

from pathlib import Path
from typing import Any

from controlplane.testbed.kubernetes import TestCluster
from controlplane.testbed.realnode.node import RealNode
from controlplane.testbed.realnode.settings import NAME

SIZE = "1Gi"
PLAIN = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}


def claim(server: TestCluster, node: RealNode, namespace: str, name: str) -> Path:
    """Make a claim of this name; the folder on this machine where its files are."""
    inside, outside = node.storage(name)
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    asked = {"resources": {"requests": {"storage": SIZE}}, "volumeName": name, **PLAIN}
    made = server.request("POST", claims, {"metadata": {"name": name}, "spec": asked})
    here = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [NAME]}]}
    volume: dict[str, Any] = {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": SIZE},
            "local": {"path": str(inside)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
            "claimRef": {"namespace": namespace, "name": name, "uid": made["metadata"]["uid"]},
            "persistentVolumeReclaimPolicy": "Retain",
            **PLAIN,
        },
    }
    volumes = "/api/v1/persistentvolumes"
    server.delete(f"{volumes}/{name}")
    server.request("POST", volumes, volume)
    # What would keep them until a controller that is not there has looked.
    for path in (f"{claims}/{name}", f"{volumes}/{name}"):
        server.patch(path, {"metadata": {"finalizers": None}})
    server.patch(f"{volumes}/{name}/status", {"status": {"phase": "Bound"}})
    bound = {"phase": "Bound", "capacity": {"storage": SIZE}, "accessModes": PLAIN["accessModes"]}
    server.patch(f"{claims}/{name}/status", {"status": bound})
    return outside
