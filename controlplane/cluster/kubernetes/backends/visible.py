"""Shares that ask Kubernetes for nothing: the placeholder holds the device, and a variable shows it to the container.

So it is where nothing holds a share to its part, where the driver slices the time (advisory as well), and where
software of the node does that reads the pod's annotations, ours among them.
"""

from controlplane.cluster.kubernetes.backends.port import Json, say
from controlplane.cluster.kubernetes.backends.variables import SHARE_VARIABLES, noted
from controlplane.cluster.port import PodSpec


class Visible:
    """The container sees its device, and what it may use of it."""

    accounts = False
    is_asked_for = False
    is_scheduled = False

    def dress(self, pod: PodSpec, body: Json) -> None:
        """Say the device that it will be bound to, and its guarantee, limit and memory."""
        say(body, *(noted(name, annotation) for name, annotation in SHARE_VARIABLES.items()))

    def annotations(self, pod: PodSpec, device: str, at: float) -> dict[str, str]:
        """Nothing more."""
        return {}

    def claim(self, pod: PodSpec, owner: Json) -> Json | None:
        """None."""
        return None
