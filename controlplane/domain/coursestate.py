"""What is remembered of the changes that a training tries, as plain values for its row and for those of experiments."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from autoscaler.bottleneck.window import Bottleneck
from autoscaler.experiment.experiment import restored, written
from autoscaler.reallocate.candidates import Axis, Candidate
from autoscaler.reallocate.choice import Considered, Guard, Past
from autoscaler.reallocate.course import Course, Seen
from autoscaler.throughput.allocation import Allocation
from autoscaler.throughput.estimate import Estimate
from autoscaler.throughput.fit import Observation

_FIELDS = tuple(field.name for field in fields(Allocation))


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
    """As JSON. Allocations are named by their place in one list: most windows have the same one."""
    known: list[Allocation] = []
    course = kept.course

    def number(one: Allocation) -> int:
        if one not in known:
            known.append(one)
        return known.index(one)

    values = {
        "attempt": kept.attempt,
        "told": list(kept.told),
        "bottleneck": kept.bottleneck and kept.bottleneck.value,
        "now": number(course.now),
        "experiment": written(course.experiment),
        "change": None
        if course.change is None
        else _considered(course.change, number(course.change.candidate.allocation)),
        "windows": [[number(one.allocation), one.step, one.exchange, one.wait] for one in course.windows],
        "seen": [
            [number(one.allocation), one.step, one.exchange, one.wait, one.error, one.is_lent] for one in course.seen
        ],
        "tabu": sorted(number(one) for one in course.past.tabu),
        "moves": course.past.moves,
        "is_resting": course.is_resting,
    }
    return values | {"allocations": [allocation(one) for one in known]}


def kept_of(values: Mapping[str, Any]) -> Kept:
    """What `plain` told."""
    known = [allocation_of(one) for one in values["allocations"]]
    change, named = values["change"], values["bottleneck"]
    course = Course(
        now=known[values["now"]],
        experiment=restored(values["experiment"]),
        change=None if change is None else _change(change, known),
        windows=tuple(Seen(known[place], *times) for place, *times in values["windows"]),
        seen=tuple(Observation(known[place], *rest) for place, *rest in values["seen"]),
        past=Past(frozenset(known[place] for place in values["tabu"]), values["moves"]),
        is_resting=values["is_resting"],
    )
    return Kept(values["attempt"], course, tuple(values["told"]), None if named is None else Bottleneck(named))


def allocation(one: Allocation) -> dict[str, Any]:
    """An allocation as plain values."""
    return asdict(one) | {"gpus": list(one.gpus)}


def allocation_of(values: Mapping[str, Any]) -> Allocation:
    """What `allocation` told."""
    return Allocation(**{name: values[name] for name in _FIELDS} | {"gpus": tuple(values["gpus"])})


def _considered(one: Considered, place: int) -> list[Any]:
    return [one.candidate.axis.value, place, one.gain.value, one.gain.error, one.cost, one.guard.value, one.budget]


def _change(values: Sequence[Any], known: Sequence[Allocation]) -> Considered:
    axis, place, gain, error, cost, guard, budget = values
    return Considered(Candidate(Axis(axis), known[place]), Estimate(gain, error), cost, Guard(guard), budget)


def has(values: Mapping[str, Any], cpu_milli: int) -> bool:
    """Whether workers that are to have so much CPU have this allocation, as far as changes go."""
    return round(float(values["cpu"]) * 1000) == cpu_milli


def best(considered: Iterable[Considered], most: int = 3) -> tuple[Considered, ...]:
    """Those worth telling: what nothing speaks against, then what would gain but is refused."""
    worth = [one for one in considered if one.guard in (Guard.NONE, Guard.BUDGET)]
    return tuple(sorted(worth, key=lambda one: one.guard is not Guard.NONE)[:most])
