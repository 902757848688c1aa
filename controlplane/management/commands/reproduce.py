"""`manage.py reproduce slo`: judge the law and what it is compared with, and draw what came of it."""

import os
import sys
from argparse import ArgumentParser
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from controlplane.benchmarks.harness.figure import BenchmarkError
from controlplane.benchmarks.slo import curves, report, traces

SEED = 5  # the first that no constant was chosen on


class Command(BaseCommand):
    """Write the long curves of a benchmark as one HTML page."""

    help = "Judge services under the law and under other rules, and write the curves as one HTML page."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("name", choices=["slo"])
        parser.add_argument("--out", type=Path, required=True, help="the file to write")
        parser.add_argument(
            "--traces", default=",".join(traces.NAMES), help="comma-separated (all): " + ", ".join(traces.NAMES)
        )
        parser.add_argument("--seed", type=int, default=SEED, help=f"of what is drawn ({SEED})")

    def handle(self, *args: Any, **options: Any) -> None:
        """Judge and draw; the file is written once all is there."""
        names = [name.strip() for name in options["traces"].split(",")]
        if unknown := [name for name in names if name not in traces.MAKERS]:
            raise CommandError(f"--traces: {unknown[0]!r} is none of {', '.join(traces.NAMES)}.")
        if options["seed"] < 0:
            raise CommandError("--seed: use a whole number from 0 on.")
        out: Path = options["out"]
        if out.is_dir():
            raise CommandError(f"--out: {out} is a folder. Name a file, such as {out / 'slo.html'}.")
        if not out.absolute().parent.is_dir():
            raise CommandError(f"--out: there is no folder {out.parent}. Make it first.")
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
        part = out.with_name(out.name + ".part")
        try:
            part.write_text(report.page(cells, options["seed"]))
            part.replace(out)
        except OSError as error:
            raise CommandError(f"--out: {out} cannot be written: {error.strerror}.") from error
        self.stdout.write(f"Wrote {out}.")
