"""What ended work teaches: how long work of a kind ran, and by how much its users' estimates were off.

A history is part of the snapshot, so that a stored round can be decided again. It is small: a group's run times are
kept as the values at `LEVELS`, whatever the number of runs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from scheduler.model.workload import Kind

STEPS = 20
LEVELS = tuple(i / STEPS for i in range(STEPS + 1))  # 0, 0.05, ... 1: the parts of all runs that were as short
MIN = 20  # runs a group needs to be believed: fewer say nothing about its tenth and nine tenths
NEWEST = 1000  # predictions that are compared with what became of them: several days' worth, so no one moment rules

Values = tuple[float, ...]  # at LEVELS, ascending


@dataclass(frozen=True, slots=True)
class Run:
    """One workload that ended by itself. seconds: its running time, all attempts together."""

    kind: Kind
    team: str
    milli: int  # of all its workers
    seconds: float
    expected_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Mistake:
    """One wait as it was predicted when the work was submitted, and as it was, in seconds."""

    low: float
    median: float
    high: float
    actual: float


@dataclass(frozen=True)
class History:
    """Run times by group, actual over expected running times, and actual over predicted waits.

    mistakes: for the low end, the middle and the high end of predicted waits; empty if too few are known.
    """

    runs: tuple[tuple[str, Values], ...] = ()
    ratios: Values = ()
    mistakes: tuple[Values, ...] = ()

    def run_seconds(self, kind: Kind, team: str, milli: int) -> Values | None:
        """How long such work ran, at LEVELS: of its team and size, of its size, of its kind; None if not known."""
        known, asked = self._known, self._asked
        if not known:
            return None
        key = kind, team, milli
        if key not in asked:
            asked[key] = next((known[group] for group in groups(kind, team, milli) if group in known), None)
        return asked[key]

    @cached_property
    def _asked(self) -> dict[tuple[Kind, str, int], Values | None]:
        """What was answered so far: most that wait ask of the same few groups."""
        return {}

    @cached_property
    def _known(self) -> dict[str, Values]:
        return dict(self.runs)


UNKNOWN = History()  # nothing has ended yet


def groups(kind: Kind, team: str, milli: int) -> tuple[str, ...]:
    """The groups a workload belongs to, the narrowest first. Sizes are counted in powers of two."""
    size = max(0, milli - 1).bit_length()
    return f"{kind}/{size}/{team}", f"{kind}/{size}", f"{kind}"


def learn(runs: Iterable[Run]) -> History:
    """The history of these runs."""
    seconds: dict[str, list[float]] = {}
    ratios: list[float] = []
    for run in runs:
        for group in groups(run.kind, run.team, run.milli):
            seconds.setdefault(group, []).append(run.seconds)
        if run.expected_seconds:
            ratios.append(run.seconds / run.expected_seconds)
    kept = {group: at_levels(found) for group, found in sorted(seconds.items()) if len(found) >= MIN}
    return History(tuple(kept.items()), at_levels(ratios) if len(ratios) >= MIN else ())


def at_levels(found: Sequence[float]) -> Values:
    """The values at LEVELS of a sample, linear between its members."""
    ordered = sorted(found)
    return tuple(round(_between(ordered, level), 3) for level in LEVELS)


def _between(ordered: Sequence[float], level: float) -> float:
    place = level * (len(ordered) - 1)
    low = min(int(place), len(ordered) - 2) if len(ordered) > 1 else 0
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
