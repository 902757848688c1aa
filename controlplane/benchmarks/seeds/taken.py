"""Whole benchmarks of other figures: as they are stored, with how old they are, or measured now."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from controlplane.benchmarks.harness.figure import Figure, Options, Progress, Result
from controlplane.benchmarks.harness.figures import shown
from controlplane.benchmarks.harness.printing import Shown
from controlplane.benchmarks.harness.registry import BENCHMARKS
from controlplane.benchmarks.harness.tree import ROOT, Tree, read_tree
from controlplane.benchmarks.seeds.kept import Kept

OF = {"E3": "slo", "E4": "notebooks", "E5": "nearchus", "E6": "nearchus", "E8": "tokens", "E9": "sia"}
QUICK = 1  # draws of `tokens` in the short form
# One file of each without which it cannot be measured.
NEEDS = {
    "slo": "inference/azure_llm_2023_conv.csv",
    "notebooks": "notebooks/interactive_training_events.csv.gz",
    "nearchus": "training/pollux/workloads_1-4.csv",
    "sia": "training/sia/workloads.csv",
}


@dataclass(frozen=True, slots=True)
class Taken:
    """Figures and notes, and where they are from; no figures: there are none, and source says why."""

    result: Result
    source: str


class Benchmarks:
    """is_measured: all are measured anew; else those that are stored are taken from there.

    is_short: none is measured but `tokens`, with few draws, as the others take long and need data.
    """

    def __init__(self, *, is_measured: bool, is_short: bool, root: Path = ROOT) -> None:
        self.is_measured, self.is_short = is_measured, is_short
        self.now = read_tree(root)
        self.stored = {name: one for name, one in shown(self.now, root).items() if one.record is not None}

    def is_due(self, name: str) -> bool:
        """Whether it has to be measured."""
        if self.is_short:
            return name == "tokens"
        return self.is_measured or name not in self.stored

    def missing(self, data: Path, names: Sequence[str]) -> Iterator[str]:
        """Files that those which are due lack."""
        for name in names:
            if self.is_due(name) and name in NEEDS and not (data / NEEDS[name]).exists():
                yield f"{NEEDS[name]} ({', '.join(one for one, of in OF.items() if of == name)})"

    def take(self, name: str, data: Path, kept: Kept, progress: Progress) -> Taken:
        """One of them. Raises BenchmarkError."""
        if not self.is_due(name):
            return _of_store(self.stored[name]) if name in self.stored else NOTHING
        value = kept.get(name)
        if value is None:
            options = Options(data, repeat=QUICK if self.is_short else None)
            result = BENCHMARKS[name](options, progress)
            value = {"figures": [asdict(one) for one in result.figures], "notes": list(result.notes)}
            if not self.is_short:
                kept.add(name, value)
        figures = tuple(Figure(**one) for one in value["figures"])
        said = ", of one draw only" if self.is_short else ""
        return Taken(Result(figures, tuple(value["notes"])), f"measured{said}, {commit_of(self.now)}")


NOTHING = Taken(Result(()), "not stored, and the short form does not measure it")


def commit_of(now: Tree) -> str:
    """Which code."""
    if not now.commit:
        return "no git checkout"
    return f"commit {now.commit}" + (" with changes that are not committed" if now.changed else "")


def _of_store(one: Shown) -> Taken:
    record = one.record
    assert record is not None, "only those with a record are asked for"  # noqa: S101
    age = one.remark or "its code is the same today"
    return Taken(Result(record.figures, record.notes), f"stored: commit {record.commit}, {record.date[:16]}; {age}")
