"""Which constants half of the traces and the first seeds ask for: `python -m controlplane.benchmarks.slo.choice`.

One constant at a time is moved from its value, all others stay. With standby the best is what has the fewest net hours
(geometric mean over traces and seeds) with no bad minute, .15 % late at most, and .1 % but for spike. Alone it is what
has the fewest hours over the oracle's for each cell that is attained: hours / oracle summed, over cells attained. A
constant is moved where it may not be chosen as it is, or where another value is better by half a percent.
Nothing else reads this: docs/objectives.md tells what came out.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from autoscaler import law
from controlplane.benchmarks.slo import policies, traces
from controlplane.benchmarks.slo.cells import STARTS, WAKES, Cell, judged, mean, worst
from controlplane.benchmarks.slo.notes import CHOSEN_ON

SEEDS = range(5)
TRIED: Mapping[str, tuple[law.Constants, tuple[float, ...], Mapping[str, tuple[float, ...]]]] = {
    "standby": (
        law.STANDBY, WAKES[:1],
        {
            "part": (0.3, 0.4, 0.6, 0.7), "tail": (0.5, 0.75, 1.5, 2.25), "horizon": (0.0, 5.0, 15.0, 20.0),
            "queue_seconds": (15.0, 20.0, 45.0), "fall": (15.0, 45.0, 60.0),
        },
    ),
    "alone": (
        law.ALONE, STARTS,
        {
            "part": (0.2, 0.25, 0.4, 0.5), "tail": (2.25, 4.0, 7.0, 9.0), "horizon": (0.0, 30.0, 45.0),
            "queue_seconds": (10.0, 15.0, 30.0), "longest": (120.0, 240.0, 600.0),
        },
    ),
}  # fmt: skip


def cells(name: str, seed: int, data: Path, constants: law.Constants, starts: Sequence[float]) -> list[Cell]:
    """The law with these constants on one trace."""
    trace = traces.load(name, data, seed)
    return [judged("tried", trace, seed, start, partial(policies.by_law, constants=constants)) for start in starts]


def told(kind: str, found: Sequence[Cell]) -> str:
    """What is chosen by, and whether it may be chosen."""
    if kind == "alone":
        attained = sum(cell.attained for cell in found)
        return f"{sum(c.net(0.0) for c in found) / max(1, attained):.3f} for a cell, {attained} of {len(found)}"
    late, but = worst(found), worst(c for c in found if c.trace != "spike")
    bad = sum(c.bad_windows for c in found)
    may = "" if late <= 0.15 and but <= 0.1 and not bad else " (may not be chosen)"
    return f"net {mean(c.net() for c in found):.4f}, late {late:.3f}, {but:.3f} but spike, {bad} bad{may}"


def lines(data: Path) -> Iterator[str]:
    """A line for each value of each constant."""
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        for kind, (usual, starts, grid) in TRIED.items():
            tries = [("as it is", usual)]
            for name, some in grid.items():
                changes: list[dict[str, Any]] = [{name: value} for value in some]
                tries += [(f"{name} {one[name]:g}", replace(usual, **one)) for one in changes]
            for label, constants in tries:
                one = partial(cells, data=data, constants=constants, starts=starts)
                pairs = [(name, seed) for seed in SEEDS for name in CHOSEN_ON]
                found = [cell for some in pool.map(one, *zip(*pairs, strict=True)) for cell in some]
                yield f"{kind}, {label}: {told(kind, found)}"


if __name__ == "__main__":
    for line in lines(Path(os.environ.get("WEFT_DATA", "../shared/data"))):
        print(line, file=sys.stdout, flush=True)
