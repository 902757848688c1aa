"""E3 on loads that are drawn: the law and the families of baselines, a setting each, on the same requests."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from controlplane.benchmarks.seeds.rows import Kind, Row
from controlplane.benchmarks.slo import curves, traces

SEED = 5
OURS = "law, standby"


def rows(names: Sequence[str], data: Path, source: str) -> Iterator[Row]:
    """Of each trace: late requests, bad minutes and replica-hours of each policy, held against the law with standby."""
    for name in names:
        cell = curves.cell(traces.load(name, data, SEED))
        mine = next(curve.judged for curve in cell.curves if curve.policy == OURS)
        for curve in cell.curves:
            if curve.policy == OURS:
                continue
            told = curve.judged
            yield from (
                Row(
                    "E3",
                    Kind.AGAINST,
                    what,
                    name,
                    curve.policy,
                    value,
                    value,
                    value,
                    unit,
                    level,
                    seeds=1,
                    source=source,
                )
                for what, value, unit, level in (
                    ("late requests more than ours", told.late_percent - mine.late_percent, "points", 0.0),
                    (
                        "bad minutes more than ours",
                        float(len(told.bad_windows) - len(mine.bad_windows)),
                        "minutes",
                        0.0,
                    ),
                    ("replica-hours over ours", told.hours / mine.hours, "x", 1.0),
                )
            )
