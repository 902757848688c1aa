"""What stands beside the figures of `nearchus`: further baselines, parts of ours left out, and E2; sections of a page.

Each interval is a 95 % bootstrap, in the cluster over the workloads, in E2 over the paired seeds.
"""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from django.utils.safestring import SafeString

from controlplane.benchmarks.baselines import manifests
from controlplane.benchmarks.baselines.measure import Floats, ratios
from controlplane.benchmarks.baselines.settings import BASELINES, LIKE, MEANT, PARTS
from controlplane.benchmarks.harness import parts
from controlplane.benchmarks.mix import dragon
from controlplane.benchmarks.mix.runs import Key, Told
from controlplane.benchmarks.reports.dragon import drawn
from controlplane.benchmarks.training.nearchuscluster import (
    FREE,
    THEIRS,
    TIRESIAS_IDEAL,
    Case,
    Summaries,
    gains,
    interval,
    waits,
)

Cases = tuple[Case, ...]


def baselines(told: Summaries, cases: Cases) -> SafeString:
    """E6: each of them by its name, against ours with history and a free batch."""
    rows = []
    for name in (*THEIRS, *BASELINES, *LIKE):
        runs = LIKE.get(name, name)
        waited = [waits(told, cases, FREE, runs, is_idle=is_idle) for is_idle in (False, True)]
        rows.append((
            name if runs == name else f"{name} (here it decides as {runs})",
            _shown(100 * gains(told, cases, FREE, runs)),
            *(_shown(100 * values) for values in waited),
            f"{np.mean([told[runs, case].restarts for case in cases]):.2f}",
            str(sum(told[runs, case].infeasible for case in cases)),
        ))  # fmt: skip
    head = (
        "",
        "completion time",
        "wait until the first start",
        "time without GPUs",
        "its restarts",
        "infeasible plans",
    )
    return parts.section(
        "E6, each baseline: by how much ours, with history and a free batch, lowers its means, %, with the interval",
        parts.table(head, rows),
        _meant((*BASELINES, *LIKE)),
    )


def left_out(told: Summaries, cases: Cases) -> SafeString:
    """E6: ours with a part left out, over all of it."""
    rows = []
    for name in (FREE, *PARTS):
        restarts = f"{np.mean([told[name, case].restarts for case in cases]):.2f}"
        over = (ratios(told, cases, name, to) for to in (FREE, TIRESIAS_IDEAL))
        rows.append((name, *(_shown(values, 3) for values in over), restarts))
    return parts.section(
        "E6, ours with a part left out: mean completion time over that of all of it; the line is the 95 % interval",
        parts.bars(list(_bars(told, cases)), "x"),
        parts.table(("", "over ours", "over Tiresias ideal", "restarts a job"), rows),
        _meant(PARTS),
    )


def of_manifests(found: Mapping[Key, Told]) -> Iterator[SafeString]:
    """E2: each cell drawn, then all in words."""
    for cell in manifests.CELLS:
        yield drawn(found, cell)
    yield parts.section(
        "E2 in words",
        parts.listed([
            f"{cell.title}: {policy}: {said}"
            for cell in manifests.CELLS
            for policy in cell.policies
            if (said := dragon.compared(found, cell, policy))
        ]),
    )  # fmt: skip


def _meant(names: Iterable[str]) -> SafeString:
    return parts.listed([f"{name}: {MEANT[name]}" for name in names if name in MEANT])


def _bars(told: Summaries, cases: Cases) -> Iterator[parts.Bar]:
    for name in PARTS:
        values = ratios(told, cases, name, FREE)
        low, high = interval(values)
        yield name, low, float(values.mean()), high


def _shown(values: Floats, digits: int = 0) -> str:
    """The mean and its interval."""
    if not len(values):
        return "-"
    low, high = interval(values)
    return f"{values.mean():.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
