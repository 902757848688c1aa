"""The compose file's services as pods: commands, environment, secrets, health checks and fences are the file's."""

import contextlib
import re
import shlex
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from controlplane.testbed.realnode import ourimage

Json = dict[str, Any]
IMAGE = f"registry.example/{ourimage.NAME}:1"
SECRETS = "weft"  # the object that holds all of them
READ_ONLY = 0o444
CHUNK = 65_536


def secrets(texts: Mapping[str, str]) -> Json:
    """The object with all secrets."""
    return {"metadata": {"name": SECRETS}, "stringData": dict(texts)}


def pod(name: str, said: Mapping[str, Any], *, node: str, home: Path) -> Json:
    """A service of ours as a pod on this node; `home` is the folder there that the services share."""
    shared, at = said["volumes"][0].split(":")
    temporary, _, size = said["tmpfs"][0].partition(":size=")
    items = [{"key": secret, "path": secret} for secret in said["secrets"]]
    volumes = [
        {"name": shared, "hostPath": {"path": str(home), "type": "Directory"}},
        {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": size.upper() + "i"}},
        {"name": "secrets", "secret": {"secretName": SECRETS, "items": items, "defaultMode": READ_ONLY}},
    ]
    mounts = ((shared, at), ("tmp", temporary), ("secrets", "/run/secrets"))
    container: Json = {
        "name": "main",
        "image": IMAGE,
        "command": shlex.split(said["command"]),
        "env": [
            {"name": key, "value": "" if value is None else str(value)} for key, value in said["environment"].items()
        ],
        "securityContext": {
            "readOnlyRootFilesystem": said["read_only"],
            "capabilities": {"drop": said["cap_drop"]},
            "allowPrivilegeEscalation": "no-new-privileges:true" not in said["security_opt"],
            "runAsNonRoot": True,
        },
        "volumeMounts": [{"name": volume, "mountPath": path} for volume, path in mounts],
        **readiness(said.get("healthcheck")),
    }
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "nodeName": node,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "restartPolicy": "Never" if said["restart"] == "no" else "Always",
            "terminationGracePeriodSeconds": _seconds(said["stop_grace_period"]),
            "containers": [container],
            "volumes": volumes,
        },
    }


def readiness(check: Mapping[str, Any] | None) -> Json:
    """The service's health check, by which its pod is ready. No engine starts an ill container of the file again."""
    if check is None:
        return {}
    kind, *command = check["test"]
    if kind != "CMD":
        raise ValueError(f"a health check by {kind}")
    probe = {
        "exec": {"command": command},
        "periodSeconds": _seconds(check["interval"]),
        "timeoutSeconds": _seconds(check["timeout"]),
        "failureThreshold": check.get("retries", 3),
        "initialDelaySeconds": _seconds(check.get("start_period", "0s")),
    }
    return {"readinessProbe": probe}


def _seconds(text: str) -> int:
    found = re.fullmatch(r"(\d+)s", text)
    if found is None:
        raise ValueError(f"{text} is no number of seconds")
    return int(found[1])


@contextlib.contextmanager
def relay(address: str, port: int) -> Iterator[None]:
    """Let pods reach a server of this port of loopback at the same port of this address."""
    with socket.create_server((address, port)) as server:
        threading.Thread(target=_accept, args=(server, port), name=f"relay-{port}", daemon=True).start()
        try:
            yield
        finally:
            server.shutdown(socket.SHUT_RDWR)


def _accept(server: socket.socket, port: int) -> None:
    with contextlib.suppress(OSError):  # the end
        while True:
            one, _ = server.accept()
            other = socket.create_connection(("127.0.0.1", port))
            for source, target in ((one, other), (other, one)):
                threading.Thread(target=_pump, args=(source, target), daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while part := source.recv(CHUNK):
            target.sendall(part)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
