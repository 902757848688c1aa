"""`manage.py benchmark NAME`: measure one thing."""

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from controlplane.benchmarks.harness.figure import BenchmarkError, Options
from controlplane.benchmarks.harness.measure import measure
from controlplane.benchmarks.harness.printing import Shown, object_of, table
from controlplane.benchmarks.harness.registry import BENCHMARKS


class Command(BaseCommand):
    """Run a benchmark, print its figures, store them."""

    help = f"Run one benchmark: {', '.join(BENCHMARKS)}."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("name", choices=sorted(BENCHMARKS))
        parser.add_argument("--json", action="store_true", help="one object a line for each figure")
        parser.add_argument("--jobs", type=int, help="fewer jobs; the figures are not stored then")
        parser.add_argument("--repeat", type=int, help="repetitions, of benchmarks that repeat")
        parser.add_argument("--seeds", default="0", help="comma-separated (0); for openb also how many, from 42 on")
        parser.add_argument("--pods", type=Path, help="openb: a list of pods of one's own; the figures are not stored")
        parser.add_argument("--nodes", type=Path, help="openb: a list of machines of one's own")
        parser.add_argument(
            "--write-table", action="store_true", help="reclaim: write controlplane/cluster/reclaims.json anew"
        )
        size = "round, round-large, cells: the size; the figures are not stored then"
        parser.add_argument("--gpus", type=int, help=size)

    def handle(self, *args: Any, **options: Any) -> None:
        """Measure."""
        seeds = tuple(int(seed) for seed in options["seeds"].split(","))
        chosen = Options(
            Path(settings.WEFT_DATA), options["jobs"], seeds, options["repeat"], options["pods"], options["nodes"],
            options["write_table"], options["gpus"],
        )  # fmt: skip
        try:
            done = measure(options["name"], chosen, quiet=options["json"])
        except BenchmarkError as error:
            self.stderr.write(str(error))
            sys.exit(2)
        if options["json"]:
            for figure in done.record.figures:
                self.stdout.write(json.dumps(object_of(figure)))
        else:
            table({options["name"]: Shown(done.record)}, sys.stdout)
        if done.not_stored:
            self.stderr.write(f"Not stored: {done.not_stored}.")
