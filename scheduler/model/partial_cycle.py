"""A partial cycle: a round of only some claimants, which is what a new job costs while nothing became free.

A claimant that was refused in the last full cycle is refused again as long as nothing was freed and no number changed,
so only those in the dirty set need a turn. Others of a new claimant's team keep their position in the queue before it,
with the reason that they were told. Planned starts are taken over as the last full cycle made them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.model.workload import Assignment, Workload


@dataclass(frozen=True, slots=True)
class Start:
    """A planned start: when, where, in which pool; bound: when the longest run on these places is over."""

    at: float
    bound: float
    pool: str  # "" for work without GPUs
    places: "tuple[Assignment, ...]"


Starts = tuple[tuple[str, Start], ...]  # with the head's id, in the order in which they were made


@dataclass(frozen=True, slots=True)
class PartialCycle:
    """The claimants that a round tries, and the planned starts that hold in it."""

    teams: tuple[str, ...] = ()  # all their claimants, ascending
    starts: Starts = ()
    asked: tuple[str, ...] = ()  # single claimants of other teams, by id, ascending

    @property
    def is_empty(self) -> bool:
        """Whether there is no claimant to try."""
        return not self.teams and not self.asked


@dataclass(frozen=True, slots=True)
class DirtySet:
    """The claimants to be tried anew: all of these teams, and single ones by id."""

    teams: frozenset[str] = frozenset()
    asked: frozenset[str] = frozenset()

    def __or__(self, other: "DirtySet") -> "DirtySet":
        """Both."""
        return DirtySet(self.teams | other.teams, self.asked | other.asked)

    def scope(self, starts: Starts) -> PartialCycle:
        """The partial cycle that tries them."""
        return PartialCycle(tuple(sorted(self.teams)), starts, tuple(sorted(self.asked)))


def dirty_after(
    before: "Mapping[str, Workload]", changed: "Iterable[Workload]", gone: Iterable[str]
) -> DirtySet | None:
    """The claimants to be tried anew after these changes; None: all, which is a full cycle.

    A claimant that came up is tried alone. Where one that waited changed or went, those behind it are tried as well.

    All: something was freed, or work that runs may now be asked to leave, moved or shrunk on other terms.
    """
    teams: set[str] = set()
    asked: set[str] = set()
    for uid in gone:
        if (old := before.get(uid)) is not None:
            if old.placement:
                return None
            teams.add(old.team)
    for workload in changed:
        known = before.get(workload.id)
        if _is_for_all(known, workload):
            return None
        if known is not None and (known.is_waiting or workload.is_waiting):
            teams.add(workload.team)
        elif workload.is_waiting:
            asked.add(workload.id)
    return DirtySet(frozenset(teams), frozenset(asked))


def _is_for_all(known: "Workload | None", workload: "Workload") -> bool:
    """Whether others may find room by this change, or be asked otherwise."""
    if known is None:
        return workload.moving or bool(workload.placement)
    return workload.moving or _frees(known, workload) or _conditions(known) != _conditions(workload)


def _frees(old: "Workload", new: "Workload") -> bool:
    """Whether a place it had is given up, or will be, or weights of it have moved or are to return."""
    if old.team != new.team or (old.placement and (old.ask, old.roles) != (new.ask, new.roles)):
        return True
    kept = {_held(a) for a in new.placement}
    return any(_held(a) not in kept for a in old.placement)


def _held(a: "Assignment") -> tuple[object, ...]:
    return a.rank, a.node, a.gpus, a.leaving, a.weights, bool(a.weights) and a.asleep_at is None


def _conditions(workload: "Workload") -> tuple[object, ...]:
    """What others may ask of it while it holds something."""
    if not workload.placement:
        return (workload.moving,)
    wish = workload.goes_to, workload.off, workload.role_counts, workload.batch_wanted
    return (workload.moving, wish, workload.priority, workload.preemptible, workload.gang, workload.checkpoint_interval)
