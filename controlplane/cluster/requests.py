"""The requests of the simulated cluster's services: from its rows to runs of controlplane/cluster/serving.

A service's row keeps a state of a few minutes ago, and which replicas there were since. Each reader goes on from it by
itself, and remembers how far it came; what it finds does not depend on how often it looked.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from autoscaler.latency import Within
from autoscaler.observed import Signal
from controlplane.cluster.entities import Service
from controlplane.cluster.serving.history import LEFT_SECONDS, MINUTE, Capacity, Followed, Minute
from controlplane.cluster.serving.run import Setup, State
from controlplane.cluster.serving.traffic import Drawn, group
from controlplane.cluster.work import Work
from controlplane.cluster.world import World
from controlplane.jobspec.objective import FIELDS

POINT_SECONDS = 300.0  # a kept state is at least so old, and at most twice as old
# Where the clock is moved by more than this at once, requests come only in the last minutes of that time: a day of them
# takes seconds, and a clock that jumps over a day is not looked at.
COLD_SECONDS = 900.0  # that clients of a service which may have no replica wait, as its queue holds them so long
SIGNAL_SECONDS = 5.0  # over which the rate of a signal is
AHEAD_SECONDS = 3600.0  # how far ahead the next request to such a service is looked for
JUMP_SECONDS, WARM_SECONDS = 3600.0, 600.0


def follow(world: World, service: Service) -> Followed | None:
    """The service's run up to now; None of a service that has no traffic."""
    work = service.work
    if work is None or work.rate is None or not service.history:
        return None
    followed = _known(world, service, work, world.now)
    followed.to(world.now, service.history)
    if _is_left(world, service):
        del world.runs[service.key]
    return followed


def keep_points(world: World, since: float) -> None:
    """Move each service's kept state near enough, and forget the history before it. since: the clock before."""
    for service in world.services.values():
        work, history = service.work, service.history
        if work is None or work.rate is None or not history:
            continue
        if _is_left(world, service):
            continue  # nothing comes, so nothing changes
        before = service.point[0] if service.point else history[0].at
        if world.now - before >= 2 * POINT_SECONDS:
            at = (world.now - POINT_SECONDS) // MINUTE * MINUTE
            if world.now - since > JUMP_SECONDS:
                _known(world, service, work, since).jump(since, at - WARM_SECONDS, history)
            _keep(world, service, work, at)


def new_attempt(world: World, service: Service, attempt: int) -> None:
    """Another attempt begins, maybe with other traffic: what waits for the old one is dropped."""
    followed = follow(world, service)
    if followed is not None:
        state = followed.run.state.copy()
        state.index = -1  # its place among the new requests is not known yet
        service.point, service.minutes = state.plain(), _minutes(followed, state.at)
    service.attempt = attempt
    world.runs.pop(service.key, None)


def keep_address(world: World, uid: str, *, on: bool) -> None:
    """Have requests to a service come, and be held, while it has no replica; or no longer."""
    service = world.services.get(uid)
    if service is None or not service.history or service.work is None or service.work.queue is None:
        return
    last = service.history[-1]
    if last.is_kept != on:
        now = replace(last, at=world.now, lost=last.lost if last.at == world.now else (), is_kept=on)
        service.history = [*(c for c in service.history if c.at < now.at), now]
        world.keep(service)


def has_address(world: World, uid: str) -> bool:
    """Whether requests to a service come anywhere."""
    service = world.services.get(uid)
    return service is not None and bool(service.history) and bool(service.history[-1].servers or _is_kept(service))


def _is_kept(service: Service) -> bool:
    return bool(service.history) and service.history[-1].is_kept


def signals(world: World) -> dict[str, Signal]:
    """What the queues in front of services without a replica tell, where something waits."""
    found = {}
    for service, followed in _sleeping(world):
        run = followed.run
        if waiting := run.waiting:
            rate = run.arrived(world.now - SIGNAL_SECONDS, world.now) / SIGNAL_SECONDS
            found[service.workload] = Signal(waiting, rate)
    return found


def next_held(world: World) -> float | None:
    """When the first request comes to a service that sleeps and where none waits; None: not soon."""
    moments = [followed.run.next_arrival(AHEAD_SECONDS) for _, followed in _sleeping(world) if not followed.run.waiting]
    return min((at for at in moments if at is not None), default=None)


def _sleeping(world: World) -> Iterator[tuple[Service, Followed]]:
    for service in world.services.values():
        if _is_kept(service) and not service.history[-1].servers:
            followed = follow(world, service)
            if followed is not None:
                yield service, followed


def are_others(world: World, objectives: Mapping[str, Within | None]) -> bool:
    """Whether a service that answers requests is held to another p95 than this one."""
    return bool(_others(world, objectives))


def hold_to(world: World, objectives: Mapping[str, Within | None]) -> None:
    """Count the requests of these services against other p95s: those since the kept state, and all to come."""
    for service, p95 in _others(world, objectives):
        service.spec = {**service.spec, "objective": {FIELDS[p95.of]: p95.seconds}}
        service.work = replace(service.work, objective=p95) if service.work is not None else None
        world.runs.pop(service.key, None)
        world.keep(service)


def _others(world: World, objectives: Mapping[str, Within | None]) -> list[tuple[Service, Within]]:
    given = ((world.services.get(uid), p95) for uid, p95 in objectives.items() if p95 is not None)
    return [(s, p95) for s, p95 in given if s is not None and s.work is not None and s.work.objective != p95]


def _is_left(world: World, service: Service) -> bool:
    """Whether it has had no replica for so long that nothing of it is to be seen any more."""
    last = service.history[-1]
    return not last.servers and not last.is_kept and world.now - last.at > LEFT_SECONDS + 3 * POINT_SECONDS


def _known(world: World, service: Service, work: Work, until: float) -> Followed:
    """The run as far as it is known, not beyond `until`."""
    known = world.runs.get(service.key)
    kept = service.point[0] if service.point else 0.0
    if known is not None and known[0] == service.attempt and kept <= known[1].run.state.at <= until:
        return known[1]
    assert work.rate is not None  # noqa: S101 - checked by the callers
    profile, since = work.service, service.history[0].at
    together = group(work.rate.base, profile.service_seconds) if profile.batch == 1 else 1
    traffic = Drawn(work.rate, profile.sizes, since, together)
    setup = Setup(profile.batch, profile.growth or 0.0, objective=work.objective)
    if work.queue is not None:
        setup = replace(setup, patience=COLD_SECONDS, holds=True, room=work.queue)
    state = State.of(service.point) if service.point else State.begin(_first(service.history))
    followed = Followed.begin(traffic, setup, state, [Minute(*minute) for minute in service.minutes])
    if state.index < 0 or not service.point:
        followed.run.skip(state.at)
    world.runs[service.key] = service.attempt, followed
    return followed


def _first(history: list[Capacity]) -> float:
    """The service's beginning, or, in a row of a version that did not name replicas, the last such entry."""
    unnamed = [capacity.at for capacity in history if capacity.replicas and not capacity.each]
    return unnamed[-1] if unnamed else history[0].at


def _keep(world: World, service: Service, work: Work, at: float) -> None:
    followed = _known(world, service, work, world.now)
    followed.to(max(at, followed.run.state.at), service.history)
    state = next((s for s in followed.states if s.at == at), None)
    if state is None:  # it came from a state that was kept after that
        return
    service.point, service.minutes = state.plain(), _minutes(followed, state.at)
    first, *rest = service.history
    old = [number for number, capacity in enumerate(rest) if capacity.at < at]
    # The first stays: it says since when there is a service at all. So does the newest before the state.
    service.history = [first, *(rest[old[-1] :] if old else rest)]
    world.keep(service)


def _minutes(followed: Followed, until: float) -> list[list[float | None]]:
    """The minutes up to a kept state; a reader finds the later ones itself."""
    return [[m.at, m.requests, m.p95_seconds, m.over, m.replicas] for m in followed.minutes if m.at <= until]
