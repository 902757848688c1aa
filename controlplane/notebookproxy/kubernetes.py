"""The port `Doors` over Kubernetes: the address of the notebook's pod. It lists pods, as what shows logs does."""

from typing import Any

from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.api import Api, RefusedError
from controlplane.cluster.kubernetes.connection import Access
from controlplane.cluster.port import ClusterUnreachable, pod_name
from controlplane.domain import addresses
from controlplane.notebookproxy.doors import DoorError
from controlplane.queries.accounts.visiting import Seat


class KubernetesDoors:
    """Pods by their names; close it after use."""

    def __init__(self, access: Access, *, prefix: str) -> None:
        self._api, self._prefix = Api(access, in_flight=16, name="notebooks"), prefix

    def address(self, seat: Seat) -> str | None:
        """Of the pod of this attempt, once it has one."""
        name = pod_name(str(seat.notebook), seat.attempt, 0)
        path = f"/api/v1/namespaces/{addresses.namespace(seat.team, self._prefix)}/pods"
        query = {"labelSelector": f"{names.WORKLOAD}={seat.notebook}"}
        try:
            found = self._api.call(self._api.request("GET", path, query=query))["items"]
        except RefusedError as error:
            raise DoorError(str(error)) from error
        except ClusterUnreachable as error:
            raise DoorError(f"The cluster does not answer: {error}") from error
        pod: dict[str, Any] = next((one for one in found if one["metadata"]["name"] == name), {})
        host = str((pod.get("status") or {}).get("podIP") or "")
        return f"[{host}]:{seat.port}" if ":" in host else f"{host}:{seat.port}" if host else None

    def close(self) -> None:
        """End its connections."""
        self._api.close()
