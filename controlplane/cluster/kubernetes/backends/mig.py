"""MIG by NVIDIA's device plugin with the strategy `mixed`: a resource for each profile, an instance for each unit.

Which instance of the node it is the plugin decides, so the GPU that Weft counts it on may be another one; the number of
instances of a profile is the node's. Source: README of NVIDIA/k8s-device-plugin, "MIG".
"""

from controlplane.cluster.kubernetes.backends.port import Json, ask, say
from controlplane.cluster.kubernetes.backends.variables import SAID, noted
from controlplane.cluster.port import PodSpec

PREFIX = "nvidia.com/mig-"  # before the profile


class Mig:
    """The pod asks for one instance; the plugin shows it to the container."""

    accounts = True
    is_asked_for = True
    is_scheduled = False

    def dress(self, pod: PodSpec, body: Json) -> None:
        """Ask for one instance of the profile. Raises ValueError without one."""
        if not pod.profile:
            raise ValueError(f"{pod.name} is a share of a GPU with MIG, and no instance holds it.")
        ask(body, **{f"{PREFIX}{pod.profile}": "1"})
        say(body, *(noted(name, annotation) for name, annotation in SAID.items()))

    def annotations(self, pod: PodSpec, device: str, at: float) -> dict[str, str]:
        """Nothing more."""
        return {}

    def claim(self, pod: PodSpec, owner: Json) -> Json | None:
        """None."""
        return None
