"""`manage.py loops`: the loops in one process without Celery, for a real cluster or a shared simulated one."""

import signal
import threading
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from controlplane.loops import lease, wiring
from controlplane.loops.threads import of_settings
from controlplane.runtime import worker

STOP_SECONDS = 8.0  # for the rounds in progress


class Command(BaseCommand):
    """Run every loop by its period until SIGTERM."""

    help = "Run the loops by their periods, without Celery. Several such processes share the work by leases."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("--once", action="store_true", help="run each loop once and end")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run."""
        if options["once"]:
            wired = wiring.get()
            for run_once in of_settings().values():
                run_once(wired)
            lease.release_all(wired)
            return
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        worker.start()
        stop.wait()
        worker.stop()
        worker.join(STOP_SECONDS)
