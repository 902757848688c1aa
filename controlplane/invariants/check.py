"""All invariants at once: `check(state)` for audits and tests, and the parts a runner can afford after every event."""

from collections.abc import Callable, Mapping
from typing import Final

from controlplane.invariants.capacity import s1_capacity, s2_ledger, s20_one_borrower
from controlplane.invariants.eviction import s8_legality, s9_no_useless_kill
from controlplane.invariants.history import s7_fencing, s10_cycles, s12_life_cycle, s13_conservation
from controlplane.invariants.quota import s3_quota
from controlplane.invariants.rounds import s14_order, s17_idempotence, s18_determinism
from controlplane.invariants.runs import s4_gang, s5_single_run, s6_placement
from controlplane.invariants.state import State, Violation

Invariant = Callable[[State], tuple[Violation, ...]]

ALWAYS: Final[Mapping[str, Invariant]] = {
    "S1": s1_capacity,
    "S2": s2_ledger,
    "S3": s3_quota,
    "S4": s4_gang,
    "S5": s5_single_run,
    "S6": s6_placement,
    "S7": s7_fencing,
    "S9": s9_no_useless_kill,
    "S10": s10_cycles,
    "S12": s12_life_cycle,
    "S13": s13_conservation,
    "S14": s14_order,
    "S20": s20_one_borrower,
}
# These ask the scheduler again; a runner asks them of rounds that evict, or of a sample.
ASKING_AGAIN: Final[Mapping[str, Invariant]] = {"S8": s8_legality, "S17": s17_idempotence, "S18": s18_determinism}
INVARIANTS: Final[Mapping[str, Invariant]] = {**ALWAYS, **ASKING_AGAIN}


def check(state: State) -> tuple[Violation, ...]:
    """Every broken invariant of a state, in the order of their names in docs/promises.md."""
    return check_these(state, INVARIANTS)


def check_these(state: State, invariants: Mapping[str, Invariant]) -> tuple[Violation, ...]:
    """The same for some of the invariants."""
    return tuple(violation for invariant in invariants.values() for violation in invariant(state))
