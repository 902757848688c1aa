"""What is remembered of the changes that a training tries, as plain values for its row and for those of experiments."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from autoscaler.bottleneck.window import Bottleneck
from autoscaler.reallocate import rows
from autoscaler.reallocate.choice import Considered, Guard
from autoscaler.reallocate.course import Course


@dataclass(frozen=True, slots=True)
class Kept:
    """attempt: of which the course is; told: what was considered last, in words, the best first.

    bottleneck: what was named when there was nothing more to try; None: it goes on.
    """

    attempt: int
    course: Course
    told: tuple[str, ...] = ()
    bottleneck: Bottleneck | None = None


def plain(kept: Kept) -> dict[str, Any]:
    """As JSON."""
    named = kept.bottleneck and kept.bottleneck.value
    own = {"attempt": kept.attempt, "told": list(kept.told), "bottleneck": named}
    return own | {"course": rows.written(kept.course)}


def kept_of(values: Mapping[str, Any]) -> Kept:
    """What `plain` told."""
    named = values["bottleneck"]
    bottleneck = None if named is None else Bottleneck(named)
    return Kept(values["attempt"], rows.restored(values["course"]), tuple(values["told"]), bottleneck)


def has(values: Mapping[str, Any], cpu_milli: int) -> bool:
    """Whether workers that are to have so much CPU have this allocation, as far as changes go."""
    return round(float(values["cpu"]) * 1000) == cpu_milli


def best(considered: Iterable[Considered], most: int = 3) -> tuple[Considered, ...]:
    """Those worth telling: what nothing speaks against, then what would gain but is refused."""
    worth = [one for one in considered if one.guard in (Guard.NONE, Guard.BUDGET)]
    return tuple(sorted(worth, key=lambda one: one.guard is not Guard.NONE)[:most])
