"""The figure `nearchus` as one HTML page that needs nothing else, and its runs in the cluster as CSV."""

import csv
import io
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields

from django.utils.safestring import SafeString

from controlplane.benchmarks.harness import parts
from controlplane.benchmarks.harness.figure import Options, Progress, Result
from controlplane.benchmarks.training import nearchuscluster, singlejobs
from controlplane.benchmarks.training.nearchuscluster import (
    OURS,
    SETTINGS,
    THEIRS,
    Case,
    Summaries,
    Summary,
    gains,
    interval,
)

SINGLES = 0.1  # of the time


@dataclass(frozen=True, slots=True)
class Found:
    """Single trainings; the cluster: what its simulator was held against, its runs, and the workloads."""

    singles: Result
    checks: tuple[str, ...]
    told: Summaries
    cases: tuple[Case, ...]


def measured(options: Options, progress: Progress) -> Found:
    """Simulate all. Raises BenchmarkError."""
    singles = singlejobs.figures(options, lambda part, what: progress(SINGLES * part, what))
    checks, told, cases = nearchuscluster.played(
        options, lambda part, what: progress(SINGLES + (1 - SINGLES) * part, what)
    )
    return Found(singles, tuple(checks), told, cases)


def page(found: Found) -> str:
    """The whole report."""
    cluster = nearchuscluster.judged(found.told, found.cases)
    return parts.whole(
        "Trainings: what re-allocation gives one of them, and a cluster",
        (nearchuscluster.__doc__ or "").split("\n\n")[1],
        parts.figures(Result((*found.singles.figures, *cluster.figures))),
        parts.section("Losses: where another policy is level with ours or better", parts.listed(losses(found))),
        *(_setting(found, ours) for ours in OURS),
        parts.section("Mean completion time by workloads, s", _families(found)),
        parts.section("One training at the same GPUs", parts.listed(found.singles.notes)),
        parts.section("The simulator, and all in words", parts.listed((*found.checks, *cluster.notes))),
    )


def table(found: Found) -> str:
    """Each setting on each workload as a line of CSV: means of its seeds, in s."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("setting", "family", "workload", *(one.name for one in fields(Summary))))
    for (name, (family, number)), summary in found.told.items():
        writer.writerow((name, family, number, *(round(value, 4) for value in asdict(summary).values())))
    return out.getvalue()


def losses(found: Found) -> list[str]:
    """Each workload on which another policy's mean completion time is as short as one of ours, or shorter."""
    lost = []
    for ours in OURS:
        for case in found.cases:
            mine = found.told[ours, case].jct
            better = [name for name in THEIRS if found.told[name, case].jct <= mine]
            if better:
                lost.append(f"{ours}: {case[0]} {case[1]}: {', '.join(better)}")
    return lost or ["None."]


def _setting(found: Found, ours: str) -> SafeString:
    return parts.section(
        f"{ours}: by how much the mean completion time is lower, %, with its interval over workloads",
        parts.bars(list(_bars(found, ours)), "%"),
    )


def _bars(found: Found, ours: str) -> Iterator[parts.Bar]:
    for theirs in THEIRS:
        values = 100 * gains(found.told, found.cases, ours, theirs)
        low, high = interval(values)
        yield theirs, low, float(values.mean()), high


def _families(found: Found) -> SafeString:
    families = list(dict.fromkeys(family for family, _ in found.cases))
    rows = []
    for name in SETTINGS:
        means = []
        for family in families:
            mine = [found.told[name, case].jct for case in found.cases if case[0] == family]
            means.append(f"{sum(mine) / len(mine):,.0f}")
        rows.append((name, *means))
    return parts.table(("", *families), rows)
