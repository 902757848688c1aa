"""Enhanced Dragon's experiment as one HTML page that needs nothing else; its runs as CSV are as those of the mix."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from django.utils.html import format_html
from django.utils.safestring import SafeString

from controlplane.benchmarks.harness import parts
from controlplane.benchmarks.mix import dragon, measure
from controlplane.benchmarks.mix.dragon import CELLS, Cell
from controlplane.benchmarks.mix.measure import All, Floats, interval
from controlplane.benchmarks.mix.policies import PARTS

NOT_AS_THERE = (
    "The size of the authors' cluster and the length of their trainings are not known: here 4 nodes with 4 T4 each, "
    "and 3,000 s with 2 workers on one node.",
    "A parameter server is no pod of its own here: it is beside the lowest worker, and costs no CPU. Nodes have more "
    "CPU than all of them would take.",
    "At random there are 24 trainings; the authors' sizes and the times between them are not known.",
    "No node fails.",
)


def page(found: All) -> str:
    """The whole report."""
    result = dragon.judged(found)
    return parts.whole(
        "Enhanced Dragon's trainings on 16 GPUs",
        (dragon.__doc__ or "").split("\n\n")[1],
        parts.figures(result),
        parts.section("Losses: what is missed, and where another policy is as good as ours", _lost(found)),
        *(drawn(found, cell) for cell in CELLS),
        parts.section("What ours consists of: makespan over native Kubernetes'", _parts(found)),
        parts.section("What is not as it was there", parts.listed(NOT_AS_THERE)),
        parts.section("All in words", parts.listed(result.notes)),
    )


def _lost(found: All) -> SafeString:
    return parts.listed(dragon.losses(found))


def drawn(found: All, cell: Cell) -> SafeString:
    """Its bars: makespan, completion time, and at random how much of the GPUs is used."""
    shown = [
        parts.bars(list(_bars(cell, np.exp, lambda name: np.log(cell.ratios(found, name)))), "x"),
        format_html("<h3>{}</h3>", "Mean completion time that ours saves, %"),
        parts.bars(list(_bars(cell, np.array, lambda name: 100 * cell.gains(found, name))), "%"),
    ]
    if cell.load:
        used = _bars(cell, np.array, lambda name: dragon.points(found, name, cell.load, cell.crowded))
        shown += [
            format_html("<h3>{}</h3>", "Of all GPUs' time, percent that ours computes in more"),
            parts.bars(list(used), "points"),
        ]
    return parts.section(f"{cell.title}: makespan over ours; the line is the 95 % interval", *shown)


def _bars(cell: Cell, shown: Callable[[Any], Any], values: Callable[[str], Floats]) -> Iterator[parts.Bar]:
    for name in cell.policies:
        some = values(name)
        if len(some):
            low, high = interval(some)
            yield name, float(shown(low)), float(shown(some.mean())), float(shown(high))


def _parts(found: All) -> SafeString:
    """One after the other; alone there is nothing to share and no service to scale."""
    rows = []
    for name in (*PARTS, "ours"):
        told = []
        for cell in CELLS:
            if not cell.load:
                of_native = 1 / cell.ratios(found, "native", name)
                low, high = interval(np.log(of_native)) if len(of_native) else (0.0, 0.0)
                told.append(
                    f"{np.exp(np.log(of_native).mean()):.2f} [{np.exp(low):.2f}, {np.exp(high):.2f}]"
                    if len(of_native)
                    else "-"
                )
        late = [np.mean([one.late for one in measure.of(found, which, name)]) for which in dragon.SETS]
        rows.append((name, *told, *(f"{one:.2f} %" for one in late)))
    head = [cell.title for cell in CELLS if not cell.load]
    return parts.table(("with", *head, *(f"late, {which} in the mix" for which in dragon.SETS)), rows)
