"""The service, request by request: one queue, replicas with slots, first come first served.

Which replicas serve, and from when on, is told by the engine. A replica that serves no more ends what it has.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from autoscaler.observed import Scrape, Signal, counted
from controlplane.benchmarks.mix import draws
from controlplane.benchmarks.slo.judge import SCRAPE_SECONDS, Seen
from controlplane.benchmarks.slo.traces import Floats
from controlplane.cluster.serving.loops import serve

INFINITE = float("inf")


class Queue:
    """Requests that came, wait, or were answered.

    Those that were answered long ago are counted and forgotten. begin: s from which on they are counted.
    """

    def __init__(self, load: draws.Service, begin: float = 0.0) -> None:
        self.load, self.chunks, self.begin = load, 0, begin
        self.forgotten = self.forgotten_late = 0
        self.forgotten_seconds = 0.0
        self.at, self.service = np.empty(0), np.empty(0)
        self.began, self.ended = np.empty(0), np.empty(0)
        self.by, self.is_counted = np.empty(0, dtype=np.int64), np.empty(0, dtype=bool)
        self.free, self.owner = np.empty(0), np.empty(0, dtype=np.int64)
        self.serving: dict[int, float] = {}  # replica -> when it began to serve, or will
        self.begun = self.since = self.answered = 0
        self.seconds = 0.0

    def serve(self, until: float) -> None:
        """Let all begin that can before `until`."""
        self._draw(until)
        if len(self.free):
            most = int(self.owner.max()) + 1
            self.begun = serve(
                self.at, self.service, self.service, self.begun, until, self.free, self.owner, np.ones(most), 1, 0.0,
                INFINITE, self.began, self.ended, self.by,
            )  # fmt: skip

    def arrange(self, serving: Mapping[int, float]) -> None:
        """From now on these replicas serve, each from its time on; those that served before go on with what they do."""
        if serving == self.serving:
            return
        slots = [
            (float(free), int(number))
            for free, number in zip(self.free, self.owner, strict=True)
            if serving.get(int(number)) == self.serving[int(number)]
        ]
        known = {number for _, number in slots}
        slots += [
            (ready, number) for number, ready in serving.items() if number not in known for _ in range(draws.SLOTS)
        ]
        slots.sort()
        self.free = np.array([free for free, _ in slots])
        self.owner = np.array([number for _, number in slots], dtype=np.int64)
        self.serving = dict(serving)

    def first_wait(self, now: float, until: float) -> float:
        """When the first request has to wait if nothing changes; infinite: none before `until`."""
        self._draw(until)
        if self.arrived(now) > self.begun:
            return now
        saved = self.free.copy(), self.owner.copy(), self.begun
        self.serve(until)
        some, end = slice(saved[2], self.begun), self.begun
        late = np.flatnonzero(self.began[some] > self.at[some])
        self.free, self.owner, self.begun = saved
        if len(late):
            return float(self.at[saved[2] + late[0]])
        return float(self.at[end]) if self.arrived(until) > end else INFINITE

    def arrived(self, now: float) -> int:
        """Requests that have come."""
        return int(np.searchsorted(self.at, now))

    def scrape(self, now: float) -> Seen:
        """What is seen now; those that ended since the last one are counted."""
        some = slice(self.since, self.begun)
        is_done = self.ended[some] <= now
        fresh = self.since + np.flatnonzero(is_done & ~self.is_counted[some])
        self.is_counted[fresh] = True
        service = self.ended[fresh] - self.began[fresh]
        self.answered += len(fresh)
        self.seconds += float(service.sum())
        running = np.bincount(self.by[some][~is_done]) if not is_done.all() else np.zeros(1)
        arrived = self.arrived(now)
        seen = Scrape(
            at=now, seconds=SCRAPE_SECONDS, arrived=arrived - self.arrived(now - SCRAPE_SECONDS),
            answered_seconds=float(service.sum()), counts=counted(service), waiting=arrived - self.begun,
            running=int(running.sum()), widest=int(running.max()) if len(running) else 0,
        )  # fmt: skip
        left = np.flatnonzero(~self.is_counted[some])
        self.since = self.since + int(left[0]) if len(left) else self.begun
        return Seen(seen, self.answered, self.seconds, len(self.serving), self.ready(now))

    def ready(self, now: float) -> int:
        """Replicas that serve."""
        return sum(at <= now for at in self.serving.values())

    def signal(self, now: float) -> Signal:
        """What the queue tells within a second."""
        arrived = self.arrived(now)
        lately, newest = (arrived - self.arrived(now - 5.0)) / 5.0, arrived - self.arrived(now - 1.0)
        return Signal(arrived - self.begun, max(lately, newest - 2.0 * float(np.sqrt(newest))))

    def late_percent(self, begin: float, end: float) -> float:
        """Of the requests that came then: those that waited longer than `draws.LATE`. begin: that of the queue."""
        self.serve(end + 2 * draws.LATE)
        some = (self.at >= begin) & (self.at < end)
        late = self.forgotten_late + int(self._late()[some].sum())
        return 100.0 * late / max(1, self.forgotten + int(some.sum()))

    def busy_seconds(self, begin: float, end: float) -> float:
        """Replica-seconds of work that came then. begin: that of the queue."""
        some = (self.at >= begin) & (self.at < end)
        return (self.forgotten_seconds + float(self.service[some].sum())) / draws.SLOTS

    def _late(self) -> npt.NDArray[np.bool_]:
        """Which of those that are not forgotten are late; one that did not begin is."""
        late = np.ones(len(self.at), dtype=bool)
        late[: self.begun] = self.began[: self.begun] - self.at[: self.begun] > draws.LATE
        return late

    def _forget(self, before: float) -> None:
        """Those that came before, up to the first that is not counted as answered: what many services had in hours
        does not fit into memory."""
        last = min(self.since, int(np.searchsorted(self.at, before)))
        some = self.at[:last] >= self.begin
        self.forgotten += int(some.sum())
        self.forgotten_late += int(self._late()[:last][some].sum())
        self.forgotten_seconds += float(self.service[:last][some].sum())
        self.at, self.service = self.at[last:], self.service[last:]
        self.began, self.ended = self.began[last:], self.ended[last:]
        self.by, self.is_counted = self.by[last:], self.is_counted[last:]
        self.begun, self.since = self.begun - last, self.since - last

    def _draw(self, until: float) -> None:
        while self.chunks * draws.CHUNK <= until:
            self._forget((self.chunks - 1) * draws.CHUNK)
            at, service = self.load.requests(self.chunks)
            self.chunks += 1
            self.at, self.service = _longer(self.at, at), _longer(self.service, service)
            self.began, self.ended = (_longer(one, np.full(len(at), INFINITE)) for one in (self.began, self.ended))
            self.by = np.concatenate((self.by, np.zeros(len(at), dtype=np.int64)))
            self.is_counted = np.concatenate((self.is_counted, np.zeros(len(at), dtype=bool)))


def _longer(one: Floats, more: Floats) -> Floats:
    return np.concatenate((one, more))
