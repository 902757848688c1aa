"""What a gateway in front of a simulated service would tell the autoscaler at a look."""

import math

import numpy as np

from autoscaler.observed import Scrape, counted
from controlplane.cluster.serving.run import Run

SCRAPE_SECONDS = 15.0  # between two looks


def scrape(run: Run, replicas: int, seconds: float = SCRAPE_SECONDS) -> Scrape:
    """The last seconds of a run whose requests are taken by so many replicas.

    Where groups of requests are counted, it is known how many run in all, and of a replica the mean.
    """
    now, flights, ended = run.state.at, run.state.flights, run.outcomes
    good = ended.is_answered & (ended.ended >= now - seconds)
    by, count = flights.by[flights.by >= 0], flights.count[flights.by >= 0]
    running = int(flights.count.sum())
    is_grouped = run.traffic.group > 1
    each = math.ceil(running / max(1, replicas)) if is_grouped else int(np.bincount(by, count, 1).max())
    return Scrape(
        at=now,
        seconds=seconds,
        arrived=run.arrived(now - seconds, now),
        answered_seconds=float((ended.service * ended.count)[good].sum()),
        counts=counted(ended.service[good], ended.count[good]),
        waiting=run.waiting,
        running=running,
        widest=each,
        first=counted(ended.first[good], ended.count[good]) if run.setup.has_first else None,
    )
