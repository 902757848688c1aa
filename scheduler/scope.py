"""A round of only some teams' claimants: what a new job costs while nothing became free.

Whoever was refused in the last whole round is refused again as long as nothing was freed and no number changed, so
only the teams with something new need a turn. Planned starts are taken over as the last whole round made them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.workload import Assignment, Workload


@dataclass(frozen=True, slots=True)
class Start:
    """A planned start: when, where, in which pool; bound: when the longest run on these places is over."""

    at: float
    bound: float
    pool: str  # "" for work without GPUs
    places: "tuple[Assignment, ...]"


Starts = tuple[tuple[str, Start], ...]  # with the head's id, in the order in which they were made


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose claimants a round tries, and the planned starts that hold in it."""

    teams: tuple[str, ...]  # ascending
    starts: Starts = ()


def news(before: "Mapping[str, Workload]", changed: "Iterable[Workload]", gone: Iterable[str]) -> frozenset[str] | None:
    """Teams whose claimants are to be tried anew after these changes; None where everybody's are.

    Everybody's: something was freed, or work that runs may now be asked to leave, moved or shrunk on other terms.
    """
    teams: set[str] = set()
    for uid in gone:
        if (old := before.get(uid)) is not None:
            if old.placement:
                return None
            teams.add(old.team)
    for workload in changed:
        known = before.get(workload.id)
        if known is not None and (_frees(known, workload) or _terms(known) != _terms(workload)):
            return None
        if workload.moving or (known is None and workload.placement):
            return None
        if workload.is_waiting or (known is not None and known.is_waiting):
            teams.add(workload.team)
    return frozenset(teams)


def _frees(old: "Workload", new: "Workload") -> bool:
    """Whether a place it had is given up, or will be."""
    if old.team != new.team or (old.placement and old.ask != new.ask):
        return True
    kept = {(a.rank, a.node, a.gpus, a.leaving) for a in new.placement}
    return any((a.rank, a.node, a.gpus, a.leaving) not in kept for a in old.placement)


def _terms(workload: "Workload") -> tuple[object, ...]:
    """What others may ask of it while it holds something."""
    if not workload.placement:
        return (workload.moving,)
    return (workload.moving, workload.priority, workload.preemptible, workload.gang, workload.checkpoint_interval)
