"""`manage.py figures`: every measured figure with the commit and date it belongs to."""

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from controlplane.benchmarks import record
from controlplane.benchmarks.figure import BenchmarkError, Options
from controlplane.benchmarks.printing import object_of, table
from controlplane.benchmarks.registry import BENCHMARKS
from controlplane.management.commands.benchmark import measure


class Command(BaseCommand):
    """Print what is kept; measure again what belongs to other code."""

    help = "Print all measured figures; measure those again whose code has changed since."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("--json", action="store_true", help="one object a line for each figure")
        parser.add_argument("--kept", action="store_true", help="measure nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        """Measure what is stale, print all."""
        found = [self._current(name, options) for name in BENCHMARKS]
        records = [one for one in found if one is not None]
        if options["json"]:
            for one in records:
                for figure in one.figures:
                    self.stdout.write(json.dumps({**object_of(figure), "commit": one.commit, "date": one.date}))
        else:
            table(records)
        sys.exit(0 if options["kept"] or len(records) == len(found) else 2)

    def _current(self, name: str, options: dict[str, Any]) -> record.Record | None:
        """The kept figures, measured again if they are stale; None if there are none to be had."""
        kept = record.kept(name)
        if options["kept"] or (kept is not None and not kept.is_stale):
            return kept
        try:
            return measure(name, Options(Path(settings.WEFT_DATA)), quiet=options["json"])
        except BenchmarkError as error:
            self.stderr.write(f"{name}: {error}")
            return kept
