"""`manage.py simulate --experiment`: read the file, play it, tell what came of it."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from controlplane.management import output
from controlplane.management.documents import read_document

if TYPE_CHECKING:
    from controlplane.benchmarks.fromfile.play import Line

NAMES = ("policy", "mean s", "median s", "p99 s", "waited s", "restarts", "GPU h", "makespan s", "lower by")
HEAD = "{:<18}" + "{:>11}" * (len(NAMES) - 1)


def run(
    command: BaseCommand, path: Path, out: Path | None, tell: Callable[[float, str], None], *, is_json: bool
) -> None:
    """Play the file's experiment. Raises CommandError for what is wrong with the file, the data or this machine."""
    output.require_scipy()
    from controlplane.benchmarks.fromfile import document, play
    from controlplane.benchmarks.harness.figure import BenchmarkError

    if out is not None:
        output.require_place(out, "trainings.csv")
    try:
        asked = document.parse(read_document(path))
        runs = play.played(asked, Path(settings.WEFT_DATA), tell)
    except document.ExperimentError as error:
        raise CommandError(f"{path}: {error}") from None
    except BenchmarkError as error:
        raise CommandError(f"{error} Or write trainings of model sample, which need no data.") from None
    if out is not None:
        output.write(out, play.table(runs))
    if not is_json:
        command.stdout.write(HEAD.format(*NAMES))
    for line in play.lines(runs):
        command.stdout.write(json.dumps(asdict(line)) if is_json else _row(line))
    names = ("placements", "interpolated", "between_placements")
    counts = {name: sum(getattr(run, name) for run in runs) for name in names}
    placements, interpolated, between = counts.values()
    told = f"{interpolated} of {placements} step times that ran are interpolated: {between} between measured placements"
    told += f", {interpolated - between} between batches of a measured one."
    command.stdout.write(json.dumps(counts) if is_json else told)


def _row(line: "Line") -> str:
    """Times of completion, waits, and by how much the mean is lower than that of the first policy."""
    values = (
        line.mean, line.median, line.p99, line.waited, line.restarts, line.gpu_hours, line.makespan, line.reduction
    )  # fmt: skip
    shown = [f"{value:,.2f}" if at == 4 else f"{value:,.0f}" for at, value in enumerate(values[:-1])]
    return HEAD.format(line.policy, *shown, f"{values[-1]:.1f} %")
