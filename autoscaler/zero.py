"""A service that may have no replica: it falls asleep after a span without requests, and wakes when one waits.

Asleep it holds no GPU, and the queue in front of it holds its requests until a replica is up again. Only a look that
says in numbers that nothing came, waits or runs is quiet: what is missing, old or cannot be true is never taken for it.
"""

from dataclasses import replace

from autoscaler.law import State, Wanted
from autoscaler.metrics import ServiceMetrics
from autoscaler.observed import Scrape

IDLE_SECONDS = 600.0  # without a request before it falls asleep, unless the service says otherwise
MINUTE = 60.0


def noted(before: State | None, after: State, scrape: Scrape, ready: int) -> State:
    """The state after a look, with since when no request was seen. ready: replicas that serve.

    A look that changed nothing of the state was not a new one; the first after a gap begins the span anew, as nobody
    saw what came meanwhile. So does one while no replica serves: the span is of a service that could have answered.
    """
    if after is before:
        return after
    if not is_quiet(scrape) or not ready:
        return replace(after, idle_since=None)
    began_now = after.began == scrape.at
    since = None if before is None or began_now else before.idle_since
    return replace(after, idle_since=scrape.at if since is None else since)


def is_quiet(scrape: Scrape) -> bool:
    """Whether it is known that no request came, waits or runs; None is not known."""
    return scrape.arrived == 0 and scrape.waiting == 0 and scrape.running == 0


def rested(current: int, at: float, service: ServiceMetrics | None, state: State | None, wanted: Wanted) -> Wanted:
    """What is wanted of a service that may have no replica and is to have `current`; wanted: by the law.

    service.idle_after: s without requests until it falls asleep; None: it must not now. It is asked only where the
    law's look was at `at`.
    """
    waiting = _waiting(service)
    if current == 0:
        if not waiting:
            return Wanted(0)
        count = max(1, wanted.replicas)
        return Wanted(count, f"{_requests(waiting)}; {_cold(service, 'the first one')}", wanted.terms)
    if service is None or service.idle_after is None or waiting or not _is_seen(service, state):
        return wanted
    since = None if state is None else state.idle_since
    if since is None or at - since < service.idle_after:
        return wanted
    seconds = at - since
    why = f"no request came for {_span(seconds)}; {_cold(service, 'the next one')}"
    return Wanted(0, why, (("idle_seconds", seconds), *_start(service)))


def _is_seen(service: ServiceMetrics, state: State | None) -> bool:
    """Whether the newest look of the state is the one of this round."""
    scrape = service.scrape
    return scrape is not None and state is not None and bool(state.points) and state.points[-1][0] == scrape.at


def _waiting(service: ServiceMetrics | None) -> int:
    """Requests that wait now, as the queue or the look tells; 0 where neither does."""
    if service is None:
        return 0
    told = service.signal.waiting if service.signal is not None and service.signal.is_sound else 0
    seen = service.scrape.waiting or 0 if service.scrape is not None and service.scrape.is_sound else 0
    return max(told, seen)


def _requests(waiting: int) -> str:
    return "1 request waits" if waiting == 1 else f"{waiting} requests wait"


def _cold(service: ServiceMetrics | None, what: str) -> str:
    if service is None or service.start_seconds is None:
        return f"{what} waits for a replica to start"
    return f"{what} waits about {service.start_seconds:.0f} s for a replica to start"


def _start(service: ServiceMetrics) -> tuple[tuple[str, float], ...]:
    return () if service.start_seconds is None else (("cold_start_seconds", service.start_seconds),)


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 2 * MINUTE else f"{seconds / MINUTE:.0f} min"
