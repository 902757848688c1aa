"""`manage.py benchmark NAME`: measure one thing."""

import json
import os
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from controlplane.benchmarks import record
from controlplane.benchmarks.figure import BenchmarkError, Options
from controlplane.benchmarks.printing import object_of, progress_on, table
from controlplane.benchmarks.registry import BENCHMARKS
from controlplane.testbed.processes import MissingError


class Command(BaseCommand):
    """Run a benchmark, print its figures, keep them."""

    help = f"Run one benchmark: {', '.join(BENCHMARKS)}."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("name", choices=sorted(BENCHMARKS))
        parser.add_argument("--json", action="store_true", help="one object a line for each figure")
        parser.add_argument("--jobs", type=int, help="fewer jobs; the figures are not kept then")
        parser.add_argument("--repeat", type=int, help="repetitions, of benchmarks that repeat")
        parser.add_argument("--seeds", default="0", help="comma-separated (0); for openb also how many, from 42 on")
        parser.add_argument("--pods", type=Path, help="openb: a list of pods of one's own; the figures are not kept")
        parser.add_argument("--nodes", type=Path, help="openb: a list of machines of one's own")

    def handle(self, *args: Any, **options: Any) -> None:
        """Measure."""
        seeds = tuple(int(seed) for seed in options["seeds"].split(","))
        chosen = Options(
            Path(settings.WEFT_DATA), options["jobs"], seeds, options["repeat"], options["pods"], options["nodes"]
        )
        try:
            kept = measure(options["name"], chosen, quiet=options["json"])
        except BenchmarkError as error:
            self.stderr.write(str(error))
            sys.exit(2)
        if options["json"]:
            for figure in kept.figures:
                self.stdout.write(json.dumps(object_of(figure)))
        else:
            table([kept])


def measure(name: str, options: Options, *, quiet: bool = False) -> record.Record:
    """Run a benchmark and keep its figures if the options are the benchmark's own. Raises BenchmarkError."""
    load = os.getloadavg()[0]
    with progress_on(name, quiet=quiet) as progress:
        try:
            result = BENCHMARKS[name](options, progress)
        except MissingError as missing:
            raise BenchmarkError(str(missing)) from missing
    return record.keep(name, result, options.seeds, load, is_whole=is_whole(options))


def is_whole(options: Options) -> bool:
    """Whether a run is the benchmark's own, so that its figures are kept."""
    return options.jobs is None and options.repeat is None and options.pods is None and options.nodes is None
