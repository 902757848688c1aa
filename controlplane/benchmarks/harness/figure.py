"""What a benchmark gives: figures with their goals."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

Progress = Callable[[float, str], None]  # (part done in 0..1, what happens now)


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value. goal None: there is nothing to reach; lower is better unless said otherwise.

    most: the value is to lie between goal and this.
    """

    name: str  # BENCHMARK.WHAT_UNIT, and it stays
    value: float
    unit: str
    goal: float | None = None
    higher_is_better: bool = False
    most: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached; None without a goal."""
        if self.goal is None:
            return None
        if self.most is not None:
            return self.goal <= self.value <= self.most
        return self.value >= self.goal if self.higher_is_better else self.value <= self.goal


@dataclass(frozen=True, slots=True)
class Options:
    """What a run may be told. Figures of a run with other than the default options are not stored."""

    data: Path  # the shared traces
    jobs: int | None = None  # fewer jobs than the benchmark's own number
    seeds: tuple[int, ...] = (0,)
    repeat: int | None = None  # fewer repetitions than the benchmark's own number
    pods: Path | None = None  # a list of pods of one's own, of benchmarks that read one
    nodes: Path | None = None  # a list of machines of one's own
    write_table: bool = False  # reclaim: also write the table that the simulated cluster draws from
    gpus: int | None = None  # round: at this size, what round-large measures


@dataclass(frozen=True, slots=True)
class Result:
    """All figures of one run, and what else it is worth knowing."""

    figures: tuple[Figure, ...]
    notes: tuple[str, ...] = field(default=())


class BenchmarkError(Exception):
    """The benchmark cannot run; the message is one sentence with the fix."""


def quantile(values: Iterable[float], part: float) -> float:
    """The smallest value that so large a part of all is not above (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, -int(-len(ordered) * part // 1) - 1)]
