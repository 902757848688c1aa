"""Notebooks on demand in the simulated cluster: which GPU of its node each has now, by the rule that real nodes follow.

A cell begins and ends with a minute (cells.py). At each minute's begin cells that are over end, then those that begin
get a GPU by `gpushare.ondemand.choose`, by name; one that gets none tries again a minute later. What is where follows
from the minutes before, at most MOST of them: so a process that has just been started begins with all in host memory.
"""

from controlplane.cluster import physics
from controlplane.cluster.cells import NOTEBOOK_SECONDS, notebook_duty
from controlplane.cluster.entities import Pod
from controlplane.cluster.port import IN_HOST_MEMORY, PodPhase
from controlplane.cluster.speed import limit_of
from controlplane.cluster.world import World
from gpushare import ondemand, residency
from gpushare.gpu import WHOLE
from gpushare.residency import Gpu, Node, Notebook
from scheduler.model.workload import Kind

MOST = 120  # minutes that are looked at


def place(world: World, pod: Pod) -> int:
    """The GPU of its node that its memory is on, else IN_HOST_MEMORY."""
    node = follow(world, pod.node)
    if all(one.name != pod.name for one in node.notebooks):
        return IN_HOST_MEMORY
    index, _ = node.find(pod.name)
    return IN_HOST_MEMORY if index is None else index


def duty(world: World, pod: Pod) -> float:
    """The part of the time of the GPU that it has in which its kernels run: 0 between cells, and while one waits."""
    node, index = follow(world, pod.node), place(world, pod)
    if index == IN_HOST_MEMORY or not node.find(pod.name)[1].computes:
        return 0.0
    gpu = node.gpus[index]
    pods = [world.pods[one.name] for one in gpu.computing if one.name in world.pods]
    promised = {one.name: one.milli for one in pods}
    at = int(world.now)
    parts = ondemand.parts(gpu, promised, at) if len(promised) == len(gpu.computing) else promised
    demands = [_wants(world, one, world.now) for one in pods]
    guarantees = [min(parts[one.name], WHOLE) / WHOLE for one in pods]
    return physics.granted(pods.index(pod), demands, guarantees, [limit_of(world, one) for one in pods])


def running_on(world: World, node: str, index: int) -> list[Pod]:
    """Pods that use this device now: on demand, those whose memory is on it."""
    if not any(pod.on_demand for pod in world.on_node.get(node, {}).values()):
        return world.running_on(node, index)
    made = follow(world, node)
    if not 0 <= index < len(made.gpus):
        return []
    there = {one.name for one in made.gpus[index].residents}
    return sorted((pod for pod in _notebooks(world, node) if pod.name in there), key=lambda pod: pod.name)


def follow(world: World, name: str) -> Node:
    """Where the memory of a node's notebooks is now."""
    now = int(world.now // NOTEBOOK_SECONDS)
    last, node = world.minutes.get(name, (now - MOST - 1, _empty(world, name)))
    for minute in range(max(last + 1, now - MOST), now + 1):
        node = _step(world, name, node, minute)
    node = _with_those_there(world, name, node, world.now)  # between two minutes some come, and some go
    world.minutes[name] = now, node
    return node


def _step(world: World, name: str, node: Node, minute: int) -> Node:
    """The next minute begins."""
    at = minute * NOTEBOOK_SECONDS
    node = _with_those_there(world, name, node, at)
    pods = {pod.name: pod for pod in _notebooks(world, name)}
    for one in node.notebooks:
        if one.computes and not _wants(world, pods[one.name], at):
            node = residency.end(node, one.name, int(at))
    for one in sorted(node.notebooks, key=lambda one: one.name):
        if not one.computes and _wants(world, pods[one.name], at):
            start = ondemand.choose((node,), node.find(one.name)[1], 0, int(at))
            node = node if start is None else residency.begin(node, one.name, start.gpu, int(at), start.evicted)
    return node


def _with_those_there(world: World, name: str, node: Node, at: float) -> Node:
    """The same machine with the notebooks that run there by then; what was on a GPU that is lost begins anew."""
    empty = _empty(world, name)
    if [gpu.memory for gpu in node.gpus] != [gpu.memory for gpu in empty.gpus]:
        node = empty
    there = {pod.name: pod for pod in _notebooks(world, name) if (pod.started_at or world.now) <= at}
    for one in node.notebooks:
        if one.name not in there:
            node = residency.leave(node, one.name)
    known = {one.name for one in node.notebooks}
    for new in sorted(there.keys() - known):
        if there[new].gpu_memory <= node.unbooked:
            node = residency.enter(node, Notebook(new, there[new].gpu_memory, int(at)))
    return node


def _empty(world: World, name: str) -> Node:
    machine = world.machines[name].node
    memory = [0 if index in machine.lost else machine.gpu_memory for index in range(machine.gpus)]
    return Node(tuple(map(Gpu, memory)), machine.memory)


def _notebooks(world: World, node: str) -> list[Pod]:
    return [p for p in world.on_node.get(node, {}).values() if p.on_demand and p.phase == PodPhase.RUNNING]


def _wants(world: World, pod: Pod, at: float) -> float:
    """What its cell would use of a whole GPU; 0: none runs."""
    work = world.attempts[pod.group].work
    if work is None or work.kind != Kind.NOTEBOOK:
        return 0.0
    return min(1.0, notebook_duty(work, world.conditions.seed, pod.name, pod.started_at or world.now, at))
