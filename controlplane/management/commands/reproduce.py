"""`manage.py reproduce slo|training|dragon|nearchus`: a benchmark's curves, measured and drawn as one HTML page."""

import os
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from controlplane.benchmarks.harness.figure import BenchmarkError, Options, Progress
from controlplane.benchmarks.slo import curves, report, traces
from controlplane.management import output

Found = TypeVar("Found")

SEED = 5  # the first that no constant was chosen on


class Command(BaseCommand):
    """Write the long curves of a benchmark as one HTML page."""

    help = "Measure a benchmark's long curves, and write them as one HTML page (but for slo: and as CSV beside it)."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("name", choices=["slo", "training", "dragon", "nearchus"])
        parser.add_argument("--out", type=Path, required=True, help="the file to write")
        parser.add_argument(
            "--traces", default=",".join(traces.NAMES), help="slo: comma-separated (all): " + ", ".join(traces.NAMES)
        )
        parser.add_argument("--seed", type=int, default=SEED, help=f"slo: of what is drawn ({SEED})")
        parser.add_argument(
            "--repeat",
            type=int,
            help="training, dragon: with fewer seeds than ten; nearchus: on the first so many workloads",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Measure and draw; the file is written once all is there."""
        out: Path = options["out"]
        drawn = {"slo": self._slo, "training": self._training, "dragon": self._dragon, "nearchus": self._nearchus}
        pages = drawn[options["name"]]
        self._check(options)
        output.require_place(out, f"{options['name']}.html")
        for path, text in pages(options).items():
            output.write(path, text)
            self.stdout.write(f"Wrote {path}.")

    def _check(self, options: Mapping[str, Any]) -> None:
        names = _names(options)
        if unknown := [name for name in names if name not in traces.MAKERS]:
            raise CommandError(f"--traces: {unknown[0]!r} is none of {', '.join(traces.NAMES)}.")
        if options["seed"] < 0:
            raise CommandError("--seed: use a whole number from 0 on.")
        if options["repeat"] is not None and options["repeat"] < 1:
            raise CommandError("--repeat: use a whole number from 1 on.")

    def _slo(self, options: Mapping[str, Any]) -> dict[Path, str]:
        names = _names(options)
        try:
            loaded = [traces.load(name, Path(settings.WEFT_DATA), options["seed"]) for name in names]
        except BenchmarkError as error:
            self.stderr.write(f"{error} Without it: --traces {','.join(traces.DRAWN)}.")
            sys.exit(2)
        with ProcessPoolExecutor(max_workers=min(len(names), os.cpu_count() or 1)) as pool:
            cells: list[curves.Cell] = []
            for found in pool.map(curves.cell, loaded):
                cells.append(found)
                self.stderr.write(f"{found.trace}: {len(cells)} of {len(names)}")
        return {options["out"]: report.page(cells, options["seed"])}

    def _training(self, options: Mapping[str, Any]) -> dict[Path, str]:
        output.require_scipy()
        from controlplane.benchmarks.mix import measure, report

        found = self._measured(measure.played, options)
        out: Path = options["out"]
        return {out: report.page(found), out.with_suffix(".csv"): report.table(found)}

    def _dragon(self, options: Mapping[str, Any]) -> dict[Path, str]:
        output.require_scipy()
        from controlplane.benchmarks.mix import dragon, report
        from controlplane.benchmarks.reports import dragon as drawn

        found = self._measured(dragon.played, options)
        out: Path = options["out"]
        return {out: drawn.page(found), out.with_suffix(".csv"): report.table(found)}

    def _nearchus(self, options: Mapping[str, Any]) -> dict[Path, str]:
        output.require_scipy()
        from controlplane.benchmarks.reports import nearchus

        found = self._measured(nearchus.measured, options)
        out: Path = options["out"]
        return {out: nearchus.page(found), out.with_suffix(".csv"): nearchus.table(found)}

    def _measured(self, measure: Callable[[Options, Progress], Found], options: Mapping[str, Any]) -> Found:
        asked = Options(Path(settings.WEFT_DATA), repeat=options["repeat"])
        try:
            return measure(asked, lambda part, what: self.stderr.write(f"{100 * part:.0f} %: {what}"))
        except BenchmarkError as error:
            self.stderr.write(str(error))
            sys.exit(2)


def _names(options: Mapping[str, Any]) -> list[str]:
    return [name.strip() for name in options["traces"].split(",")]
