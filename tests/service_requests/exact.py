"""The time in the system (wait and service) of M/M/c and M/D/c queues, exactly: what a simulation must agree with."""

import math
from collections.abc import Callable

import numpy as np


def percentile(beyond: Callable[[float], float], part: float, most: float) -> float:
    """The time that this part of the requests does not exceed; `beyond` is the chance to exceed a time."""
    low, high = 0.0, most
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if beyond(middle) <= 1 - part else (middle, high)
    return high


def mmc_beyond(rate: float, seconds: float, servers: int) -> Callable[[float], float]:
    """P(T > t) of M/M/c: the chance to wait is Erlang's C, the wait is then exponential (Kleinrock 1975, 3.5)."""
    load, own = rate * seconds, 1 / seconds
    blocked = 1.0
    for k in range(1, servers + 1):  # Erlang's B by its recursion
        blocked = load * blocked / (k + load * blocked)
    waits = blocked / (1 - load / servers * (1 - blocked))
    left = servers * own - rate

    def beyond(t: float) -> float:
        both = (left * math.exp(-own * t) - own * math.exp(-left * t)) / (left - own)
        return (1 - waits) * math.exp(-own * t) + waits * both

    return beyond


def mdc_beyond(rate: float, seconds: float, servers: int, states: int = 1000) -> Callable[[float], float]:
    """P(T > t) of M/D/c.

    Crommelin (1932): what is in the system a service time later is what queued, and what came meanwhile; repeated until
    nothing changes. Franx (2001), "A simple solution for the M/D/c waiting time distribution": the wait from the
    distribution of the queue.
    """
    load = rate * seconds
    max_come = math.ceil(load + 12 * math.sqrt(load) + 12)
    came = np.exp([-load + j * math.log(load) - math.lgamma(j + 1) for j in range(max_come)])
    there, before = np.zeros(states), np.ones(states)
    there[0] = 1.0
    while np.abs(there - before).max() > 1e-14:
        before = there
        queued = np.append(there[: servers + 1].sum(), there[servers + 1 :])
        there = np.convolve(queued, came)[:states]
    queue = np.cumsum(there / there.sum())[servers:]  # P(at most j wait)

    def beyond(t: float) -> float:
        wait = t - seconds
        if wait < 0:
            return 1.0
        k = math.floor(wait / seconds) + 1
        mean = rate * (k * seconds - wait)
        most = k * servers - 1
        logs = (-mean + (j * math.log(mean) if j else 0.0) - math.lgamma(j + 1) for j in range(most + 1))
        return 1 - sum(math.exp(log) * queue[min(most - j, len(queue) - 1)] for j, log in enumerate(logs))

    return beyond
