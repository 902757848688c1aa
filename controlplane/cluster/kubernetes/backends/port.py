"""What the adapter asks of a back-end of shares."""

from typing import Any, Protocol

from controlplane.cluster.port import PodSpec

Json = dict[str, Any]


class PodBackend(Protocol):
    """How a share becomes a pod. The pod's own annotations have its guarantee, limit and memory in any case."""

    accounts: bool  # what the pod asks for is accounted by Kubernetes itself; else our placeholder holds the device
    is_asked_for: bool  # the pod has to ask for it when it is made
    is_scheduled: bool  # kube-scheduler finds the device, on the node that we name, and binds the pod

    def dress(self, pod: PodSpec, body: Json) -> None:
        """Add to a pod that is being built, in place, what makes it a share."""

    def annotations(self, pod: PodSpec, device: str, at: float) -> dict[str, str]:
        """What the Binding adds to the pod. device: what the container runtime calls it; at: Unix time."""

    def claim(self, pod: PodSpec, owner: Json) -> Json | None:
        """An object that has to be there beside the pod, and goes with its owner, which is the pod; or None."""


def main(body: Json) -> Json:
    """The one container of a pod that is being built."""
    found: Json = body["spec"]["containers"][0]
    return found


def ask(body: Json, **quantities: str) -> None:
    """Have the container ask for these resources; of extended ones the requests are the limits."""
    given = main(body).setdefault("resources", {})
    for part in ("requests", "limits"):
        given[part] = {**given.get(part, {}), **quantities}


def say(body: Json, *variables: Json) -> None:
    """Give the container these environment variables."""
    main(body)["env"] = [*main(body).get("env", []), *variables]
