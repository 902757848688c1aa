"""Where a notebook or a service is reached: the name and port of its Service inside the cluster."""

import re
from collections.abc import Mapping
from typing import Any

from scheduler.model.workload import Kind

NOTEBOOK_PORT = 8888  # Jupyter's

_FRIENDLY = re.compile(r"(?!w-)[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")


def namespace(team: str, prefix: str = "weft-") -> str:
    """The team's namespace; prefix is the setting WEFT_NAMESPACE_PREFIX."""
    return f"{prefix}{team}"


def service(workload: str, name: str) -> str:
    """The Service of a notebook or an inference workload: its own name, where that can name a Service.

    A Service's name begins with a letter; `w-` is kept for names made of a uid, so that no two are ever the same.
    """
    return name if _FRIENDLY.fullmatch(name) else f"w-{workload}"


def ports(spec: Mapping[str, Any]) -> list[int]:
    """The ports that a worker with this job file listens on."""
    if spec.get("type") == Kind.INFERENCE:
        return [int(spec["port"])] if spec.get("port") else []
    given = [int(port) for port in spec.get("ports") or ()]
    return given or ([NOTEBOOK_PORT] if spec.get("type") == Kind.NOTEBOOK else [])


def of(workload: str, team: str, spec: Mapping[str, Any], prefix: str = "weft-") -> str | None:
    """`http://name.namespace.svc:port`, as other pods reach it; None for what has no address."""
    listening = ports(spec)
    if "kubernetes" in spec:  # a Deployment of its user's, with the Services that they have made
        return None
    if spec.get("type") not in (Kind.NOTEBOOK, Kind.INFERENCE) or not listening:
        return None
    return f"http://{service(workload, str(spec.get('name', '')))}.{namespace(team, prefix)}.svc:{listening[0]}"
