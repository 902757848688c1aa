"""What is remembered of the changes that a training tries, as plain values for its row and for those of experiments."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from autoscaler.bottleneck.window import Bottleneck
from autoscaler.reallocate import rows
from autoscaler.reallocate.candidates import Axis
from autoscaler.reallocate.choice import Considered, Guard
from autoscaler.reallocate.course import Course
from autoscaler.throughput.allocation import Allocation


@dataclass(frozen=True, slots=True)
class Kept:
    """attempt: of which the course is; told: what was considered last, in words, the best first.

    bottleneck: what was named when there was nothing more to try; None: it goes on. asked: in how many windows it has
    asked to run elsewhere, and has not left yet. is_silent: nothing reports its steps; refuted: what was probed then in
    vain.
    """

    attempt: int
    course: Course
    told: tuple[str, ...] = ()
    bottleneck: Bottleneck | None = None
    asked: int = 0
    is_silent: bool = False
    refuted: tuple[Bottleneck, ...] = ()


def plain(kept: Kept) -> dict[str, Any]:
    """As JSON."""
    named = kept.bottleneck and kept.bottleneck.value
    own = {"attempt": kept.attempt, "told": list(kept.told), "bottleneck": named, "asked": kept.asked}
    own |= {"is_silent": kept.is_silent, "refuted": [one.value for one in kept.refuted]}
    return own | {"course": rows.written(kept.course)}


def kept_of(values: Mapping[str, Any]) -> Kept:
    """What `plain` told."""
    named = values["bottleneck"]
    bottleneck = None if named is None else Bottleneck(named)
    return Kept(
        values["attempt"],
        rows.restored(values["course"]),
        tuple(values["told"]),
        bottleneck,
        values.get("asked", 0),
        values.get("is_silent", False),
        tuple(Bottleneck(one) for one in values.get("refuted", ())),
    )


# For which a training starts again: elsewhere, with other members or with another batch.
MOVES = (Axis.PLACE, Axis.NODE, Axis.SERVERS, Axis.BATCH)


def is_same(one: Allocation, other: Allocation) -> bool:
    """Whether both are one, as far as changes go."""
    is_alike = (one.gpus, one.off, one.servers, one.batch) == (other.gpus, other.off, other.servers, other.batch)
    return is_alike and round(one.cpu * 1000) == round(other.cpu * 1000)


def best(considered: Iterable[Considered], most: int = 3) -> tuple[Considered, ...]:
    """Those worth telling: what nothing speaks against, then what would gain but is refused."""
    worth = [one for one in considered if one.guard in (Guard.NONE, Guard.BUDGET)]
    return tuple(sorted(worth, key=lambda one: one.guard is not Guard.NONE)[:most])
