"""A row is one figure of the report. Tables, charts, losses and the CSV are all made of the same rows."""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

from controlplane.benchmarks.harness.figure import Figure


class Kind(StrEnum):
    """What a row is about."""

    CLAIM = "claim"  # a figure that a paper or the poster states; policy: which
    GOAL = "goal"  # a figure of a benchmark, and what it is to reach
    AGAINST = "against"  # ours and another policy
    CURVE = "crowding"  # the same, with other parts of the cluster taken
    SCALE = "scale"  # the same, in a cluster many times as large
    STEP = "ablation"  # ours with a part of what it consists of


@dataclass(frozen=True, slots=True)
class Row:
    """what: is measured; where: set of trainings, crowding, trace; policy: compared with.

    value between low and high, the ends of its 95 % interval; all the same where there is none. level: where the policy
    is as good as ours, and below it better; None: nothing is compared. goal, is_most: what is to be reached, at most or
    at least. seeds: that it is made of, 0: the run has its own; source: measured now, or stored and when.
    """

    experiment: str
    kind: Kind
    what: str
    where: str
    policy: str
    value: float
    low: float
    high: float
    unit: str
    level: float | None = None
    goal: float | None = None
    is_most: bool = False
    seeds: int = 0
    source: str = ""

    @property
    def met(self) -> bool | None:
        """Whether what is to be reached is; None: there is nothing to reach."""
        if self.goal is None:
            return None
        return self.value <= self.goal if self.is_most else self.value >= self.goal

    @property
    def is_lost(self) -> bool:
        """The goal or claim is missed, or the policy is better than ours or level, as far as the interval tells."""
        return self.met is False or (self.level is not None and self.low <= self.level)

    @property
    def verdict(self) -> str:
        """In a word, where it is lost."""
        if not self.is_lost:
            return ""
        if self.met is False:
            return "missed"
        return "better than ours" if self.level is not None and self.high < self.level else "level with ours"

    @property
    def shown(self) -> str:
        """The value with its interval."""
        value = f"{self.value:.3g}" if abs(self.value) < 1000 else f"{self.value:.0f}"
        if self.low == self.high:
            return f"{value} {self.unit}".strip()
        return f"{value} {self.unit} [{self.low:.3g}, {self.high:.3g}]".replace("  ", " ")


def goal_of(experiment: str, figure: Figure, where: str, source: str, seeds: int = 0) -> Row:
    """A benchmark's figure."""
    value = figure.value
    return Row(
        experiment, Kind.GOAL, figure.name, where, "", value, value, value, figure.unit, None, figure.goal,
        not figure.higher_is_better, seeds, source,
    )  # fmt: skip


def claim_of(experiment: str, paper: str, what: str, figure: Figure, goal: float, source: str, seeds: int = 0) -> Row:
    """What a paper says, beside our figure: it is met in the same direction as the figure's own goal."""
    value, name = figure.value, f"our {figure.name}"
    return Row(
        experiment, Kind.CLAIM, what, name, paper, value, value, value, figure.unit, None, goal,
        not figure.higher_is_better, seeds, source,
    )  # fmt: skip


def unmet(rows: Iterable[Row]) -> list[Row]:
    """Claims, then goals, that are missed."""
    missed = [row for row in rows if row.met is False]
    return sorted(missed, key=lambda row: (row.kind is not Kind.CLAIM, row.experiment))


def level(rows: Iterable[Row]) -> list[Row]:
    """Where another policy is level with ours or better; what is compared for two charts is there once."""
    lost = [row for row in rows if row.met is None and row.is_lost]
    return list({(row.experiment, row.what, row.where, row.policy): row for row in lost}.values())


def table(rows: Sequence[Row]) -> str:
    """All of them as CSV, a line each, with whether it is met and whether it is lost."""
    out = io.StringIO()
    names = [one.name for one in fields(Row)]
    writer = csv.DictWriter(out, [*names, "met", "verdict"], lineterminator="\n")
    writer.writeheader()
    said: Callable[[bool | None], str] = {True: "yes", False: "no", None: ""}.__getitem__
    for row in rows:
        line: dict[str, Any] = {name: "" if value is None else value for name, value in asdict(row).items()}
        writer.writerow({**line, "met": said(row.met), "verdict": row.verdict})
    return out.getvalue()
