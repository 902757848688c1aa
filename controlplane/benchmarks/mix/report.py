"""The figure `training` as one HTML page that needs nothing else, and all its runs as CSV."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields

import numpy as np
from django.utils.html import format_html
from django.utils.safestring import SafeString

from controlplane.benchmarks.harness import parts
from controlplane.benchmarks.mix import measure, runs
from controlplane.benchmarks.mix.draws import SETS
from controlplane.benchmarks.mix.measure import All, interval
from controlplane.benchmarks.mix.policies import ALONE, PARTS, POOLED, POSTER
from controlplane.benchmarks.mix.runs import Key, Told


def page(found: All) -> str:
    """The whole report."""
    result = measure.judged(found)
    lost = list(measure.losses(found))
    return parts.whole(
        "Notebooks, a service and trainings on 16 GPUs",
        (measure.__doc__ or "").split("\n\n")[1],
        parts.figures(result),
        parts.section("Losses: where another policy is level with ours or better", parts.listed(lost or ["None."])),
        *(_set(found, which) for which in SETS),
        parts.section("Over crowding", *(_crowding(found, which) for which in SETS)),
        parts.section("What ours consists of: makespan over native Kubernetes'", _parts(found)),
        parts.section("All in words", parts.listed(result.notes)),
    )


def table(found: All) -> str:
    """Each run as a line of CSV."""
    out = io.StringIO()
    names = [one.name for one in (*fields(Key), *fields(Told))]
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    for key, told in found.items():
        numbers = {name: round(float(value), 4) for name, value in asdict(told).items()}
        writer.writerow({**asdict(key), **numbers})
    return out.getvalue()


def _set(found: All, which: str) -> SafeString:
    return parts.section(
        f"Set {which}: makespan over ours; the line is the 95 % interval",
        parts.bars(list(_ratios(found, which, (*ALONE, *runs.VARIANTS, *POOLED, *POSTER))), "x"),
        format_html("<h3>{}</h3>", "Mean completion time that ours saves, %"),
        parts.bars(list(_gains(found, which, (*ALONE, *runs.VARIANTS, *POOLED, *POSTER))), "%"),
    )


def _ratios(found: All, which: str, names: Sequence[str]) -> Iterator[parts.Bar]:
    for name in names:
        values = np.log(measure.ratio(found, which, name))
        if len(values):
            low, high = interval(values)
            yield name, float(np.exp(low)), float(np.exp(values.mean())), float(np.exp(high))


def _gains(found: All, which: str, names: Sequence[str]) -> Iterator[parts.Bar]:
    for name in names:
        values = 100 * measure.gain(found, which, name)
        if len(values):
            low, high = interval(values)
            yield name, low, float(values.mean()), high


def _crowding(found: All, which: str) -> SafeString:
    rows = []
    for crowded in sorted((*runs.CROWDING, runs.CROWDED)):
        ratios = [measure.ratio(found, which, name, crowded=crowded) for name in runs.CURVE[:-1]]
        told = [f"{np.exp(np.log(one).mean()):.2f} x" if len(one) else "-" for one in ratios]
        rows.append((f"{which}, {crowded} of 16", *told))
    return parts.table(("makespan over ours", *runs.CURVE[:-1]), rows)


def _parts(found: All) -> SafeString:
    rows = []
    for name in (*PARTS, "ours"):
        of_native = [1 / measure.ratio(found, which, "native", ours=name) for which in SETS]
        late = [np.mean([told.late for told in measure.of(found, which, name)]) for which in SETS]
        shown = [
            f"{np.exp(np.log(one).mean()):.2f}, late {two:.2f} %" for one, two in zip(of_native, late, strict=True)
        ]
        rows.append(("+standby lent: ours" if name == "ours" else name, *shown))
    return parts.table(("with", *SETS), rows)
