"""What each configuration is worth to each job: its speed, less what the change costs, weighted by remaining work.

The speed is that over the least one of the job, so that jobs of all models compare; its utility grows ever slower.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autoscaler.elasticity import constants
from autoscaler.elasticity.configurations import Configurations, Ints
from autoscaler.elasticity.inputs import Job
from autoscaler.elasticity.knapsack import Problem
from autoscaler.elasticity.memory import Memory, Past

Floats = npt.NDArray[np.float64]


def problem(now: float, offered: Configurations, jobs: Sequence[Job], memory: Memory, rates: Floats) -> Problem:
    """The knapsack of this round. rates: [jobs, configurations], 0 where a job may not have one."""
    pasts = [memory.jobs[job.id] for job in jobs]
    held = np.array([offered.index[past.held] if past.held is not None else -1 for past in pasts], np.int64)
    running = held >= 0
    rows = np.flatnonzero(running)
    base = _base(offered, jobs, rates)
    speed = rates / base[:, None]
    left = [memory.remaining(job.id) for job in jobs]
    remaining = np.array([np.nan if one is None else one for one in left])
    restart = np.array([job.restart for job in jobs])
    tuned = constants.tuning(len(offered.types))
    factor = tuned.change_factor * _factor(now, offered, jobs, memory, rates, remaining)
    factor[rows, held[rows]] = 1.0  # what runs goes on without a restart
    work = np.where(np.isnan(remaining), [past.work for past in pasts], remaining)
    weight = (1 + work / base / constants.WORK_SCALE) ** tuned.work_exponent
    may_have = (rates > 0) & ~_too_large(now, offered, memory, pasts, held, tuned)
    with np.errstate(divide="ignore"):
        utility = np.where(may_have, weight[:, None] * grown(speed * factor, tuned.exponent), -np.inf)
    unserved = weight * grown(np.full(len(jobs), tuned.unserved_speed), tuned.exponent)
    # Leaving what runs, or changing it for nothing, costs more than the time it takes.
    cost = np.where(running, tuned.change_cost * restart, 0.0)
    if tuned.is_any_change:
        cost = cost * weight**tuned.cost_weight
    unserved = unserved - cost - tuned.served_first
    has_gain = speed * factor > np.where(running, speed[np.arange(len(jobs)), held], 0.0)[:, None]
    is_change = running[:, None] & (np.arange(rates.shape[1]) != held[:, None])
    utility = np.where(is_change & (tuned.is_any_change | ~has_gain), utility - cost[:, None], utility)
    # What is starting now is left alone.
    may_stay = rates[np.arange(len(jobs)), held] > 0  # its limit may have fallen meanwhile
    fixed = running & may_stay & np.array([job.is_restarting for job in jobs], bool)
    utility = np.where(fixed[:, None] & is_change, -np.inf, utility)
    utility[fixed, held[fixed]] = 0.0
    unserved = np.where(fixed, -np.inf, unserved)
    return Problem(utility, unserved, offered.gpus, offered.kind, offered.room)


def grown(speed: Floats, exponent: float) -> Floats:
    """The utility of a speed: concave, 0 at 1."""
    if exponent == 0:
        return np.asarray(np.log(speed))
    return np.asarray((speed**exponent - 1) / exponent)


def _too_large(
    now: float,
    offered: Configurations,
    memory: Memory,
    pasts: Sequence[Past],
    held: Ints,
    tuned: constants.Tuning,
) -> npt.NDArray[np.bool_]:
    """What is not tried yet: much more than was seen, or more soon after a change; [jobs, configurations]."""
    usual = memory.largest
    most = np.array([max(tuned.growth * max(1, past.most_seen), usual.get(past.model, 0)) for past in pasts], np.int64)
    fresh = (held >= 0) & (now - np.array([past.changed_at for past in pasts]) < tuned.settle_seconds)
    most = np.where(fresh, np.minimum(most, offered.gpus[held]), most)
    return np.asarray(offered.gpus > most[:, None])


def _base(offered: Configurations, jobs: Sequence[Job], rates: Floats) -> Floats:
    """The least speed of one GPU, [jobs]; 1 where a job may have none."""
    one = np.where((offered.gpus == 1) & (rates > 0), rates, np.inf)
    base = one.min(axis=1, initial=np.inf)
    return np.where(np.isfinite(base), base, 1.0)


def _factor(
    now: float, offered: Configurations, jobs: Sequence[Job], memory: Memory, rates: Floats, remaining: Floats
) -> Floats:
    """The share of the time ahead that is left after a restart, [jobs, configurations]."""
    pasts = [memory.jobs[job.id] for job in jobs]
    age = np.array([job.age for job in jobs])
    with np.errstate(divide="ignore", invalid="ignore"):
        known = remaining[:, None] / rates
    horizon = np.where(np.isnan(known), (constants.NEW_HORIZON + age)[:, None], known)
    horizon = np.minimum(horizon, constants.LONGEST_HORIZON)
    settled = np.maximum(constants.SETTLED_HORIZON, now - np.array([past.changed_at for past in pasts]))
    is_known = offered.gpus <= np.array([past.most_seen for past in pasts], np.int64)[:, None]
    horizon = np.where(is_known, np.minimum(horizon, settled[:, None]), horizon)
    restart = np.array([job.restart for job in jobs])[:, None]
    return np.asarray(np.divide(horizon, horizon + restart, out=np.ones_like(horizon), where=horizon + restart > 0))
