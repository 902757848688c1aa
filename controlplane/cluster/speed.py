"""From where pods lie to how fast they go: between the simulated cluster's rows and its physics."""

from collections import Counter
from collections.abc import Iterable

from controlplane.cluster import physics
from controlplane.cluster.entities import Attempt, Pod
from controlplane.cluster.physics import Layout, TrainingProfile
from controlplane.cluster.port import ON_HOST, PodPhase
from controlplane.cluster.serving.history import Capacity
from controlplane.cluster.work import Work
from controlplane.cluster.world import World
from controlplane.jobspec.members import role_members
from gpushare.gpu import WHOLE
from scheduler.model.snapshot import Node
from scheduler.model.workload import Kind, Level

SERVICE_DUTY = 0.6  # of its part of a device, on average: what a service takes from its neighbours


def layout(world: World, attempt: Attempt, work: Work) -> Layout:
    """Where the gang runs now."""
    pods = attempt.workers
    nodes = [world.machines[pod.node].node for pod in pods]
    per_pod = max(1, len(pods[0].gpus))
    parts = [granted_ratio(world, pod, work) for pod in pods]
    reads = work.training.input_disk_seconds > 0  # else the count is not needed
    return Layout(
        devices=len(pods) * per_pod,
        model=min((node.model for node in nodes), key=lambda m: (-work.training.compute_seconds(m), m)),
        level=level_of(nodes, len(pods) * per_pod),
        cores_per_device=min(pod.cpu_milli for pod in pods) / 1000 / per_pod,
        granted=min(parts),
        slowdown=max(_slowdown(world, pod) for pod in pods),
        on_one_node=per_pod * max(Counter(pod.node for pod in pods).values()) if reads else 1,
        batch=_batch(attempt.batch, len(pods) * per_pod),
    )


def _batch(examples: int, devices: int) -> float | None:
    """Samples of one device in a step, of so many of all; None: none were told."""
    return examples / devices if examples else None


def own_seconds(world: World, pod: Pod, work: Work, here: Layout) -> float:
    """For how long one worker of a training that runs so computes in a step."""
    model = world.machines[pod.node].node.model
    return physics.compute_seconds(
        work.training, model, _slowdown(world, pod), granted_ratio(world, pod, work), here.batch
    )  # fmt: skip


def _slowdown(world: World, pod: Pod) -> float:
    """What neighbours on its devices cost a worker, and what its node does."""
    crowd = max((len(_awake_on(world, pod.node, i)) for i in pod.gpus), default=1) if pod.milli < WHOLE else 1
    return physics.slowdown(crowd) * world.conditions.slow_nodes.get(pod.node, 1.0)


def reference(world: World, attempt: Attempt, work: Work) -> Layout:
    """The placement on which the work's seconds hold: as asked, as close together as such nodes allow, undisturbed."""
    first = role_members(attempt.spec)
    pod = next(pod for rank, pod in sorted(attempt.pods.items()) if rank >= first)
    milli = WHOLE if pod.is_lent else pod.milli  # a worker asked for a whole device wherever it runs
    node = world.machines[pod.node].node
    devices = work.workers * max(1, len(pod.gpus))
    fits = devices <= node.gpus
    return Layout(
        devices=devices,
        model=work.reference_model or world.common_model or node.model,
        level=_inside(node, devices) if fits else Level.RACK,
        cores_per_device=attempt.cores,
        granted=min(work.training.duty, physics.gpu_ratio(milli)) if pod.gpus else work.training.duty,
        on_one_node=(devices if fits else node.gpus) if work.training.input_disk_seconds > 0 else 1,
        batch=_batch(work.batch if attempt.batch else 0, devices),
    )


def ratio_per_second(world: World, attempt: Attempt, work: Work) -> float:
    """Ratio of the whole work that the gang does in a second now."""
    if work.seconds is None:
        return 0.0
    profile = work.training
    here, there = layout(world, attempt, work), reference(world, attempt, work)
    if here == there:
        return 1.0 / work.seconds
    ratio = physics.samples_per_second(profile, here) / physics.samples_per_second(profile, there)
    if attempt.batch and attempt.batch != work.batch:  # what each sample teaches less, or more
        ratio *= (profile.noise + work.batch) / (profile.noise + attempt.batch)
    return ratio / work.seconds


def granted_ratio(world: World, pod: Pod, work: Work) -> float:
    """What a pod gets of each of its devices' compute (the least of them), 0..1."""
    most = _demand(work, limit_of(world, pod))
    if not pod.gpus or pod.milli >= WHOLE:
        return most
    return min(_granted(world, pod, index) for index in pod.gpus)


def capacity(world: World, pods: Iterable[Pod], work: Work) -> Capacity:
    """What a service's running replicas can serve from now on."""
    running = (p for p in pods if p.phase == PodPhase.RUNNING and p.stopped_at is None)
    serving = sorted((p for p in running if is_serving(world, p)), key=lambda p: p.name)
    profile = work.service
    each = tuple((pod.name, _request_seconds(world, pod, work)) for pod in serving)
    mean = sum(seconds for _, seconds in each) / len(each) if each else profile.service_seconds
    of = tuple(pod.made_of for pod in serving)
    return Capacity(world.now, len(serving), len(serving) * profile.parallel, mean, each, revisions=of)


def is_serving(world: World, pod: Pod) -> bool:
    """Whether requests come to a replica that runs: it is not on standby, what borrowed its device has left, and its
    weights are there."""
    is_ready = not pod.is_asleep and not pod.goes_to and pod.weights != ON_HOST
    if pod.milli < WHOLE:  # a share lends only the time that it leaves
        return is_ready
    return is_ready and not any(p.is_lent for i in pod.gpus for p in world.occupants.get((pod.node, i), ()))


def level_of(nodes: list[Node], devices: int) -> Level:
    """How far apart these nodes are. A name that is not given is taken to be shared by all."""
    first = nodes[0]
    if all(node.name == first.name for node in nodes):
        return _inside(first, devices)
    if all(node.rack == first.rack and node.zone == first.zone for node in nodes):
        return Level.RACK
    return Level.ZONE if all(node.zone == first.zone for node in nodes) else Level.CLUSTER


def _inside(node: Node, devices: int) -> Level:
    return Level.NVLINK if 0 < devices <= node.nvlink else Level.NODE


def _request_seconds(world: World, pod: Pod, work: Work) -> float:
    model = world.machines[pod.node].node.model
    reference = work.reference_model or world.common_model or model
    asked = physics.gpu_ratio(pod.milli) if pod.gpus else 1.0
    return pod.slowness * work.service.seconds_on(model, reference, _serving_ratio(world, pod, work) / asked)


def _serving_ratio(world: World, pod: Pod, work: Work) -> float:
    """A service may use its limit when the device is idle otherwise; never less than it was guaranteed."""
    if not pod.gpus or pod.milli >= WHOLE:
        return 1.0
    busy = sum(min(physics.gpu_ratio(p.milli), _demand_of(world, p)) for p in _others(world, pod))
    return max(physics.gpu_ratio(pod.milli), min(limit_of(world, pod), 1.0 - busy))


def _granted(world: World, pod: Pod, index: int) -> float:
    tenants = _awake_on(world, pod.node, index)
    if pod not in tenants:
        tenants = [*tenants, pod]
    demands = [_demand_of(world, p) for p in tenants]
    guarantees = [physics.gpu_ratio(p.milli) for p in tenants]
    limits = [limit_of(world, p) for p in tenants]
    return physics.granted(tenants.index(pod), demands, guarantees, limits)


def _others(world: World, pod: Pod) -> list[Pod]:
    return [p for index in pod.gpus for p in _awake_on(world, pod.node, index) if p is not pod]


def _awake_on(world: World, node: str, index: int) -> list[Pod]:
    return [p for p in world.running_on(node, index) if not p.is_asleep]


def _demand_of(world: World, pod: Pod) -> float:
    return _demand(_work_of(world, pod), limit_of(world, pod))


def limit_of(world: World, pod: Pod) -> float:
    """The most that a pod may use of a device that it shares, 0..1."""
    if pod.is_lent:
        return 1.0
    return physics.gpu_ratio(pod.limit) if pod.limit else _work_of(world, pod).limit


def _demand(work: Work, limit: float) -> float:
    """The part of a whole device that a pod with this work would use if it had it."""
    if work.kind == Kind.TRAINING:
        profile: TrainingProfile = work.training
        return profile.duty
    if work.kind == Kind.NOTEBOOK:
        return work.notebook.mean_duty
    return SERVICE_DUTY * limit


def _work_of(world: World, pod: Pod) -> Work:
    work = world.attempts[pod.group].work
    assert work is not None  # noqa: S101 - set where an attempt is made or read
    return work
