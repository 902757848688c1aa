"""The back-ends of GPU shares: what each holds, and how that meets what a team demands.

Sources: NVIDIA's MIG and MPS guides, the device plugin's README, HAMi's and its DRA driver's documents; for our own
docs/shared-gpus.md. None of it was tried on a GPU by us, so every row says "not verified".
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from gpushare.gpu import Enforcer


class Guarantee(StrEnum):
    """What may be held of a share. FAULTS: an error of one share ends no other."""

    MEMORY = "memory"
    TIME = "time"
    FAULTS = "faults"


@dataclass(frozen=True, slots=True)
class Backend:
    """One row. follows: a limit that is changed while the share runs is in force; told: what it does, for people."""

    name: Enforcer
    guarantees: frozenset[Guarantee]
    follows: bool
    told: str
    is_verified: bool = False  # on a GPU, by us


def _row(name: Enforcer, guarantees: str, told: str, *, follows: bool = False) -> Backend:
    return Backend(name, frozenset(map(Guarantee, guarantees.split())), follows, told)


_ROWS = (
    _row(Enforcer.ADVISORY, "", "Nothing on the node holds a share to its part; it is scheduled and accounted."),
    _row(
        Enforcer.BACK_END,
        "",
        "Software on the node says that it holds a share to its limit, and does not say what it is.",
        follows=True,
    ),
    _row(Enforcer.MIG, "memory time faults", "A share is an instance of the GPU's hardware, of a fixed size."),
    _row(Enforcer.MPS, "memory", "NVIDIA MPS refuses memory beyond the share's, and caps its part of the threads."),
    _row(Enforcer.HAMI, "memory", "HAMi refuses memory beyond the share's, and slows kernels by samples of use."),
    _row(Enforcer.DRA, "memory", "A ResourceClaim takes a part of the device; its driver holds the memory."),
    _row(Enforcer.TIME_SLICING, "", "The driver gives all processes turns of equal length: advisory."),
    _row(
        Enforcer.WEFT,
        "memory time",
        "Weft's library counts memory and passes a token for the time: it stops accidents, not malice.",
        follows=True,
    ),
    _row(
        Enforcer.ON_DEMAND,
        "memory",
        "As weft, on a node for notebooks on demand: they have a GPU while a cell runs, and wait where none has room.",
        follows=True,
    ),
)
BACKENDS = {row.name: row for row in _ROWS}
_OF_NODES = (Enforcer.ADVISORY, Enforcer.BACK_END, Enforcer.ON_DEMAND)  # nodes say these of themselves, or nothing does
CHOSEN = tuple(row.name for row in _ROWS if row.name not in _OF_NODES)  # for a pool
DEMANDS = (*(one.value for one in Guarantee), *(one.value for one in CHOSEN))  # what a team may demand of its shares


def enforcer_of(pool: str, says: str, *, enforces: bool) -> Enforcer:
    """What holds shares on a node.

    pool: what its pool chose, empty: nothing. says: the back-end that the node's own label names, empty: none.
    enforces: the label says only that something holds shares to their limits. Our own counts where the node says so,
    as it is there that it has to run.
    """
    if says:
        return Enforcer(says)
    if not pool or (pool == Enforcer.WEFT and not enforces):
        return Enforcer.of(enforces=enforces)
    return Enforcer(pool)


def follows(enforcer: Enforcer) -> bool:
    """Whether a limit that is changed while a share runs is in force there."""
    return BACKENDS[enforcer].follows


def is_advisory(enforcer: Enforcer) -> bool:
    """Whether it says of nothing that it holds a share to it: neither memory, time or faults, nor its limit."""
    row = BACKENDS[enforcer]
    return not row.guarantees and not row.follows


def rank(enforcer: Enforcer) -> tuple[int, int, int]:
    """By what it guarantees, least first: an order to name one of several by."""
    row = BACKENDS[enforcer]
    return len(row.guarantees), row.follows, _ROWS.index(row)


def meets(enforcer: Enforcer, demands: Iterable[str]) -> bool:
    """Whether it guarantees all that is demanded, and is the back-end that is, where one is named."""
    return not unmet(enforcer, demands)


def unmet(enforcer: Enforcer, demands: Iterable[str]) -> tuple[str, ...]:
    """What of a team's demands (words of DEMANDS) it does not meet."""
    given = {one.value for one in BACKENDS[enforcer].guarantees}
    named = (enforcer.value, *([Enforcer.WEFT.value] if enforcer is Enforcer.ON_DEMAND else []))
    return tuple(word for word in demands if word not in given and word not in named)


def demands_text(demands: Iterable[str]) -> str:
    """In words: `memory and faults, by mig`."""
    words = list(demands)
    held = [word for word in words if word in {one.value for one in Guarantee}]
    named = [word for word in words if word not in held]
    return ", ".join(part for part in (" and ".join(held), f"by {' and '.join(named)}" if named else "") if part)
