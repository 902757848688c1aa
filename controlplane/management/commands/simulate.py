"""`manage.py simulate`: a world as fast as it goes, without a page, and what came of it."""

import json
import resource
import sys
import time
from argparse import ArgumentParser
from collections import Counter
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from controlplane.loops import wiring
from controlplane.loops.embedded import Driver
from controlplane.management import experiment, home
from controlplane.models import Event, Workload
from controlplane.queries.scheduling.digest import of_history
from controlplane.runtime import tuning
from controlplane.services.workloads import presets
from controlplane.simulator.worlds import catalogue
from controlplane.simulator.worlds.presets import Preset, PresetError
from scheduler.model.workload import ENDED

HOUR, DAY = 3600.0, 86_400.0
REPORT_SECONDS = 1.0  # of real time between two lines of progress
LONGEST_DAYS = 400.0  # of the cluster's clock: a world that has not come to rest by then never will
STEP_SECONDS = 6 * HOUR
CROWD = 500  # arrivals at once


class Command(BaseCommand):
    """Run a world for some time, or until all its work has ended."""

    help = "Run a preset as fast as it goes, into the embedded database, and print what happened."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("--trace", default="", help="philly, openb, or a CSV file; the built-in demo without it")
        parser.add_argument("--load", type=float, default=catalogue.DEFAULT_LOAD)
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--hours", type=float, default=2.0, help="of the cluster's clock (2)")
        parser.add_argument("--workloads", type=int, help="an hour of the demo, then so many in all")
        parser.add_argument("--replay", type=int, metavar="JOBS", help="the first JOBS of Philly, until all have ended")
        parser.add_argument(
            "--experiment", type=Path, metavar="FILE", help="trainings and policies of this file (docs/simulate.md)"
        )
        parser.add_argument("--out", type=Path, metavar="CSV", help="with --experiment: a row for each training")
        parser.add_argument("--json", action="store_true", help="progress and summary as one JSON object a line")

    def handle(self, *args: Any, **options: Any) -> None:
        """Prepare, run, tell."""
        began = time.monotonic()
        self._json, self._reported = options["json"], 0.0
        if options["experiment"] is not None:
            experiment.run(self, options["experiment"], options["out"], self._progress, is_json=self._json)
            return
        if options["out"] is not None:
            raise CommandError("--out: it is for --experiment only. Leave it out, or name a file of an experiment.")
        try:
            claim = home.claim()
            preset = _preset(options)
            call_command("migrate", verbosity=0, interactive=False, skip_checks=True)
            if presets.loaded() is not None:
                raise PresetError(f"{settings.DATA_DIR} holds a world already. Set WEFT_HOME to an empty folder.")
        except (home.HomeError, PresetError) as error:
            self.stderr.write(str(error))
            sys.exit(2)
        self._start = preset.start
        presets.load(preset=preset, password=home.password(), speed=preset.pace.speed)
        tuning.collect_less_often()
        driver = Driver(wiring.simulated(preset, in_memory=options["replay"] is not None), preset, contain=False)
        self._run(driver, options)
        self._summary(driver, time.monotonic() - began)
        claim.file.close()

    def _run(self, driver: Driver, options: dict[str, Any]) -> None:
        if options["replay"] is not None:
            self._run_out(driver, options["replay"])
        elif options["workloads"] is not None:
            self._run_until(driver, options["workloads"])
        else:
            seconds = options["hours"] * HOUR
            driver.run_to(
                self._start + seconds, lambda at: self._progress((at - self._start) / seconds, self._clock(at))
            )

    def _run_out(self, driver: Driver, jobs: int) -> None:
        """Until all jobs have ended."""
        ended = 0

        def tell(at: float) -> None:
            self._progress(ended / jobs, f"{ended} of {jobs} jobs ended, {self._clock(at)}")

        while driver.now - self._start < LONGEST_DAYS * DAY:
            driver.run_to(driver.now + STEP_SECONDS, tell)
            ended = Workload.objects.filter(phase__in=ENDED).count()
            if driver.is_over and not Workload.objects.exclude(phase__in=ENDED).exists():
                break
        # What ended last is accounted for in the next period.
        driver.run_to(driver.now + HOUR)

    def _run_until(self, driver: Driver, wanted: int) -> None:
        """Let the world live for an hour, then have so many workloads in all submitted and stop the clock."""
        driver.run_to(self._start + HOUR, lambda at: self._progress((at - self._start) / HOUR / 2, self._clock(at)))
        while (count := Workload.objects.count()) < wanted and not driver.is_over:
            self._progress(0.5 + count / wanted / 2, f"{count} of {wanted} workloads")
            driver.crowd(CROWD)
        presets.set_pace(paused=True)

    def _progress(self, part: float, text: str) -> None:
        if time.monotonic() - self._reported < REPORT_SECONDS:
            return
        self._reported = time.monotonic()
        line = json.dumps({"part": round(part, 4), "text": text}) if self._json else f"{part:6.1%}  {text}"
        self.stdout.write(line)
        self.stdout.flush()

    def _clock(self, at: float) -> str:
        return f"day {(at - self._start) / DAY:.2f} of the cluster's clock"

    def _summary(self, driver: Driver, seconds: float) -> None:
        phases = Counter(Workload.objects.values_list("phase", flat=True))
        summary = {
            "world": driver.preset.identity,
            "wall_seconds": round(seconds, 2),
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "rounds": driver.rounds,
            "cluster_days": round((driver.now - self._start) / DAY, 3),
            "phases": dict(sorted(phases.items())),
            "ended": sum(count for phase, count in phases.items() if phase in ENDED),
            "events": dict(Counter(Event.objects.values_list("kind", flat=True)).most_common()),
            "digest": of_history(),
        }
        self.stdout.write(json.dumps(summary, indent=None if self._json else 1))


def _preset(options: dict[str, Any]) -> Preset:
    if options["replay"] is not None:
        return catalogue.replay(settings.WEFT_DATA, options["replay"])
    return catalogue.load(options["trace"], load=options["load"], seed=options["seed"], data=settings.WEFT_DATA)
