"""Running a benchmark, and storing what it gave if that may be compared with other runs."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from controlplane.benchmarks.harness import store, tree
from controlplane.benchmarks.harness.figure import BenchmarkError, Options
from controlplane.benchmarks.harness.printing import progress_on
from controlplane.benchmarks.harness.record import Record, machine
from controlplane.benchmarks.harness.registry import BENCHMARKS, Benchmark
from controlplane.benchmarks.harness.tree import Tree
from controlplane.testbed.processes import MissingError

NAMED = 3  # changed files that a message lists


@dataclass(frozen=True, slots=True)
class Measured:
    """A run, and why it is not stored; empty if it is."""

    record: Record
    not_stored: str


def measure(
    name: str, options: Options, *, quiet: bool = False, root: Path = tree.ROOT, benchmark: Benchmark | None = None
) -> Measured:
    """Run a benchmark, and store its figures in the checkout at `root` if they are whole and of a commit.

    `benchmark` is the registry's one of that name unless given. Raises BenchmarkError.
    """
    benchmark = benchmark or BENCHMARKS[name]
    before, load = tree.read_tree(root), round(os.getloadavg()[0], 2)
    with progress_on(name, quiet=quiet) as progress:
        try:
            result = benchmark(options, progress)
        except MissingError as missing:
            raise BenchmarkError(str(missing)) from missing
    date = datetime.now(UTC).isoformat(timespec="seconds")
    code = before.code(benchmark)
    record = Record(name, result.figures, result.notes, before.commit, code, date, machine(), load, options.seeds)
    reason = part_of(options) or changes_in(before) or _moved(before, tree.read_tree(root))
    if not reason:
        store.keep(record, root / "docs")
    return Measured(record, reason)


def part_of(options: Options) -> str:
    """Why a run with these options is not the benchmark's own; empty if it is."""
    if options == Options(options.data):
        return ""
    return "it was run with other options than its own"


def changes_in(now: Tree) -> str:
    """Why figures measured now belong to no commit; empty if they do."""
    if not now.commit:
        return "this is no git checkout, so they belong to no commit"
    if not now.changed:
        return ""
    more = f" and {len(now.changed) - NAMED} more" if len(now.changed) > NAMED else ""
    return f"the tree has changes that are not committed: {', '.join(now.changed[:NAMED])}{more}"


def _moved(before: Tree, after: Tree) -> str:
    return "" if before == after else "the tree changed while they were measured"
