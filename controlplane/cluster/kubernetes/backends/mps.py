"""MPS by NVIDIA's device plugin: one unit of `nvidia.com/gpu.shared`, and the client's own limits in its variables.

The plugin brings the control daemon's pipe and its shared memory into the container. A client's variables can only
lower what the daemon allows, which with the plugin is an equal part for each of its replicas. Sources: README of
NVIDIA/k8s-device-plugin, "With CUDA MPS" (with renameByDefault); NVIDIA's MPS guide, "Environment variables".
"""

from controlplane.cluster.kubernetes.backends.port import Json, ask, say
from controlplane.cluster.kubernetes.backends.variables import SAID, noted
from controlplane.cluster.port import PodSpec

RESOURCE = "nvidia.com/gpu.shared"
PERCENTAGE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"  # of each device's threads, a whole number
MEMORY = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"  # DEVICE=AMOUNT; in the container its one device is number 0


class Mps:
    """The guarantee is its part of the threads: the parts of one GPU add up to all of it."""

    accounts = True
    is_asked_for = True
    is_scheduled = False

    def dress(self, pod: PodSpec, body: Json) -> None:
        """Ask for one client's place, with its limits."""
        ask(body, **{RESOURCE: "1"})
        own = ({"name": PERCENTAGE, "value": str(pod.milli // 10)}, {"name": MEMORY, "value": f"0={pod.gpu_memory}M"})
        say(body, *own, *(noted(name, annotation) for name, annotation in SAID.items()))

    def annotations(self, pod: PodSpec, device: str, at: float) -> dict[str, str]:
        """Nothing more."""
        return {}

    def claim(self, pod: PodSpec, owner: Json) -> Json | None:
        """None."""
        return None
