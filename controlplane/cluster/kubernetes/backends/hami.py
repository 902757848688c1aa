"""HAMi without its scheduler: the pod has the decision in HAMi's own annotations, and its device plugin follows them.

It finds the pod that is being allocated on its node, reads device, MiB and percent there, and mounts HAMi-core. Only
one pod of a node may be in that state at a time, which HAMi's scheduler sees to by a lock that we may not write. Its
admission webhook leaves pods alone whose scheduler is another. Source: "Protocol design" of Project-HAMi/HAMi.
"""

from collections.abc import Iterable

from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.backends.port import Json, ask, say
from controlplane.cluster.kubernetes.backends.variables import SAID, noted
from controlplane.cluster.port import PodSpec

MEMORY, CORES = "nvidia.com/gpumem", "nvidia.com/gpucores"  # MiB; percent of one GPU
REGISTERED = "hami.io/node-nvidia-register"  # of a node: its devices
NODE, TIME = "hami.io/vgpu-node", "hami.io/vgpu-time"
TO_ALLOCATE, ALLOCATED = "hami.io/vgpu-devices-to-allocate", "hami.io/vgpu-devices-allocated"
PHASE, BOUND_AT = "hami.io/bind-phase", "hami.io/bind-time"
OF_BINDING = (NODE, TIME, TO_ALLOCATE, ALLOCATED, PHASE, BOUND_AT)
ALLOCATING = "allocating"
KIND = "NVIDIA"


class Hami:
    """The pod asks for one virtual GPU, its memory and its percent; the Binding says which GPU that is of."""

    accounts = True
    is_asked_for = True
    is_scheduled = False

    def dress(self, pod: PodSpec, body: Json) -> None:
        """Ask for one virtual GPU."""
        ask(body, **{names.GPU_RESOURCE: "1", MEMORY: str(pod.gpu_memory), CORES: str(pod.milli // 10)})
        say(body, *(noted(name, annotation) for name, annotation in SAID.items()))

    def annotations(self, pod: PodSpec, device: str, at: float) -> dict[str, str]:
        """The decision in HAMi's form."""
        given = allotted(device, pod.gpu_memory, pod.milli // 10)
        now = str(int(at))
        return {
            NODE: pod.node,
            TIME: now,
            TO_ALLOCATE: given,
            ALLOCATED: given,
            PHASE: ALLOCATING,
            BOUND_AT: now,
        }

    def claim(self, pod: PodSpec, owner: Json) -> Json | None:
        """None."""
        return None


def allotted(device: str, memory: int, percent: int) -> str:
    """One container with a part of one device: a colon ends each device, a semicolon each container."""
    return f"{device},{KIND},{memory},{percent}:;"


def registered(text: str) -> tuple[tuple[str, bool], ...]:
    """The devices that a node has registered, in its order: what each is called, and whether it is well.

    Seven or nine fields each; () where the text is of no such form.
    """
    found = []
    for part in _parts(text):
        fields = part.split(",")
        if len(fields) not in (7, 9) or not fields[0]:
            return ()
        found.append((fields[0], fields[6].strip().lower() == "true"))
    return tuple(found)


def _parts(text: str) -> Iterable[str]:
    return (part for part in text.split(":") if part.strip())
