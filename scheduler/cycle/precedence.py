"""The order of work within a team: a fixed comparison of values.

The claimants of a team are compared by these five values, in this order; the first that differs decides:

1. class: services at risk of missing their objective, then other services, then notebooks, then trainings whose
   deadline is near, then other trainings;
2. priority with ageing: one point more for each `ageing_seconds` waited, at most `max_ageing`, the higher first;
3. attained service: the bucket of the GPU-seconds that it held so far, the lower first (2D-LAS, Tiresias NSDI'19);
4. failures of its own, the fewer first: work that keeps failing lets others try (docs/promises.md, P15);
5. the order of submission, never a time, which ties.

Buckets grow geometrically, so that little more service changes no place. Ageing is compared before service, so work
that got much and then waits an hour more than the others goes first again.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpushare.gpu import WHOLE
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Ints
from scheduler.model.workload import Kind, Workload

Floats = NDArray[np.float64]
AT_RISK, SERVING, INTERACTIVE, DEADLINE, TRAINING = range(5)
CLASS = {Kind.INFERENCE: SERVING, Kind.NOTEBOOK: INTERACTIVE, Kind.TRAINING: TRAINING}
BUCKET = 4  # each bucket holds so many times the service of all before it


def class_of(workload: Workload) -> int:
    """Its class, but for a deadline that is near."""
    return AT_RISK if workload.at_risk else CLASS[workload.kind]


class OrderKeys(NamedTuple):
    """What the comparison looks at, one entry a workload; `deadline` is inf where there is none."""

    kinds: Ints  # of class_of
    priority: Ints
    attained: Ints  # milli-GPU seconds
    failures: Ints
    seq: Ints
    queued_at: Floats
    deadline: Floats


def order_keys(workloads: Sequence[Workload]) -> OrderKeys:
    """These workloads' columns."""
    return OrderKeys(
        np.array([class_of(w) for w in workloads], dtype=np.int64),
        np.array([w.priority for w in workloads], dtype=np.int64),
        np.array([w.attained for w in workloads], dtype=np.int64),
        np.array([w.failures for w in workloads], dtype=np.int64),
        np.array([w.seq for w in workloads], dtype=np.int64),
        np.array([w.queued_at for w in workloads], dtype=np.float64),
        np.array([np.inf if w.deadline is None else w.deadline for w in workloads], dtype=np.float64),
    )


def precedence(keys: OrderKeys, at: float, settings: Settings) -> Ints:
    """The five values of each workload, the lower first. Shape [5, workloads]."""
    waited = np.maximum(at - keys.queued_at, 0.0)
    age = np.minimum((waited / settings.ageing_seconds).astype(np.int64), settings.max_ageing)
    return np.array(
        [
            classes(keys, at, settings),
            -(keys.priority + age),
            buckets(keys.attained, settings),
            keys.failures,
            keys.seq,
        ],
        dtype=np.int64,
    )


def classes(keys: OrderKeys, at: float, settings: Settings) -> Ints:
    """The class of each; the lower goes first.

    A deadline counts only when it is near: otherwise any far one would be a way past the others.
    """
    is_near = (keys.kinds == TRAINING) & (keys.deadline - at <= settings.deadline_near_seconds)
    return np.where(is_near, DEADLINE, keys.kinds)


def buckets(attained: Ints, settings: Settings) -> Ints:
    """The bucket of so many milli-GPU seconds: 0 below `attained_step_seconds` of one GPU, then one for each x 4."""
    limits = [max(1, int(settings.attained_step_seconds)) * WHOLE]
    most = int(attained.max(initial=0))
    while limits[-1] <= most:
        limits.append(limits[-1] * BUCKET)
    return np.searchsorted(np.array(limits, dtype=np.int64), attained, side="right").astype(np.int64)
