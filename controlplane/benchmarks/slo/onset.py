"""Minutes that no policy without loaded replicas can serve in time, told from the trace alone, alike for every policy.

These are the first `start` + 60 s, and as long after each minute that has more than half as many arrivals again as the
largest of the ten minutes before it: what comes then needs replicas that take `start` seconds to serve.
"""

import math

import numpy as np
import numpy.typing as npt

from controlplane.benchmarks.slo.judge import MINUTE, Ints, Judged

JUMP, BEFORE = 1.5, 10
ATTAINED_PERCENT = 0.1  # of the other minutes' requests may be late


def onset(arrivals: Ints, start: float) -> npt.NDArray[np.bool_]:
    """Which minutes are onset, shape [minutes]."""
    length = math.ceil((start + MINUTE) / MINUTE)
    found = np.zeros(len(arrivals), dtype=bool)
    found[:length] = True
    for minute in range(1, len(arrivals)):
        if arrivals[minute] > JUMP * arrivals[max(0, minute - BEFORE) : minute].max():
            found[minute : minute + 1 + length] = True
    return found


def is_attained(judged: Judged, start: float) -> bool:
    """Whether the objective was kept but for the onset: few late, and no bad window."""
    calm = ~onset(judged.arrivals, start)
    late = 100.0 * judged.late[calm].sum() / max(1, int(judged.arrivals[calm].sum()))
    return bool(late <= ATTAINED_PERCENT and all(not calm[minute] for minute in judged.bad_windows))
