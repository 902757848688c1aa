"""What Prometheus would say of the simulated cluster: computed when asked, the same for every reader, at any rate."""

import math
from collections.abc import Iterable, Sequence

from autoscaler.observed import Scrape
from controlplane.cluster import draws, ondemand, physics, requests, speed
from controlplane.cluster.cells import notebook_duty
from controlplane.cluster.entities import Attempt, Pod
from controlplane.cluster.port import (
    GpuUse,
    NodeUse,
    PodPhase,
    PodUse,
    RevisionUse,
    ServiceUse,
    TrainingUse,
    WorkerUse,
)
from controlplane.cluster.serving.outcomes import Totals
from controlplane.cluster.serving.scraped import scrape
from controlplane.cluster.work import Work
from controlplane.cluster.world import World
from gpushare.gpu import WHOLE
from scheduler.model.workload import Kind, Level

WINDOW_SECONDS = 60.0
NOISE_SECONDS = 60.0  # measured step times of each minute
STEP_NOISE = 0.03  # are off by about that part
GRADIENT_NOISE = 0.1  # and so is what is told of the noise of gradients
CPU_AT_REST, CPU_AT_WORK = 8, 1_000  # 1/1000 cores: a program that waits, and one core that feeds a device
MEMORY_PART = 0.6  # of what was asked for


def gpus(world: World) -> tuple[GpuUse, ...]:
    """Duty and memory of every device that reports."""
    loads = {uid: _service_duty(world, uid) for uid in _serving(world)}
    computing: dict[tuple[str, int], float] = {}  # by attempt: a gang's workers are in step
    out = []
    for machine in world.machines.values():
        node = machine.node
        if machine.is_removed or not node.ready:
            continue
        for index in range(node.gpus):
            if index in node.lost:
                continue
            pods = ondemand.running_on(world, node.name, index)
            duty = min(1.0, sum(_duty(world, pod, loads, computing) for pod in pods))
            memory = min(node.gpu_memory, sum(_memory(world, pod, node.gpu_memory) for pod in pods))
            out.append(GpuUse(node.name, index, round(duty, 4), memory))
    return tuple(out)


def training(world: World, workloads: Sequence[str]) -> tuple[TrainingUse, ...]:
    """Steps of these jobs' newest attempts."""
    newest = _newest(world, set(workloads))
    out = []
    for uid in workloads:
        attempt = newest.get(uid)
        if attempt is None or attempt.work is None or attempt.work.kind != Kind.TRAINING:
            continue
        if attempt.speed <= 0:
            out.append(TrainingUse(uid, attempt.attempt, None, None, None, None, None))
        else:
            out.append(_training(world, attempt, attempt.work))
    return tuple(out)


def workers(world: World, workloads: Sequence[str]) -> tuple[WorkerUse, ...]:
    """What the workers of these jobs' newest attempts say of their steps."""
    newest = _newest(world, set(workloads))
    out: list[WorkerUse] = []
    for uid in workloads:
        attempt = newest.get(uid)
        if attempt is not None and attempt.work is not None and _has_steps(attempt):
            out += _workers(world, attempt, attempt.work)
    return tuple(out)


def nodes(world: World) -> tuple[NodeUse, ...]:
    """How busy disks and lines are, by the trainings that read and exchange."""
    disks = {name: 0.0 for name, machine in world.machines.items() if not machine.is_removed and machine.node.ready}
    lines = dict(disks)
    for attempt in world.attempts.values():
        if attempt.work is None or not _has_steps(attempt):
            continue
        profile, here = attempt.work.training, speed.layout(world, attempt, attempt.work)
        seconds = physics.step(profile, here).seconds
        sent = physics.exchange_seconds(profile, here) / seconds if here.level > Level.NODE else 0.0
        for pod in attempt.workers:
            if pod.node in disks:
                disks[pod.node] += profile.input_disk_seconds * here.inputs(profile) * len(pod.gpus) / seconds
                lines[pod.node] = max(lines[pod.node], sent)
    return tuple(NodeUse(name, round(min(disks[name], 1.0), 4), round(min(lines[name], 1.0), 4)) for name in disks)


def services(world: World, workloads: Iterable[str]) -> tuple[ServiceUse, ...]:
    """Load and latency of these services over the last minute: of the requests that ended in it."""
    out = []
    for uid in workloads:
        service = world.services.get(uid)
        followed = requests.follow(world, service) if service is not None else None
        if followed is not None:
            seen = followed.run.window(WINDOW_SECONDS)
            per_second = round(seen.requests / WINDOW_SECONDS, 3)
            out.append(
                ServiceUse(
                    uid, world.now, WINDOW_SECONDS, per_second, seen.p95_seconds, seen.over, seen.requests, seen.queue
                )
            )
    return tuple(out)


def scrapes(world: World, workloads: Iterable[str]) -> dict[str, Scrape]:
    """The requests of these services over the last quarter of a minute."""
    known = {uid: world.services[uid] for uid in workloads if uid in world.services}
    runs = {uid: requests.follow(world, service) for uid, service in known.items()}
    return {
        uid: scrape(followed.run, known[uid].history[-1].replicas)
        for uid, followed in runs.items()
        if followed is not None
    }


def answered(world: World, workloads: Iterable[str]) -> dict[str, Totals]:
    """What became of all requests of these services since each began."""
    known = {uid: world.services[uid] for uid in workloads if uid in world.services}
    runs = {uid: requests.follow(world, service) for uid, service in known.items()}
    return {uid: followed.run.state.totals for uid, followed in runs.items() if followed is not None}


def revisions(world: World, workloads: Iterable[str]) -> tuple[RevisionUse, ...]:
    """What each revision of these services has answered since their requests are split."""
    known = {uid: world.services[uid] for uid in workloads if uid in world.services}
    runs = {uid: requests.follow(world, service) for uid, service in known.items() if service.split}
    return tuple(
        RevisionUse(uid, revision, answered, over)
        for uid, followed in runs.items()
        if followed is not None
        for revision, (answered, over) in sorted(followed.run.state.tallies.items())
    )


def pods(world: World, workloads: Sequence[str]) -> tuple[PodUse, ...]:
    """What these workloads' running pods use. As with DCGM, the duty of a part of a device is not known by itself.

    Where something holds shares to their parts, it tells what each pod computes on the device.
    """
    wanted = set(workloads)
    loads = {uid: _service_duty(world, uid) for uid in _serving(world)}
    computing: dict[tuple[str, int], float] = {}
    out = []
    for pod in world.pods.values():
        if pod.workload in wanted and pod.phase == PodPhase.RUNNING:
            duty = min(1.0, _duty(world, pod, loads, computing))
            is_whole = bool(pod.gpus) and pod.milli >= WHOLE
            cpu, throttled = _cpu(world, pod, duty)
            memory = round(MEMORY_PART * pod.memory)
            out.append(
                PodUse(
                    pod.workload, pod.attempt, pod.rank, round(duty, 4) if is_whole else None, cpu, memory, throttled,
                    None if is_whole else _own_duty(world, pod, loads, computing),
                    ondemand.place(world, pod) if pod.on_demand else None,
                )
            )  # fmt: skip
    return tuple(out)


def _own_duty(world: World, pod: Pod, loads: dict[str, float], computing: dict[tuple[str, int], float]) -> float | None:
    """Of the device that it shares, rounded down: the parts of a device's pods are no more than the device's duty."""
    if not pod.gpus or not world.machines[pod.node].node.enforces_limits:
        return None
    index = ondemand.place(world, pod) if pod.on_demand else pod.gpus[0]
    together = sum(_duty(world, one, loads, computing) for one in ondemand.running_on(world, pod.node, index))
    own = _duty(world, pod, loads, computing) / max(1.0, together)
    return math.floor(own * 10_000) / 10_000


def _cpu(world: World, pod: Pod, duty: float) -> tuple[int, float]:
    """(1/1000 cores, part of the time in which the limit held it back)."""
    attempt = world.attempts[pod.group]
    work, used, throttled = attempt.work, CPU_AT_REST + CPU_AT_WORK * duty, 0.0
    if work is not None and work.kind == Kind.TRAINING and attempt.speed > 0:
        here = speed.layout(world, attempt, work)
        step = physics.step(work.training, here)
        used += 1000 * len(pod.gpus) * work.training.input_core_seconds * here.inputs(work.training) / step.seconds
        throttled = 0.0 if step.by_disk else step.data_wait / step.seconds
    return round(min(used, pod.cpu_milli) if pod.cpu_milli else used), round(throttled, 4)


def steps_done(work: Work, reference_seconds: float, done: float) -> int:
    """Which step a job is at with this part of it done: as many as that would take on the reference placement."""
    return math.floor(done * (work.seconds or 0.0) / reference_seconds)


def _training(world: World, attempt: Attempt, work: Work) -> TrainingUse:
    here = speed.layout(world, attempt, work)
    step = physics.step(work.training, here)
    noise = 1.0 + STEP_NOISE * draws.normal(world.conditions.seed, "step", attempt.key, world.now // NOISE_SECONDS)
    seconds = step.seconds * max(0.5, noise)
    reference = physics.step(work.training, speed.reference(world, attempt, work)).seconds
    return TrainingUse(
        workload=attempt.workload,
        attempt=attempt.attempt,
        step=steps_done(work, reference, attempt.done_at(world.now)),
        step_seconds=seconds,
        samples_per_second=(attempt.batch or here.devices * work.training.batch) / seconds,
        data_wait_ratio=step.data_wait / step.seconds,
        sync_ratio=step.sync / step.seconds,
        gradient_noise=_noise(world, attempt, work) if attempt.batch else None,
    )


def _noise(world: World, attempt: Attempt, work: Work) -> float:
    """The gradient noise scale that its program tells, which is an estimate."""
    drawn = draws.normal(world.conditions.seed, "gradients", attempt.key, world.now // NOISE_SECONDS)
    return work.training.noise * math.exp(GRADIENT_NOISE * drawn)


def _has_steps(attempt: Attempt) -> bool:
    return attempt.work is not None and attempt.work.kind == Kind.TRAINING and attempt.speed > 0


def _workers(world: World, attempt: Attempt, work: Work) -> Iterable[WorkerUse]:
    """Each computes for its own time, and waits in the exchange until the slowest has done so too."""
    use = _training(world, attempt, work)
    if use.step_seconds is None or use.data_wait_ratio is None:
        return
    here = speed.layout(world, attempt, work)
    step = physics.step(work.training, here)
    scale, wait = use.step_seconds / step.seconds, use.data_wait_ratio
    for pod in attempt.workers:
        own = scale * speed.own_seconds(world, pod, work, here) / use.step_seconds
        sync = max(1.0 - wait - own, 0.0)
        io = wait if step.by_disk else 0.0
        yield WorkerUse(use.workload, use.attempt, pod.rank, use.step_seconds, wait, sync, io)


def _newest(world: World, wanted: set[str]) -> dict[str, Attempt]:
    newest: dict[str, Attempt] = {}
    for (uid, number), attempt in world.attempts.items():
        if uid in wanted and (uid not in newest or newest[uid].attempt < number):
            newest[uid] = attempt
    return newest


def _serving(world: World) -> set[str]:
    return {uid for uid, service in world.services.items() if service.history and service.history[-1].servers}


def _service_duty(world: World, uid: str) -> float:
    followed = requests.follow(world, world.services[uid])
    return followed.run.window(WINDOW_SECONDS).duty if followed is not None else 0.0


def _duty(world: World, pod: Pod, loads: dict[str, float], computing: dict[tuple[str, int], float]) -> float:
    """The part of the device's time in which this pod's kernels run."""
    attempt = world.attempts[pod.group]
    work = attempt.work
    if work is None or pod.phase != PodPhase.RUNNING:
        return 0.0
    if pod.on_demand:
        return ondemand.duty(world, pod)
    part = speed.granted_ratio(world, pod, work)
    if work.kind == Kind.NOTEBOOK:
        return min(part / max(1e-9, work.notebook.mean_duty), 1.0) * notebook_duty(
            work, world.conditions.seed, pod.name, pod.started_at or world.now, world.now
        )
    if work.kind == Kind.INFERENCE and not speed.is_serving(world, pod):
        return 0.0
    if work.kind == Kind.INFERENCE:
        return loads.get(pod.workload, 0.0) * (pod.milli / WHOLE)
    if attempt.speed <= 0:
        return 0.0
    if pod.group not in computing:
        step = physics.step(work.training, speed.layout(world, attempt, work))
        computing[pod.group] = step.compute / step.seconds
    return part * computing[pod.group]


def _memory(world: World, pod: Pod, device: int) -> int:
    work = world.attempts[pod.group].work
    if work is None:
        return 0
    return min(work.profile.memory, pod.gpu_memory or device)
