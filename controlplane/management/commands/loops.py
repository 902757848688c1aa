"""`manage.py loops`: the loops in one process without Celery, for a real cluster or a shared simulated one."""

import signal
import threading
import time
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

import structlog
from django.core.management.base import BaseCommand
from django.db import close_old_connections

from controlplane import tasks

log = structlog.get_logger(__name__)


class Command(BaseCommand):
    """Run every loop by its period until SIGTERM."""

    help = "Run the loops by their periods, without Celery. Several such processes share the work by leases."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("--once", action="store_true", help="run each loop once and end")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run."""
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        run_by_period({name: getattr(tasks, name) for name in tasks.PERIODS}, stop, once=options["once"])


def run_by_period(loops: dict[str, Callable[[], None]], stop: threading.Event, *, once: bool = False) -> None:
    """Call each loop by its period; one that fails is logged and called again a period later."""
    due = dict.fromkeys(loops, 0.0)
    while not stop.is_set():
        for name, run in loops.items():
            if time.monotonic() >= due[name] and not stop.is_set():
                due[name] = time.monotonic() + tasks.PERIODS[name]
                _run(name, run)
        if once:
            return
        stop.wait(max(0.0, min(due.values()) - time.monotonic()))


def _run(name: str, run: Callable[[], None]) -> None:
    try:
        run()
    except Exception:
        log.exception("loop failed", loop=name)
    finally:
        close_old_connections()
