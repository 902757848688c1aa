"""What simulated pods print, worked out from their history at the moment it is read."""

import math
from collections.abc import Iterator, Sequence

from controlplane.cluster import draws, physics, requests, speed
from controlplane.cluster.cells import notebook_duty
from controlplane.cluster.entities import Attempt, Pod
from controlplane.cluster.port import LogLine, PodPhase
from controlplane.cluster.telemetry import steps_done
from controlplane.cluster.work import Work
from controlplane.cluster.world import World
from scheduler.model.workload import Kind

EVERY_SECONDS = 60.0  # one line of progress a minute


def lines(world: World, attempt: Attempt, pods: Sequence[Pod], tail: int, since: float | None) -> tuple[LogLine, ...]:
    """The last `tail` lines of these pods of one attempt, by time, those after `since` only."""
    work = attempt.work
    if work is None:
        return ()
    found = [line for pod in pods for line in _of(world, attempt, work, pod, tail)]
    found = [line for line in found if line.at <= world.now and (since is None or line.at > since)]
    return tuple(sorted(found, key=lambda line: (line.at, line.rank))[-tail:])


def _of(world: World, attempt: Attempt, work: Work, pod: Pod, tail: int) -> Iterator[LogLine]:
    """All a pod printed, but of its regular lines only the last `tail`."""
    if pod.started_at is not None:
        yield LogLine(pod.started_at, pod.rank, f"{work.profile.name} started on {pod.node}{_devices(pod)}")
        end = pod.ended_at if pod.ended_at is not None else world.now
        match work.kind:
            case Kind.TRAINING:
                yield from _training(world, attempt, work, pod, end, tail)
            case Kind.NOTEBOOK:
                yield from _notebook(world, work, pod, end, tail)
            case Kind.INFERENCE:
                yield from _service(world, work, pod, end, tail)
        if pod.stopped_at is not None:
            yield LogLine(pod.stopped_at, pod.rank, "received SIGTERM")
    if pod.ended_at is not None:
        yield LogLine(pod.ended_at, pod.rank, _last_words(pod))


def _devices(pod: Pod) -> str:
    if not pod.gpus:
        return ""
    return f", GPU{'s' if len(pod.gpus) > 1 else ''} {', '.join(map(str, pod.gpus))}"


def _last_words(pod: Pod) -> str:
    match pod.phase:
        case PodPhase.SUCCEEDED:
            return "done"
        case PodPhase.GONE:
            return f"ended: {pod.reason}"
        case _:
            return f"failed: {pod.reason}, exit code {pod.exit_code}"


def _training(world: World, attempt: Attempt, work: Work, pod: Pod, end: float, tail: int) -> Iterator[LogLine]:
    began = attempt.began_at
    if began is None:
        yield LogLine(pod.started_at or end, pod.rank, f"waiting for {attempt.size} workers")
        return
    if attempt.segments and attempt.segments[0][1] > 0:
        yield LogLine(began, pod.rank, f"resumed at {attempt.segments[0][1]:.1%} of the work from the last checkpoint")
    halted = attempt.segments[-1][0] if attempt.segments and attempt.segments[-1][2] == 0 else end
    reference = physics.step(work.training, speed.reference(world, attempt, work)).seconds
    for at in _times(began, min(end, halted), EVERY_SECONDS, tail):
        done = _done_at(attempt, at)
        number = steps_done(work, reference, done)
        yield LogLine(at, pod.rank, f"step {number} loss {_loss(world, attempt, work, done, at):.4f} ({done:.1%})")
    if pod.rank == min(attempt.pods) and work.checkpoint_interval:
        for at in _times(began, min(end, halted), work.checkpoint_interval, tail):
            yield LogLine(at, pod.rank, f"checkpoint written at {_done_at(attempt, at):.1%}")
    if pod.stopped_at is not None and attempt.safe_at is not None and attempt.safe_at >= pod.stopped_at:
        yield LogLine(attempt.safe_at, pod.rank, f"checkpoint written at {attempt.safe:.1%}")


def _notebook(world: World, work: Work, pod: Pod, end: float, tail: int) -> Iterator[LogLine]:
    started = pod.started_at or end
    for at in _times(started, end, EVERY_SECONDS, tail):
        duty = notebook_duty(work, world.conditions.seed, pod.name, started, at)
        if duty > 0:
            yield LogLine(at, pod.rank, f"cell executed in {duty * EVERY_SECONDS:.1f} s")


def _service(world: World, work: Work, pod: Pod, end: float, tail: int) -> Iterator[LogLine]:
    service = world.services.get(pod.workload)
    followed = requests.follow(world, service) if service is not None else None
    minutes = [] if followed is None else [m for m in followed.minutes if (pod.started_at or end) < m.at <= end]
    for minute in minutes[-tail:]:
        if minute.replicas and minute.p95_seconds is not None:
            each = minute.requests / minute.replicas / EVERY_SECONDS
            yield LogLine(minute.at, pod.rank, f"{each:.1f} requests/s, p95 {minute.p95_seconds:.3f} s")


def _times(start: float, end: float, every: float, tail: int) -> list[float]:
    """The last `tail` moments start + k x every, k >= 1, up to the end."""
    count = math.floor((end - start) / every)
    return [start + k * every for k in range(max(1, count - tail + 1), count + 1)]


def _done_at(attempt: Attempt, at: float) -> float:
    since, done, per_second = next(s for s in reversed(attempt.segments) if s[0] <= at)
    return min(1.0, done + per_second * (at - since))


def _loss(world: World, attempt: Attempt, work: Work, done: float, at: float) -> float:
    """Falls as work is done, with some noise."""
    first, last = work.training.loss
    noise = 1.0 + 0.02 * draws.normal(world.conditions.seed, "loss", attempt.key, at)
    return (last + (first - last) * math.exp(-4.0 * done)) * noise
