"""Who goes before whom within a team: a fixed comparison of values.

The claimants of a team are compared by these five values, in this order; the first that differs decides:

1. class: services, then notebooks, then trainings whose deadline is near, then other trainings;
2. priority with ageing: one point more for each `ageing_seconds` waited, at most `ageing_most`, the higher first;
3. attained service: the bucket of the GPU-seconds that it held so far, the lower first (2D-LAS, Tiresias NSDI'19);
4. failures of its own, the fewer first: work that keeps failing lets others try (reliability.md P15);
5. the order of submission, never a time, which ties.

Buckets grow geometrically, so that little more service changes no place. Ageing is compared before service, so who got
much and then waits an hour more than the others goes first again, and nobody starves.
"""

import numpy as np

from gpushare.gpu import WHOLE
from scheduler.settings import Settings
from scheduler.snapshot import Ints
from scheduler.workload import Kind, Workload

SERVING, INTERACTIVE, DEADLINE, TRAINING = range(4)
CLASS = {Kind.INFERENCE: SERVING, Kind.NOTEBOOK: INTERACTIVE, Kind.TRAINING: TRAINING}
BUCKET = 4  # each bucket holds so many times the service of all before it


def class_of(workload: Workload, at: float, settings: Settings) -> int:
    """The class of a workload; the lower goes first.

    A deadline counts only when it is near: otherwise any far one would be a way past the others.
    """
    if workload.deadline is not None and workload.kind is Kind.TRAINING:
        return DEADLINE if workload.deadline - at <= settings.deadline_near_seconds else TRAINING
    return CLASS[workload.kind]


def bucket_of(attained: int, settings: Settings) -> int:
    """The bucket of so many milli-GPU seconds: 0 below `attained_step_seconds` of one GPU, then one for each x 4."""
    step = max(1, int(settings.attained_step_seconds)) * WHOLE
    bucket, limit = 0, step
    while attained >= limit:
        bucket, limit = bucket + 1, limit * BUCKET
    return bucket


def precedence(workloads: list[Workload], at: float, settings: Settings) -> Ints:
    """The five values of each workload, the lower first. Shape [5, workloads]."""
    waited = np.maximum(at - np.array([w.queued_at for w in workloads]), 0.0)
    age = np.minimum((waited / settings.ageing_seconds).astype(np.int64), settings.ageing_most)
    return np.array(
        [
            [class_of(w, at, settings) for w in workloads],
            -(np.array([w.priority for w in workloads], dtype=np.int64) + age),
            [bucket_of(w.attained, settings) if w.attained else 0 for w in workloads],
            [w.failures for w in workloads],
            [w.seq for w in workloads],
        ],
        dtype=np.int64,
    )
