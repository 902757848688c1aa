"""One service in the activator: its queue, its connections to replicas, and what is counted of it.

A request comes (`arrive`), waits for its turn, is handed to a replica, and ends (`ended`); each end gives the next its
turn. All of it runs in one event loop and waits for nothing.
"""

import asyncio
from collections import deque

import structlog

from autoscaler.lanes import REST_SECONDS, Lanes, Taken
from autoscaler.latency import FIRST_TOKEN
from controlplane.activator.counts import FAILED, Counts
from controlplane.activator.directory import Service
from controlplane.activator.exchange import Exchange
from controlplane.activator.upstream import Upstream

CONNECT_SECONDS = 2.0
KEPT_SECONDS = 2.0  # an idle connection is closed before the replica may do so: many servers do after 5 s
GONE = 499  # counted for a client that left before its answer ended; what nginx logs

log = structlog.get_logger(__name__)


class Gate:
    """One service."""

    def __init__(self, service: Service) -> None:
        self._loop = asyncio.get_running_loop()
        self.service = service
        self.lanes: Lanes[Exchange] = Lanes(service.bounds)
        self.counts = Counts()
        self._revisions: dict[str, int] = {}  # of replicas, also of those that have left a moment ago
        self._use(service)
        self._idle: dict[str, deque[Upstream]] = {}
        self._connecting: set[asyncio.Task[None]] = set()

    def use(self, service: Service) -> None:
        """Go on with what is known of the service now."""
        self.service, self.lanes.bounds = service, service.bounds
        self._use(service)
        for gone in self._idle.keys() - set(service.replicas):
            for upstream in self._idle.pop(gone):
                upstream.abort()
        self.turn()

    def _use(self, service: Service) -> None:
        split = service.split
        if split is None:
            self.lanes.use(service.replicas)
            self._revisions = {}
            return
        self.lanes.use(service.replicas, split.chosen, split.percent)
        self._revisions |= dict(split.revisions)

    def close(self) -> None:
        """The service has ended: what waits is told so."""
        for exchange in self.lanes.drop():
            exchange.refuse(503, "The service has ended. Look whether its workload runs.")
        for idle in self._idle.values():
            for upstream in idle:
                upstream.abort()

    # --- the way of a request --------------------------------------------------------------------

    def arrive(self, exchange: Exchange) -> None:
        """A request is there; it is handed over at once, waits, or is refused."""
        now = self._loop.time()
        exchange.arrived_at = now
        self.counts.arrivals += 1
        self.counts.recent.add(now)
        if self.lanes.arrive(exchange, now):
            self.turn()
        else:
            self._refuse(exchange, f"{self.lanes.waiting} requests wait, which is as many as may. Try again later.")

    def turn(self) -> None:
        """Hand over what can be."""
        now = self._loop.time()
        while (taken := self.lanes.take(now)) is not None:
            self.counts.late += taken.is_late
            taken.key.taken = taken
            if (upstream := self._free(taken.replica, now)) is not None:
                self._hand_over(taken.key, upstream, now)
            else:
                self._open(taken)

    def again(self, exchange: Exchange) -> None:
        """Send it once more, over a new connection to the same replica."""
        if exchange.taken is not None:
            self._open(exchange.taken)

    def leave(self, exchange: Exchange) -> None:
        """Its client has gone before it was handed over."""
        self.lanes.leave(exchange)
        self.counts.codes[GONE] += 1

    def first_byte(self, exchange: Exchange) -> None:
        """The answer's body begins; one that says that it failed is no answer."""
        if exchange.has_answer < FAILED:
            exchange.first_at = now = self._loop.time()
            self.counts.first_served.observe(now - exchange.handed_at)
            self.counts.first.observe(now - exchange.arrived_at)

    def ended(self, exchange: Exchange, code: int, is_whole: bool) -> None:
        """A request that was handed over has its answer, or never will."""
        now = self._loop.time()
        self.counts.codes[code] += 1
        self.counts.end(exchange.handed_at, now)
        if is_whole:
            self.counts.service.observe(now - exchange.handed_at)
            self.counts.request.observe(now - exchange.arrived_at)
        taken, exchange.taken = exchange.taken, None
        if taken is not None and (revision := self._revisions.get(taken.replica)) and code != GONE:
            until = exchange.first_at or now if self._is_of_first_token else now
            self.counts.judge(revision, code, is_whole, until - exchange.arrived_at, self._within)
        if taken is not None:
            self.lanes.done(taken.replica)
        self.turn()

    @property
    def _within(self) -> float | None:
        return self.service.split.within if self.service.split else None

    @property
    def _is_of_first_token(self) -> bool:
        return self.service.split is not None and self.service.split.of == FIRST_TOKEN

    def keep(self, upstream: Upstream) -> None:
        """A connection that may be used again."""
        if upstream.replica in self.lanes.ready:
            upstream.idle_since = self._loop.time()
            self._idle.setdefault(upstream.replica, deque()).append(upstream)
        else:
            upstream.abort()

    def tick(self, now: float) -> None:
        """Each second: give up what has waited for too long, and close what has been idle."""
        for exchange in self.lanes.give_up(now):
            self._refuse(exchange, "No replica was there in time. Try again later.")
        for idle in self._idle.values():
            while idle and (not idle[0].is_open or now - idle[0].idle_since > KEPT_SECONDS):
                idle.popleft().abort()
        self.turn()

    # --- connections -----------------------------------------------------------------------------

    def _free(self, replica: str, now: float) -> Upstream | None:
        idle = self._idle.get(replica)
        while idle:
            upstream = idle.pop()  # the last used: those in excess grow old
            if upstream.is_open and now - upstream.idle_since <= KEPT_SECONDS:
                return upstream
            upstream.abort()
        return None

    def _hand_over(self, exchange: Exchange, upstream: Upstream, now: float) -> None:
        if not exchange.handed_at:  # not when it is sent once more
            self.counts.begin(now)
        exchange.hand_over(upstream, now)

    def _open(self, taken: Taken[Exchange]) -> None:
        task = self._loop.create_task(self._connect(taken))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, taken: Taken[Exchange]) -> None:
        host, _, port = taken.replica.rpartition(":")
        exchange = taken.key
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, upstream = await self._loop.create_connection(
                    lambda: Upstream(self, taken.replica), host.strip("[]"), int(port)
                )
        except (OSError, TimeoutError) as error:
            self._not_connected(taken, error)
            return
        if exchange.is_over:  # its client went meanwhile, and that was counted then
            self.lanes.done(taken.replica)
            self.keep(upstream)
            self.turn()
        else:
            self._hand_over(exchange, upstream, self._loop.time())

    def _not_connected(self, taken: Taken[Exchange], error: Exception) -> None:
        """Nothing was sent, so another replica can have it, or this one once it listens: it may be loading."""
        exchange, now = taken.key, self._loop.time()
        log.info("replica not reached", workload=self.service.workload, replica=taken.replica, error=str(error))
        self.lanes.put_back(taken, now)
        exchange.taken = None
        if exchange.is_over:
            self.lanes.leave(exchange)
        self._loop.call_later(REST_SECONDS, self.turn)
        self.turn()

    def _refuse(self, exchange: Exchange, message: str) -> None:
        self.counts.refused += 1
        self.counts.codes[503] += 1
        exchange.refuse(503, message, b"retry-after: %d\r\n" % self._retry_after())

    def _retry_after(self) -> int:
        """Seconds until what waits now is served at the pace of the last seconds, within 1 and 60."""
        pace = self.counts.recent.rate(self._loop.time())
        return max(1, min(60, round(self.lanes.waiting / pace))) if pace else 1
