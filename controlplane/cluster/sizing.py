"""What running pods of the simulated cluster take of their nodes is changed: their size, and where weights are."""

import math

from controlplane.cluster.entities import Attempt, Machine, Pod
from controlplane.cluster.port import ON_DEVICE, ON_HOST, PodPhase
from controlplane.cluster.world import World


class Sizing:
    """A part of `lifecycle.Lifecycle`."""

    def __init__(self, world: World) -> None:
        self.world = world

    def _note_capacity(self, attempt: Attempt) -> None:
        raise NotImplementedError

    def _retime(self, attempt: Attempt) -> None:
        raise NotImplementedError

    def offload(self, pod: Pod, memory: int, *, on: bool) -> None:
        """Move a replica's weights to its node's memory, or back. Raises ValueError where its server does not run."""
        goes_to = ON_HOST if on else ON_DEVICE
        if pod.phase != PodPhase.RUNNING or pod.stopped_at is not None:
            raise ValueError(f"the server of {pod.name} does not run")
        if goes_to in (pod.goes_to, pod.weights):
            pod.weights_at = pod.weights_at if pod.goes_to else self.world.now
            self.world.change(pod)
            return
        pod.goes_to, pod.weights = goes_to, ""
        pod.host_memory = memory
        self.world.overcommits += self.world.is_over_committed(pod)
        pod.due = float(math.ceil(self.world.now + max(1.0, self.world.conditions.move_seconds)))
        self.world.schedule(pod)
        self.world.change(pod)
        self._note_capacity(self.world.attempts[pod.group])

    def moved(self, pod: Pod) -> None:
        """Its weights are where they were to go."""
        pod.weights, pod.goes_to, pod.weights_at = pod.goes_to, "", self.world.now
        if pod.weights == ON_DEVICE:
            pod.host_memory = 0
        self.world.change(pod)
        self.resize_waiting(pod.node)
        self._note_capacity(self.world.attempts[pod.group])

    def resize(self, pod: Pod, cpu_milli: int, memory: int) -> None:
        """Change a worker's CPU and memory in place, or keep what it is to have until its node has room."""
        refused = self.world.refuses(pod, cpu_milli, memory)
        before = (pod.wanted, pod.refused, pod.cpu_milli, pod.memory)
        pod.wanted, pod.refused = ((cpu_milli, memory) if refused[0] else None), refused
        if pod.wanted is None:
            pod.cpu_milli, pod.memory = cpu_milli, memory
        if (pod.wanted, pod.refused, pod.cpu_milli, pod.memory) == before:
            return
        self.world.change(pod)
        if pod.wanted is None:
            self._retime(self.world.attempts[pod.group])
            self.resize_waiting(pod.node)

    def resize_waiting(self, node: str) -> None:
        """There may be room on a node now for what was deferred."""
        for pod in sorted(self.world.on_node.get(node, {}).values(), key=lambda pod: pod.name):
            if pod.wanted is not None and not self.world.refuses(pod, *pod.wanted)[0]:
                self.resize(pod, *pod.wanted)

    def refuse_resizes(self, machine: Machine, reason: str) -> None:
        """The node answers resizes with this reason, or by its room again; what it deferred may be done then."""
        machine.refuses = reason
        self.world.keep(machine)
        self.resize_waiting(machine.key)
