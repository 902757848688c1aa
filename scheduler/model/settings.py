"""The scheduling policy's numbers, with their reasons. Edited as versions in the admin."""

from dataclasses import dataclass
from enum import StrEnum

from scheduler.model.cell import Cell


class Placement(StrEnum):
    """How the place of a single worker or replica is chosen among those that fit (ARCHITECTURE.md)."""

    WORTH = "worth"
    BEST_FIT = "best-fit"
    FIRST_FIT = "first-fit"
    FGD = "fgd"


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of `schedule`; times are cluster-clock seconds."""

    policy: str = "weft"  # which policy decides: a name of scheduler.policies.POLICIES
    ageing_seconds: float = 3600.0  # one priority point per hour waited
    max_ageing: int = 50  # ageing never lifts a workload over the next standard priority class (steps of 100)
    attained_step_seconds: float = (
        3600.0  # GPU-seconds of the first bucket of attained service; x 4 from one to the next
    )
    deadline_near_seconds: float = 86_400.0  # a training goes before others when its deadline is no further away
    min_runtime_seconds: float = 60.0  # nothing is evicted before it could do something useful
    max_preemptions: int = 3  # per workload and `preemption_window_seconds` (docs/promises.md, S10)
    preemption_window_seconds: float = 86_400.0
    borrower_runtime_seconds: float = 3600.0  # what is borrowed is left alone so long by others that borrow too
    use_half_life_seconds: float = (
        604_800.0  # recent usage: a GPU hour of a week ago counts half (KAI's window: a week)
    )
    use_correction: float = 0.5  # k: how much past borrowing moves the weights (docs/quotas.md); 0 = not at all
    gang_timeout_seconds: float = 300.0  # a gang that is not all Running by then goes back to the queue
    wait_refresh_seconds: float = 60.0  # a waiting message with other numbers is rewritten no sooner,
    wait_refresh_fraction: float = 0.25  # nor before the wait has grown by this part: writes grow with log(wait)
    # A team's first in line that waits so long takes the places of what was queued after it (actions/catch_up.py),
    overtaken_seconds: float = 86_400.0
    overtaken_waits: float = 2.0  # and so many times the median wait of its team's running work
    restart_seconds: float = 60.0  # what stopping and starting again costs a victim beside the lost work
    rejoin_seconds: float = 10.0  # and for each worker of a gang beyond the first: all wait for the last to be back
    outage_seconds: float = 86_400.0  # what a service loses, which has no work to save: so much of its GPUs' time
    settle_seconds: float = 60.0  # an elastic gang that started or changed is left alone so long before it grows
    surplus_after_seconds: float = 300.0  # and so long before it grows beyond its count: what it gave back stays given
    lend_after_seconds: float = (
        15.0  # a replica on standby is lent to a gang no sooner: until then it may be woken again
    )
    harvest: bool = (
        True  # elastic gangs get workers beside shares, in the time that these leave (preemption/harvest.py)
    )
    max_moves: int = 4  # workloads moved to other places in one round, to make room that is in one piece
    max_move_scenarios: int = 12  # sets of moves tried in one round, a quarter of them for one claimant
    max_victims: int = 64  # sets of victims tried for one claimant: bounds the time of a round
    max_changes: int = 500  # placed or evicted in one round; binding begins while the next one decides on the rest
    placement: Placement = Placement.WORTH
    # Reservation and backfill (EASY): a head that waits longer than the others gets a planned start.
    reservation_after_seconds: float = 30.0  # waited at least (DRAGON's valve),
    reservation_after_waits: float = 2.0  # and so many times the median wait of what runs now,
    reservation_after_max_seconds: float = 600.0  # but never more: the bound on a gang's wait needs an end
    reservations_per_pool: int = 1  # heads with a planned start; more is safer for them and leaves less to backfill
    estimate_margin: float = 2.0  # without history: 8 in 10 run between 1/margin and margin times what their user said
    run_seconds: float = 3600.0  # what work runs if neither its user nor history says anything,
    run_margin: float = 8.0  # give or take: 8 in 10 between 1/margin and margin times that
    # Of the policies dragon and edragon only (scheduler/policies/dragon.py):
    dragon_wait_seconds: float = 30.0  # the first in line waits so long before others shrink for it
    dragon_settle_seconds: float = 60.0  # between the last start, shrink or growth and the next growth
    dragon_hold_seconds: float = 600.0  # a service without room keeps trainings from starting so long
    dragon_high_priority: int = 300  # notebooks and shares from this priority on are urgent
    cells: tuple[Cell, ...] = ()  # parts of the cluster with a decider each; a round decides for one and reads them not
