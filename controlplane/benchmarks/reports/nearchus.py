"""E2, E5 and E6 as one HTML page that needs nothing else, and the runs in the cluster and of E2 as CSV.

The figures of `nearchus` are E5 (one training) and E6 (a cluster); what is played beside them is drawn by `beside.py`.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields

from django.utils.safestring import SafeString

from controlplane.benchmarks.baselines import manifests
from controlplane.benchmarks.baselines import measure as further
from controlplane.benchmarks.baselines.settings import BASELINES, PLAYED
from controlplane.benchmarks.harness import parts
from controlplane.benchmarks.harness.figure import Options, Progress, Result
from controlplane.benchmarks.mix.dragon import NOTHING_ELSE, lost_to
from controlplane.benchmarks.mix.runs import Key, Told
from controlplane.benchmarks.reports import beside
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

SINGLES, CLUSTER, BESIDE = 0.05, 0.4, 0.4  # of the time; the rest is that of E2
COLUMNS = ("setting", "family", "workload", *(one.name for one in fields(Summary)), "makespan", "late")


@dataclass(frozen=True, slots=True)
class Found:
    """Single trainings; the cluster: what its simulator was held against, the figures' runs, and the workloads.

    beside: further baselines, and parts of ours left out, on the same workloads; manifests: the runs of E2.
    """

    singles: Result
    checks: tuple[str, ...]
    told: Summaries
    cases: tuple[Case, ...]
    beside: Summaries
    manifests: Mapping[Key, Told]

    @property
    def all(self) -> Summaries:
        """Each setting on each workload."""
        return {**self.told, **self.beside}


def measured(options: Options, progress: Progress) -> Found:
    """Simulate all. Raises BenchmarkError."""

    def part(done: float, size: float) -> Progress:
        return lambda ratio, what: progress(done + size * ratio, what)

    singles = singlejobs.figures(options, part(0.0, SINGLES))
    checks, told, cases = nearchuscluster.played(options, part(SINGLES, CLUSTER))
    rest = SINGLES + CLUSTER + BESIDE
    others = further.played(options, cases, part(SINGLES + CLUSTER, BESIDE))
    return Found(singles, tuple(checks), told, cases, others, manifests.played(options, part(rest, 1.0 - rest)))


def page(found: Found) -> str:
    """The whole report."""
    cluster = nearchuscluster.judged(found.told, found.cases)
    return parts.whole(
        "Trainings: what re-allocation gives one of them (E5), a cluster (E6), and DRAGON's twelve (E2)",
        (nearchuscluster.__doc__ or "").split("\n\n")[1],
        parts.figures(Result((*found.singles.figures, *cluster.figures))),
        parts.section("Losses: where another policy is level with ours or better", parts.listed(losses(found))),
        *(_setting(found, ours) for ours in OURS),
        beside.baselines(found.all, found.cases),
        beside.left_out(found.all, found.cases),
        *beside.of_manifests(found.manifests),
        parts.section("Mean completion time by workloads, s", _families(found)),
        parts.section("One training at the same GPUs", parts.listed(found.singles.notes)),
        parts.section("The simulator, and all in words", parts.listed((*found.checks, *cluster.notes))),
    )


def table(found: Found) -> str:
    """Each setting on each workload as a line of CSV: means of its seeds, in s. Of E2 each seed is one; late: %."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for (name, (family, number)), summary in found.all.items():
        writer.writerow(_row(name, family, number, asdict(summary)))
    for key, told in found.manifests.items():
        where = f"E2 {key.which} {'alone' if key.crowded == NOTHING_ELSE else 'in the mix'}"
        numbers = {name: value for name, value in asdict(told).items() if name in COLUMNS}
        writer.writerow(_row(key.policy, where, key.seed, numbers))
    return out.getvalue()


def _row(name: str, family: str, number: int, numbers: Mapping[str, float]) -> dict[str, object]:
    rounded = {key: round(value, 4) for key, value in numbers.items()}
    return {"setting": name, "family": family, "workload": number, **rounded}


def losses(found: Found) -> list[str]:
    """Each workload on which another policy's mean completion time is as short as one of ours, or shorter."""
    lost = []
    for ours in OURS:
        for case in found.cases:
            mine = found.told[ours, case].jct
            better = [name for name in (*THEIRS, *BASELINES) if found.all[name, case].jct <= mine]
            if better:
                lost.append(f"{ours}: {case[0]} {case[1]}: {', '.join(better)}")
    for cell in manifests.CELLS:
        for policy in cell.policies:
            lost += lost_to(found.manifests, cell, policy)
    return lost or ["None."]


def _setting(found: Found, ours: str) -> SafeString:
    return parts.section(
        f"{ours}: by how much the mean completion time is lower, %, with its interval over workloads",
        parts.bars(list(_bars(found, ours)), "%"),
    )


def _bars(found: Found, ours: str) -> Iterator[parts.Bar]:
    for theirs in (*THEIRS, *BASELINES):
        values = 100 * gains(found.all, found.cases, ours, theirs)
        low, high = interval(values)
        yield theirs, low, float(values.mean()), high


def _families(found: Found) -> SafeString:
    families = list(dict.fromkeys(family for family, _ in found.cases))
    rows = []
    for name in (*SETTINGS, *PLAYED):
        means = []
        for family in families:
            mine = [found.all[name, case].jct for case in found.cases if case[0] == family]
            means.append(f"{sum(mine) / len(mine):,.0f}")
        rows.append((name, *means))
    return parts.table(("", *families), rows)
