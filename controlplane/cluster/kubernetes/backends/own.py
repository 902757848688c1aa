"""Our own back-end: the node's plug-in brings the library into the pod, whose first container sees that it loads.

The loader only warns of a library that it cannot preload, and the program would have the whole GPU. So `weft-gpu-run`
runs first, in the same image with the same slot: it waits until the share is served, tries the library, and ends with
the reason where it cannot be loaded. Then the pod has failed, and nothing of it has run. docs/shared-gpus.md.
"""

from dataclasses import dataclass

from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.backends.port import Json, ask, main, say
from controlplane.cluster.kubernetes.backends.variables import ON_DEMAND_VARIABLES, noted
from controlplane.cluster.kubernetes.backends.visible import Visible
from controlplane.cluster.port import PodSpec
from controlplane.enforcer import inside
from controlplane.enforcer.build import START

FIRST = "gpu-share"  # the container that only looks
COMMAND = (f"{inside.PROGRAMS}/{START}",)
UNSERVED = 124  # its exit code where the node's daemon does not serve the share (enforcer/programs/start.c)
LONGEST = 300  # characters of what it says
# As the main one has it.
SAME = ("image", "imagePullPolicy", "resources", "securityContext", "terminationMessagePolicy")


class Own(Visible):
    """The device is shown as to any share, and one slot of the node is asked for."""

    is_asked_for = True

    def dress(self, pod: PodSpec, body: Json) -> None:
        """Ask for a slot, in the container and in one before it."""
        super().dress(pod, body)
        ask(body, **{inside.RESOURCE: "1"})
        body["spec"]["initContainers"] = [
            {"name": FIRST, "command": list(COMMAND), **{key: main(body)[key] for key in SAME}}
        ]


class OnDemand(Own):
    """All GPUs of the node are shown, those that it may be moved to: the node's daemon says when to which."""

    def dress(self, pod: PodSpec, body: Json) -> None:
        """Name the order of the GPUs too, and how large they are."""
        super().dress(pod, body)
        say(body, *(noted(name, annotation) for name, annotation in ON_DEMAND_VARIABLES.items()))
        body["metadata"]["annotations"][names.ON_DEMAND] = str(pod.on_demand)


@dataclass(frozen=True, slots=True)
class Unheld:
    """Why a share's program was not started. reason: NotHeld, its image's fault; ShareNotServed, its node's."""

    reason: str
    code: int
    message: str


def unheld(status: Json) -> Unheld | None:
    """What a pod's first container ended with; None: it has none, or that found nothing wrong."""
    for container in status.get("initContainerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated") or {}
        if container.get("name") == FIRST and (code := int(ended.get("exitCode") or 0)):
            said = " ".join(str(ended.get("message") or "").split())[:LONGEST]
            return Unheld("ShareNotServed" if code == UNSERVED else "NotHeld", code, said)
    return None
