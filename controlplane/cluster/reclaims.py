"""How long a training takes to give a lent GPU back, and what it loses by that: a table of what was measured.

`manage.py benchmark reclaim --write-table` measures on a real node and writes reclaims.json beside this file. The
simulated cluster draws from it when a borrower leaves (physics.py), and `benchmark slo` charges what a reclaim costs.
Two kinds of borrowers: `leave` ends at SIGTERM, `save` first writes 1 GiB to disk.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).with_suffix(".json")
PARTS = (0, 5, 25, 50, 75, 95, 100)  # percent of the turns that took no longer, of which the seconds are kept
KINDS = ("leave", "save")
# From the decision until the borrower's process has ended, its pod is gone, a request is answered; and the gang's
# pause, from its last step with the borrower to its next one without.
SPANS = ("ended", "gone", "answered", "loss")


class TableError(ValueError):
    """The table is not as it has to be; the message names the field and the fix."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Seconds that turns took: their mean, and the quantiles at PARTS, ascending."""

    mean: float
    quantiles: tuple[float, ...]

    def at(self, part: float) -> float:
        """The quantile at this part, 0..1, linear between those that are kept."""
        return float(np.interp(100.0 * part, PARTS, self.quantiles))


@dataclass(frozen=True, slots=True)
class Reclaims:
    """What was measured, when, on what machine and beside how much other work; by kind, and by kind and span.

    gpus: that the gang had with the one it borrowed. redone: steps of the gang that were computed again.
    """

    date: str
    machine: str
    load: float
    gpus: int
    turns: Mapping[str, int]
    redone: Mapping[str, int]
    seconds: Mapping[str, Mapping[str, Spread]]

    @property
    def gpu_seconds_lost(self) -> float:
        """What one reclaim costs the borrower over all its GPUs on average, of the kind that loses more."""
        return self.gpus * max(self.seconds[kind]["loss"].mean for kind in KINDS)


def table_of(turns: Sequence[Mapping[str, Any]], gpus: int, date: str, machine: str, load: float) -> dict[str, Any]:
    """The table as it is stored, of turns as `benchmark reclaim` prints them: each with its kind as `how`."""
    kinds = {}
    for kind in KINDS:
        found = [turn for turn in turns if turn["how"] == kind]
        if not found:
            raise TableError(f"There is no turn of the kind {kind}. Measure some with `manage.py benchmark reclaim`.")
        spans = {span: [float(turn[span]) for turn in found] for span in SPANS}
        told = {
            span: {"mean": _round(np.mean(values)), "quantiles": [_round(q) for q in np.percentile(values, PARTS)]}
            for span, values in spans.items()
        }
        kinds[kind] = {"turns": len(found), "redone": sum(int(turn["redone"]) for turn in found), **told}
    return {"date": date, "machine": machine, "load": load, "gpus": gpus, "parts": list(PARTS), "kinds": kinds}


def write(table: Mapping[str, Any], file: Path = FILE) -> None:
    """Store a table."""
    file.write_text(json.dumps(table, indent=1) + "\n")


def read(file: Path = FILE) -> Reclaims:
    """The stored table. Raises TableError."""
    try:
        table = json.loads(file.read_text())
        if table["parts"] != list(PARTS):
            raise TableError(f"parts of {file.name} are {table['parts']}, not {list(PARTS)}. {_ANEW}")
        kinds = table["kinds"]
        return Reclaims(
            str(table["date"]),
            str(table["machine"]),
            float(table["load"]),
            int(table["gpus"]),
            {kind: int(kinds[kind]["turns"]) for kind in KINDS},
            {kind: int(kinds[kind]["redone"]) for kind in KINDS},
            {kind: {span: _spread(f"{kind}.{span}", kinds[kind][span]) for span in SPANS} for kind in KINDS},
        )
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise TableError(f"{file.name} lacks {error}. {_ANEW}") from error


@cache
def measured() -> Reclaims:
    """The table that comes with Weft, read once."""
    return read()


_ANEW = "Write it anew with `manage.py benchmark reclaim --write-table`."


def _spread(name: str, told: Mapping[str, Any]) -> Spread:
    quantiles = tuple(float(value) for value in told["quantiles"])
    if len(quantiles) != len(PARTS) or list(quantiles) != sorted(quantiles) or not 0.0 <= quantiles[0] < np.inf:
        raise TableError(f"{name}.quantiles are no {len(PARTS)} ascending seconds: {list(quantiles)}. {_ANEW}")
    mean = float(told["mean"])
    if not quantiles[0] <= mean <= quantiles[-1]:
        raise TableError(f"{name}.mean is {mean}, which does not lie between its quantiles. {_ANEW}")
    return Spread(mean, quantiles)


def _round(value: Any) -> float:
    return round(float(value), 3)
