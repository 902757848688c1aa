"""Teams, their quotas per node pool, what they used lately, and budgets that are used up."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Team:
    """A team; teams form a tree by `parent`."""

    name: str
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """What a team owns in one node pool, in milli-GPU.

    It may hold nominal + borrowing; others may borrow at most `lending` of what it leaves unused.
    None means no limit. weight divides what is over among borrowers (Kueue: fairSharing.weight).
    """

    team: str
    pool: str
    nominal: int
    borrowing: int | None = None
    lending: int | None = None
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Use:
    """Decayed use: what a team's own workloads held in a pool on average, the older the less it counts, in milli-GPU.

    The mean over time with weight 2**(-age / half-life); time before the first account counts as nothing held.
    """

    team: str
    pool: str
    milli: int


@dataclass(frozen=True, slots=True)
class Budget:
    """A hard budget that is used up: nothing of the team, or of its children, starts until the period is over.

    hours and used are GPU hours; until is cluster-clock seconds.
    """

    team: str
    period: str
    hours: float
    used: float
    until: float
