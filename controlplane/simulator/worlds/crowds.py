"""Work as it comes from people and their scripts: crowds of jobs of one kind, one shortly after the other.

A class describes many jobs of one kind by a few statistics, all of them shares and means of at least `MIN` jobs:

- `count` jobs come in `crowds`; `lengths` says how many jobs a crowd has;
- `days` says when crowds begin, in days from the beginning of the trace, and `long_days`, counted by their jobs, when
  crowds of `LONG` jobs and more do; the hour and the weekday have shares apart;
- `gaps` is the mean time between two jobs of one crowd, seconds;
- `seconds` is how long jobs run, `long_seconds` how long those of crowds of `LONG` jobs and more do;
- `alike` is how much the jobs of one crowd agree: the correlation of the running times' normal scores.

A curve states a distribution: values in order are cut into slices, and a slice is written as [share of all values up to
its end, mean of its values]. Between the middles of two slices the logarithm is interpolated. No single job can be read
from it, and the mean of what is drawn stays that of the original.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Curve = Sequence[Sequence[float]]

MIN = 10  # values behind each number of a curve
LONG = 10  # jobs of a crowd whose days and running times are told apart
FINE = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 1.0)  # where values are cut
COARSE = (0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
DAY, HOUR = 86_400.0, 3600.0
CANDIDATES = 8  # days among which the weekday's share decides


@dataclass(frozen=True, slots=True)
class Class:
    """One kind of jobs, by its statistics."""

    count: int
    crowds: int
    alike: float
    lengths: Curve
    gaps: Curve
    days: Curve
    seconds: Curve
    long_days: Curve = ()
    long_seconds: Curve = ()

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "Class":
        """As `to_dict` wrote it."""
        return cls(**row)

    def to_dict(self) -> dict[str, Any]:
        """For a table in JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Rhythm:
    """Shares of the crowds that begin in each hour of the day, and on each day of the week; both sum to 1."""

    hours: Sequence[float]
    weekdays: Sequence[float]


# --- from values to statistics --------------------------------------------------------------------------------------


def curve_of(values: Floats, cuts: Sequence[float] = FINE) -> list[list[float]]:
    """The curve of these values; empty for none, one mean for fewer than two slices' worth."""
    if not len(values):
        return []
    ordered, begin = np.sort(values), 0
    made: list[list[float]] = []
    for cut in cuts:
        end = round(cut * len(ordered))
        if cut < 1 and (end - begin < MIN or len(ordered) - end < MIN):
            continue
        share, mean = _rounded(end / len(ordered)), _rounded(float(ordered[begin:end].mean()))
        begin = end
        if len(made) > 1 and made[-1][1] == made[-2][1] == mean:
            made.pop()  # as the line goes on level, its inner points say nothing
        made.append([share, mean])
    return made


def crowds_of(at: Floats, gap: float) -> NDArray[np.int64]:
    """The crowd's number of each job of one kind; `at` is in order, and a pause longer than `gap` ends a crowd."""
    return np.concatenate([[0], np.cumsum(np.diff(at) > gap)]).astype(np.int64)


def class_of(parts: Sequence[tuple[Floats, Floats]], gap: float) -> Class:
    """The statistics of several kinds at once: (when jobs came, in order; how long they ran) of each."""
    crowds, offset = [], 0
    for at, _ in parts:
        crowds.append(crowds_of(at, gap) + offset)
        offset = int(crowds[-1][-1]) + 1
    of, times = np.concatenate(crowds), np.concatenate([at for at, _ in parts])
    seconds = np.concatenate([ran for _, ran in parts])
    lengths = np.bincount(of)
    first, last = np.full(len(lengths), np.inf), np.zeros(len(lengths))
    np.minimum.at(first, of, times)
    np.maximum.at(last, of, times)
    several = lengths > 1
    is_long = lengths[of] >= LONG
    tell_apart = min(is_long.sum(), (~is_long).sum()) >= 2 * MIN
    return Class(
        count=len(of),
        crowds=len(lengths),
        alike=_rounded(_alike(of, lengths, seconds)),
        lengths=curve_of(lengths.astype(np.float64)),
        gaps=curve_of((last - first)[several] / (lengths[several] - 1), COARSE),
        days=curve_of((first[lengths < LONG] if tell_apart else first) / DAY, COARSE),
        seconds=curve_of(seconds[~is_long] if tell_apart else seconds),
        long_days=curve_of(first[of[is_long]] / DAY) if tell_apart else [],
        long_seconds=curve_of(seconds[is_long]) if tell_apart else [],
    )


def rhythm_of(begins: Floats) -> Rhythm:
    """The shares of hours and weekdays among these moments, seconds from a midnight."""
    hours = np.bincount((begins % DAY // HOUR).astype(np.int64), minlength=24)
    weekdays = np.bincount((begins // DAY % 7).astype(np.int64), minlength=7)
    return Rhythm([_rounded(x / len(begins)) for x in hours], [_rounded(x / len(begins)) for x in weekdays])


def _alike(of: NDArray[np.int64], lengths: NDArray[np.int64], seconds: Floats) -> float:
    """The mean correlation of a job with the others of its crowd, in normal scores of the running time."""
    scores = _normal(_places(seconds))
    sums, squares = np.bincount(of, scores), np.bincount(of, scores**2)
    several = lengths > 1
    if not several.any():
        return 0.0
    pairs = (sums**2 - squares)[several] / (lengths[several] - 1)
    return float(np.clip(pairs.sum() / lengths[several].sum(), 0.0, 0.99))


# --- from statistics to jobs ----------------------------------------------------------------------------------------


def drawn(kind: Class, count: int, rhythm: Rhythm, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """When `count` jobs of this kind come, and how long they run; whole seconds, not in order."""
    lengths = _lengths(kind, count, rng)
    of = np.repeat(np.arange(len(lengths)), lengths)
    begins = _begins(kind.days, len(lengths), rhythm, rng)
    if kind.long_days:
        begins = np.where(lengths < LONG, begins, _begins(kind.long_days, len(lengths), rhythm, rng))
    gaps = value_at(kind.gaps, rng.permutation(_middles(len(lengths)))) if kind.gaps else np.zeros(len(lengths))
    steps = rng.exponential(gaps[of])
    starts = np.cumsum(lengths) - lengths
    passed = np.cumsum(steps)
    at = begins[of] + passed - passed[starts][of]
    scores = np.sqrt(kind.alike) * rng.standard_normal(len(lengths))[of]
    scores += np.sqrt(1 - kind.alike) * rng.standard_normal(count)
    seconds = np.empty(count)
    is_long = lengths[of] >= LONG if kind.long_seconds else np.zeros(count, dtype=np.bool_)
    for mask, curve in ((~is_long, kind.seconds), (is_long, kind.long_seconds)):
        if mask.any():
            seconds[mask] = value_at(curve, _places(scores[mask]))
    return np.rint(at), np.maximum(1.0, np.rint(seconds))


def value_at(curve: Curve, places: Floats) -> Floats:
    """The values at these places, 0..1, of a curve."""
    ends, means = np.array(curve, dtype=np.float64).T
    middles = (np.concatenate([[0.0], ends[:-1]]) + ends) / 2
    found: Floats = np.expm1(np.interp(places, middles, np.log1p(means)))
    # There and back is exact on some processors only, and a day is cut to whole days.
    return found.clip(means.min(), means.max())


def _lengths(kind: Class, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """How many jobs each crowd has: as the curve says, `count` in all."""
    crowds = max(1, round(count * kind.crowds / kind.count))
    wanted = rng.permutation(value_at(kind.lengths, _middles(crowds)))
    whole: NDArray[np.int64] = np.maximum(1, np.rint(wanted * count / wanted.sum())).astype(np.int64)
    while (over := int(whole.sum()) - count) > 0:
        largest = np.argsort(-whole, kind="stable")[: min(over, int((whole > 1).sum()))]
        whole[largest] -= 1
    whole[int(np.argmax(whole))] += count - int(whole.sum())
    return whole


def _begins(curve: Curve, crowds: int, rhythm: Rhythm, rng: np.random.Generator) -> Floats:
    """When each crowd begins: a day by the curve and the weekday's share, and an hour by its share."""
    offered = np.floor(value_at(curve, rng.random((crowds, CANDIDATES)).ravel())).reshape(crowds, CANDIDATES)
    weight = np.array(rhythm.weekdays)[(offered % 7).astype(np.int64)]
    share = np.cumsum(weight, axis=1)
    chosen = (share < rng.random((crowds, 1)) * share[:, -1:]).sum(axis=1)
    days = offered[np.arange(crowds), chosen]
    hours = np.array(rhythm.hours)
    found: Floats = days * DAY + rng.choice(24, crowds, p=hours / hours.sum()) * HOUR + rng.random(crowds) * HOUR
    return found


def _places(values: Floats) -> Floats:
    """The place of each value among all, 0..1; equal values stand in the order given."""
    places = np.empty(len(values))
    places[np.argsort(values, kind="stable")] = _middles(len(values))
    return places


def _middles(count: int) -> Floats:
    middles: Floats = (np.arange(count) + 0.5) / count
    return middles


def _normal(places: Floats) -> Floats:
    """The standard normal distribution's values at these places (Hastings; error below 0.00045)."""
    tail = np.minimum(places, 1 - places)
    t = np.sqrt(-2 * np.log(tail))
    value = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)))
    found: Floats = np.where(places < 0.5, -value, value)
    return found


def _rounded(value: float) -> float:
    """Three significant digits."""
    short = float(f"{value:.3g}")
    return int(short) if short.is_integer() else short
