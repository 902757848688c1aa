"""Teams, their quotas per node pool, what they used lately, and budgets that are used up."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Team:
    """A team; teams form a tree by `parent`.

    shares_with_others: its shares may lie on one GPU with those of another team that says so too.
    """

    name: str
    parent: str | None = None
    shares_with_others: bool = True  # as where all teams are one tenant's; the product's rows say it for each


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
    """Recent usage: what a team's own workloads held in a pool on average, the older the less it counts, in milli-GPU.

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


def owned(parents: Mapping[Key, Key | None], nominal: Mapping[Key, int]) -> dict[Key, int]:
    """What each team owns of a pool with the teams below it, milli-GPU.

    parents: of every team, None for one at the top. A parent's nominal quota includes its children's, so it owns its
    own, or what they own if that is more.
    """
    below: dict[Key, list[Key]] = {}
    for team, parent in parents.items():
        if parent is not None:
            below.setdefault(parent, []).append(team)

    def of(team: Key) -> int:
        return max(nominal.get(team, 0), sum(map(of, below.get(team, ()))))

    return {team: of(team) for team in parents}


def owned_together(parents: Mapping[Key, Key | None], nominal: Mapping[Key, int]) -> int:
    """What all teams own of a pool, milli-GPU: that of those at the top."""
    found = owned(parents, nominal)
    return sum(milli for team, milli in found.items() if parents[team] is None)
