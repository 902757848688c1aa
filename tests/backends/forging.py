"""Pods made otherwise than Weft makes them, and what the API server says to them."""

from typing import Any

from controlplane.benchmarks.harness import rights
from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes import pods as builder
from controlplane.cluster.port import PodSpec
from controlplane.testbed.kubernetes import TestCluster
from tests.controlplane.kubernetes.fences import refusal

TEAM = "/api/v1/namespaces/weft-nlp/pods"
DROPPED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def said(server: TestCluster, pod: PodSpec, change: Any) -> str:
    """What the API server says to the scheduler's own account when the pod is made otherwise."""
    body = builder.build(pod, namespace="weft-nlp")
    change(body)
    token = server.token(rights.ACCOUNT)
    return refusal(lambda: server.request("POST", f"{TEAM}?dryRun=All", body, token=token))


def limits(**amounts: str | None) -> Any:
    def change(body: dict[str, Any]) -> None:
        for part in ("limits", "requests"):
            given = body["spec"]["containers"][0]["resources"][part]
            given.update({k: v for k, v in amounts.items() if v is not None})
            for key in (k for k, v in amounts.items() if v is None):
                given.pop(key, None)

    return change


def annotation(text: str | None) -> Any:
    return noted(names.ENFORCER, text)


def noted(key: str, text: str | None, kind: str = "") -> Any:
    def change(body: dict[str, Any]) -> None:
        body["metadata"]["annotations"].pop(key, None)
        body["metadata"]["annotations"] |= {key: text} if text is not None else {}
        body["metadata"]["labels"] |= {names.KIND: kind} if kind else {}

    return change


def variable(name: str, value: str) -> Any:
    def change(body: dict[str, Any]) -> None:
        env = body["spec"]["containers"][0]["env"]
        body["spec"]["containers"][0]["env"] = [one for one in env if one["name"] != name] + [
            {"name": name, "value": value}
        ]

    return change


def first(**fields: Any) -> Any:
    """Of the container before the main one; one that is as the main one, where there is none."""

    def change(body: dict[str, Any]) -> None:
        (given,) = body["spec"].get("initContainers") or body["spec"]["containers"]
        body["spec"]["initContainers"] = [{**given, **fields}]

    return change


def spec(**fields: Any) -> Any:
    return lambda body: body["spec"].update(fields)
