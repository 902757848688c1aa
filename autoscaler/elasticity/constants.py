"""All constants of the plan, as its experiments left them; they may be fixed anew on some sets of workloads only.

Two experiments found two sets: one in clusters of unlike GPUs, against Sia, one in clusters of like ones.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """What differs between clusters of unlike and of like GPUs.

    - exponent: p of (speed ** p - 1) / p, 0 the logarithm: the lower, the more a job with few GPUs gains against one
      with many.
    - unserved_speed: times its least speed: what a job counts that has no GPU.
    - served_first: utility that a training has from its first GPU: where it is large, none grows before all have one.
    - work_exponent: of the weight of a job by its remaining work: less work goes first.
    - change_factor: of the speed after a change, besides what the restart takes.
    - change_cost: of utility, for a s of restart, where a change gains no speed; or where it is for any change,
      weighted. is_any_change: which of the two.
    - growth: times the most GPUs that it was seen with: a job gets no more.
    - settle_seconds: for so long after a change it does not grow.
    - odd_sizes: GPUs of a node that a job may have besides powers of two.
    """

    exponent: float
    unserved_speed: float
    served_first: float
    work_exponent: float
    change_factor: float
    change_cost: float
    is_any_change: bool
    cost_weight: float
    growth: int
    settle_seconds: float
    odd_sizes: tuple[int, ...]


UNLIKE = Tuning(
    exponent=-0.25, unserved_speed=0.7, served_first=0.0, work_exponent=-0.3, change_factor=1.0,
    change_cost=2e-4, is_any_change=False, cost_weight=0.0, growth=1_000_000, settle_seconds=0.0, odd_sizes=(),
)  # fmt: skip
LIKE = Tuning(
    exponent=0.0, unserved_speed=0.02, served_first=100.0, work_exponent=-0.7, change_factor=0.85,
    change_cost=1e-3, is_any_change=True, cost_weight=1.0, growth=4, settle_seconds=60.0, odd_sizes=(3,),
)  # fmt: skip

WORK_SCALE = 600.0  # s of one slow GPU: below this, remaining work makes little difference

# --- what a change costs ---------------------------------------------------------------------
LONGEST_HORIZON = 3000.0  # s in which a restart has to pay off at most
NEW_HORIZON = 400.0  # s, and its age: as long a job whose work is not known is expected to run on
SETTLED_HORIZON = 600.0  # s, or the time since its last change: in which a restart for a known size has to pay off
SPREAD_OPTIMISM = 1.1  # times the expected speed on several nodes, until it has been seen

# --- what is remembered ----------------------------------------------------------------------
FINISHED_KEPT = 25  # jobs of a model whose total work is kept
LEAST_REMAINING = 0.03  # of the total work of its model: a job never counts as nearer to its end

# --- how it is solved ------------------------------------------------------------------------
EXACT_STATES = 60_000  # the product over types of GPUs + 1, up to which the best choice is found exactly
EXACT_CELLS = 8_000_000  # states times jobs, up to which it is


def tuning(types: int) -> Tuning:
    """For a cluster with so many types of GPU."""
    return LIKE if types == 1 else UNLIKE
