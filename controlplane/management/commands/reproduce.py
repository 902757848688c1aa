"""`manage.py reproduce NAME`: a benchmark's curves, or the claims of a paper, measured and drawn as one HTML page."""

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

BENCHMARKS, CLAIMS = ("slo", "training", "dragon", "nearchus"), ("seeds", "dynamoml", "poster")
SEED = 5  # the first that no constant was chosen on


class Command(BaseCommand):
    """Write the long curves of a benchmark, or the claims of the seeds' papers, as one HTML page."""

    help = (
        "Measure a benchmark's long curves, or what papers claim (seeds, dynamoml, poster), and write them as one HTML "
        "page (but for slo: and as CSV beside it)."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("name", choices=[*BENCHMARKS, *CLAIMS])
        parser.add_argument("--out", type=Path, required=True, help="the file to write")
        parser.add_argument(
            "--traces", default=",".join(traces.NAMES), help="slo: comma-separated (all): " + ", ".join(traces.NAMES)
        )
        parser.add_argument("--seed", type=int, default=SEED, help=f"slo: of what is drawn ({SEED})")
        parser.add_argument(
            "--repeat",
            type=int,
            help="training, dragon, seeds, dynamoml, poster: with fewer seeds than ten; nearchus: on the first so many "
            "workloads, and with no more seeds of E2",
        )
        parser.add_argument(
            "--short",
            action="store_true",
            help="seeds, dynamoml, poster: one seed of short trainings, which needs no data; no figure answers a claim",
        )
        parser.add_argument(
            "--measure",
            action="store_true",
            help="seeds, dynamoml, poster: measure anew what is else shown as it is stored in docs/figures.json",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Measure and draw; the file is written once all is there."""
        out: Path = options["out"]
        drawn = {"slo": self._slo, "training": self._training, "dragon": self._dragon, "nearchus": self._nearchus}
        pages = drawn.get(options["name"], self._claims)
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
        if options["name"] not in CLAIMS and (options["short"] or options["measure"]):
            raise CommandError(f"--short and --measure are for {', '.join(CLAIMS)} only.")
        if options["short"] and (options["measure"] or options["repeat"]):
            raise CommandError("--short: leave out --measure and --repeat.")

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

    def _claims(self, options: Mapping[str, Any]) -> dict[Path, str]:
        output.require_scipy()
        from controlplane.benchmarks.reports import seeds as drawn
        from controlplane.benchmarks.seeds import experiments, forms, measure, rows, taken
        from controlplane.benchmarks.seeds.kept import NAME

        out: Path = options["out"]
        form = forms.SHORT if options["short"] else forms.full(options["repeat"])
        stored = taken.Benchmarks(is_measured=options["measure"], is_short=options["short"])
        view = experiments.VIEWS[options["name"]]
        kept_at = None if options["short"] else out.with_name(NAME)
        found = self._measured(
            lambda asked, progress: measure.found(view, form, stored, asked.data, kept_at, progress), options
        )
        return {out: drawn.page(found), out.with_suffix(".csv"): rows.table(found.rows)}

    def _measured(self, measure: Callable[[Options, Progress], Found], options: Mapping[str, Any]) -> Found:
        asked = Options(Path(settings.WEFT_DATA), repeat=options["repeat"])
        try:
            return measure(asked, lambda part, what: self.stderr.write(f"{100 * part:.0f} %: {what}"))
        except BenchmarkError as error:
            self.stderr.write(str(error))
            sys.exit(2)


def _names(options: Mapping[str, Any]) -> list[str]:
    return [name.strip() for name in options["traces"].split(",")]
