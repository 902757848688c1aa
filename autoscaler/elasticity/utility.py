"""What each configuration is worth to each job: its speed, less what the change costs, weighted by remaining work.

The speed is that over the least one of the job, so that jobs of all models compare; its utility grows ever slower.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autoscaler.elasticity import constants
from autoscaler.elasticity.configurations import Configurations
from autoscaler.elasticity.inputs import Job
from autoscaler.elasticity.knapsack import Problem
from autoscaler.elasticity.memory import Memory

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
    factor = _factor(now, offered, jobs, memory, rates, remaining)
    factor[rows, held[rows]] = 1.0  # what runs goes on without a restart
    work = np.where(np.isnan(remaining), [past.work for past in pasts], remaining)
    weight = (1 + work / base / constants.WORK_SCALE) ** constants.WORK_EXPONENT
    with np.errstate(divide="ignore"):
        utility = np.where(rates > 0, weight[:, None] * grown(speed * factor), -np.inf)
    unserved = weight * grown(np.full(len(jobs), constants.UNSERVED_SPEED))
    # Leaving what runs, or changing it for nothing, costs more than the time it takes.
    cost = np.where(running, constants.CHANGE_COST * restart, 0.0)
    unserved = unserved - cost
    has_gain = speed * factor > np.where(running, speed[np.arange(len(jobs)), held], 0.0)[:, None]
    is_change = running[:, None] & (np.arange(rates.shape[1]) != held[:, None])
    utility = np.where(is_change & ~has_gain, utility - cost[:, None], utility)
    # What is starting now is left alone.
    may_stay = rates[np.arange(len(jobs)), held] > 0  # its limit may have fallen meanwhile
    fixed = running & may_stay & np.array([job.is_restarting for job in jobs], bool)
    utility = np.where(fixed[:, None] & is_change, -np.inf, utility)
    utility[fixed, held[fixed]] = 0.0
    unserved = np.where(fixed, -np.inf, unserved)
    return Problem(utility, unserved, offered.gpus, offered.kind, offered.room)


def grown(speed: Floats) -> Floats:
    """The utility of a speed: concave, 0 at 1."""
    return np.asarray((speed**constants.EXPONENT - 1) / constants.EXPONENT)


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
