"""Teams, their quotas per node pool, and priority classes."""

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
