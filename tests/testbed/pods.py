"""Pods for the tests of the test cluster."""

from typing import Any

PODS = "/api/v1/namespaces/default/pods"


def pod(name: str, node: str = "a", **annotations: str) -> dict[str, Any]:
    """A pod bound to a node, steered by the annotations of stages.yaml."""
    named = {f"kwok.weft.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    size = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": named},
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "main", "image": "registry.example/x", "resources": size}],
        },
    }
