"""The file of `manage.py simulate --experiment`: which trainings, under which policies, how often. docs/simulate.md."""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from controlplane.benchmarks.fromfile import sample
from controlplane.benchmarks.training.cluster16 import MOST_GPUS
from controlplane.benchmarks.training.nearchuscluster import CASES, LOADS, Case
from controlplane.jobspec import quantities

T = TypeVar("T")

# Names in the file, and which setting of nearchus each is; `weft` follows `history` and `batch`.
WEFT = "weft"
THEIRS: Mapping[str, str] = {
    "fifo": "FIFO",
    "fifo-ideal": "FIFO ideal",
    "tiresias": "Tiresias",
    "tiresias-packed": "Tiresias packed",
    "tiresias-ideal": "Tiresias ideal",
    "optimus-600": "Optimus 600 s",
    "optimus-60": "Optimus 60 s",
    "optimus-600-ideal": "Optimus 600 s ideal",
    "optimus-60-ideal": "Optimus 60 s ideal",
}
POLICIES = (WEFT, *THEIRS)
BATCHES: Mapping[str, float] = {"free": 1.0, "half": 0.5, "fixed": 0.0}  # the part that may choose its batch
FAMILIES = (*LOADS, "philly", "saturn", "newtrace", "rate_10", "rate_20", "rate_30", "rate_40", "rate_50")
MOST_TRAININGS = 2000
MOST_SEEDS = 20
MODELS = ("bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3")  # of the shared data, measured on T4


class ExperimentError(Exception):
    """What is wrong with the file: the field, and the fix."""


@dataclass(frozen=True, slots=True)
class Row:
    """Trainings as the file writes them: `count` of them, the first at `at` (s), each `every` s later."""

    model: str
    gpus: int
    batch: int | None
    at: float
    count: int
    every: float


@dataclass(frozen=True, slots=True)
class Experiment:
    """What is to be played. workload: of the shared data, or None where the file has trainings of its own."""

    workload: Case | None
    rows: tuple[Row, ...]
    policies: tuple[str, ...]
    free: float
    has_history: bool
    noise: float
    seeds: tuple[int, ...]


def parse(document: Any) -> Experiment:
    """Read the document of the file. Raises ExperimentError."""
    given = _Fields(document, "", ("workload", "trainings", "policies", "batch", "history", "noise", "seeds"))
    if ("workload" in given.values) == ("trainings" in given.values):
        raise ExperimentError("workload: give either workload or trainings, and not both.")
    rows = tuple(_row(one, f"trainings[{at}]") for at, one in enumerate(given.list("trainings", ())))
    if "trainings" in given.values and not rows:
        raise ExperimentError("trainings: give at least one, such as {model: sample, gpus: 4}.")
    if (count := sum(row.count for row in rows)) > MOST_TRAININGS:
        raise ExperimentError(f"trainings: these are {count}. Give at most {MOST_TRAININGS}.")
    return Experiment(
        workload=_workload(given.values["workload"]) if "workload" in given.values else None,
        rows=rows,
        policies=_distinct("policies", [_policy(one) for one in given.list("policies", (WEFT, "tiresias"))]),
        free=BATCHES[given.choice("batch", BATCHES, "fixed")],
        has_history=given.boolean("history", is_default=True),
        noise=given.number("noise", 0.1, 0.0, 1.0),
        seeds=_seeds(given.list("seeds", (0,))),
    )


def _workload(value: Any) -> Case:
    given = _Fields(value, "workload", ("family", "number"))
    family = given.choice("family", FAMILIES, None)
    most = max((number for known, number in CASES if known == family), default=5)
    return family, given.whole("number", 1, 1, most)


def _row(value: Any, place: str) -> Row:
    given = _Fields(value, place, ("model", "gpus", "batch", "at", "count", "every"))
    return Row(
        model=given.choice("model", (sample.MODEL, *MODELS), None),
        gpus=given.whole("gpus", 1, 1, MOST_GPUS),
        batch=given.whole("batch", 1, 1, 1_000_000) if "batch" in given.values else None,
        at=given.seconds("at"),
        count=given.whole("count", 1, 1, MOST_TRAININGS),
        every=given.seconds("every"),
    )


def _policy(value: Any) -> str:
    if value not in POLICIES:
        raise ExperimentError(f"policies: {value!r} is none. {_use(value, POLICIES)}")
    return str(value)


def _seeds(values: Sequence[Any]) -> tuple[int, ...]:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ExperimentError(f"seeds: {value!r} is no whole number from 0 on. Write such as [0, 1, 2].")
    if not 1 <= len(values) <= MOST_SEEDS:
        raise ExperimentError(f"seeds: give 1 to {MOST_SEEDS} of them, here are {len(values)}.")
    return _distinct("seeds", values)


def _distinct(field: str, values: Iterable[T]) -> tuple[T, ...]:
    found = tuple(values)
    if len(set(found)) < len(found):
        raise ExperimentError(f"{field}: one is there twice. Name each once.")
    return found


def _use(value: Any, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(str(value), list(known), 1)
    return f"Did you mean {near[0]}?" if near else f"Use one of {', '.join(known)}."


class _Fields:
    """An object of the document, read field by field. place: where it stands; empty: it is the document."""

    def __init__(self, value: Any, place: str, known: Sequence[str]) -> None:
        if not isinstance(value, dict):
            told = f"{place}: write" if place else "The file has to be"
            raise ExperimentError(f"{told} an object with {', '.join(known)}.")
        for name in value:
            if name not in known:
                raise ExperimentError(f"{_joined(place, str(name))} is no field. {_use(name, known)}")
        self.values: Mapping[str, Any] = value
        self._place = place

    def list(self, name: str, default: Sequence[Any]) -> Sequence[Any]:
        """A list."""
        found: Sequence[Any] = self._read(name, default, lambda one: isinstance(one, list), "a list")
        return found

    def boolean(self, name: str, *, is_default: bool) -> bool:
        """True or false."""
        return bool(self._read(name, is_default, lambda one: isinstance(one, bool), "true or false"))

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number within these."""
        return int(self._read(name, default, _is_whole(least, most), f"a whole number from {least} to {most}"))

    def number(self, name: str, default: float, least: float, most: float) -> float:
        """A number within these."""
        return float(self._read(name, default, _is_number(least, most), f"a number from {least:g} to {most:g}"))

    def seconds(self, name: str) -> float:
        """A duration as in a job file, such as 90s or 2h; 0 without it."""
        if self.values.get(name) is None:
            return 0.0
        try:
            return float(quantities.seconds(self.values[name]))
        except (ValueError, TypeError):
            message = f"{_joined(self._place, name)}: {self.values[name]!r} is not a duration. Write such as 90s or 2h."
            raise ExperimentError(message) from None

    def choice(self, name: str, known: Iterable[str], default: str | None) -> str:
        """One of these names; required where there is no default."""
        value = self.values.get(name, default)
        if value is None:
            raise ExperimentError(f"{_joined(self._place, name)} is missing. Use one of {', '.join(known)}.")
        if value not in tuple(known):
            raise ExperimentError(f"{_joined(self._place, name)}: {value!r} is none. {_use(value, known)}")
        return str(value)

    def _read(self, name: str, default: Any, is_right: Callable[[Any], bool], what: str) -> Any:
        value = self.values.get(name, default)
        if name in self.values and not is_right(value):
            raise ExperimentError(f"{_joined(self._place, name)}: {value!r} is not {what}. Write {what}.")
        return value


def _joined(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _is_whole(least: int, most: int) -> Callable[[Any], bool]:
    return lambda one: isinstance(one, int) and not isinstance(one, bool) and least <= one <= most


def _is_number(least: float, most: float) -> Callable[[Any], bool]:
    return lambda one: isinstance(one, int | float) and not isinstance(one, bool) and least <= one <= most
