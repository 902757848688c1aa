"""`manage.py demo_week`: make the demo's history again, the week that `make up` shows at its first start."""

import os
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand

from controlplane.loops import week
from controlplane.management import home
from controlplane.runtime import tuning
from controlplane.services.workloads import presets
from controlplane.simulator.worlds import demo, pastfile
from controlplane.simulator.worlds.hours import HOUR
from controlplane.simulator.worlds.presets import START

REPORT_SECONDS = 10.0  # of real time between two lines of progress


class Command(BaseCommand):
    """Simulate the week before the demo's start, and write what came of it."""

    help = "Simulate the week before the demo's start in an empty WEFT_HOME, and write it to the file that `up` loads."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("--out", type=Path, default=pastfile.DEMO, help="the file to write")

    def handle(self, *args: Any, **options: Any) -> None:
        """Prepare, run, write."""
        try:
            claim = home.claim()
        except home.HomeError as error:
            self.stderr.write(str(error))
            sys.exit(2)
        call_command("migrate", verbosity=0, interactive=False, skip_checks=True)
        if presets.loaded() is not None:
            self.stderr.write(f"{settings.DATA_DIR} holds a world already. Set WEFT_HOME to an empty folder.")
            sys.exit(2)
        tuning.collect_less_often()
        self._reported = time.monotonic()
        packed = pastfile.write(week.simulate(demo.OPENING, self._progress))
        part = options["out"].with_suffix(".part")
        part.write_bytes(packed)
        os.replace(part, options["out"])
        self.stdout.write(f"{options['out']}: {len(packed):,} bytes, {time.process_time():.0f} s of processor time")
        claim.file.close()

    def _progress(self, at: float) -> None:
        if time.monotonic() - self._reported < REPORT_SECONDS:
            return
        self._reported = time.monotonic()
        self.stdout.write(f"{(at - START) / (demo.OPENING - START):6.1%}  hour {(at - START) / HOUR:.0f}")
        self.stdout.flush()
