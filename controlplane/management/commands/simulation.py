"""`manage.py simulation NUMBER`: the process behind a what-if that a page or REST has asked for."""

import os
import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.queries.scheduling import lab
from controlplane.queries.scheduling import simulations as queries
from controlplane.services.scheduling import simulations

TELL_SECONDS = 0.5  # between two notes of progress


class Command(BaseCommand):
    """Answer one what-if and keep the answer in its row."""

    help = "Answer a what-if that was asked on the page or by REST. Started by the product, not by people."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which one."""
        parser.add_argument("number", type=int)
        parser.add_argument("--niceness", type=int, default=0, help="how far this process steps back for others")

    def handle(self, *args: Any, **options: Any) -> None:
        """Answer it, within its time."""
        os.nice(options["niceness"])
        number = options["number"]
        row = queries.row(number)
        if row is None:
            raise CommandError(f"There is no what-if {number}.")
        try:
            simulations.finish(number=number, result=lab.answer(lab.read_question(row["asked"]), _Teller(number)))
        except simulations.StoppedError:
            self.stdout.write(f"What-if {number} was deleted.")
        except lab.CannotBeAnsweredError as wrong:
            simulations.fail(number=number, error=str(wrong))
        except TimeoutError:
            minutes = simulations.LIMIT_SECONDS / 60
            error = f"It took longer than {minutes:g} minutes. Ask for fewer rounds, hours or jobs."
            simulations.fail(number=number, error=error)
        except Exception as error:
            simulations.fail(number=number, error=f"It failed: {type(error).__name__}. The server's log says more.")
            raise


class _Teller:
    """Notes progress now and then, and looks at the time."""

    def __init__(self, number: int) -> None:
        self._number, self._began, self._told = number, time.monotonic(), 0.0

    def __call__(self, part: float, doing: str) -> None:
        now = time.monotonic()
        if now - self._began > simulations.LIMIT_SECONDS:
            raise TimeoutError
        if now - self._told >= TELL_SECONDS:
            self._told = now
            simulations.tell(number=self._number, part=part, doing=doing)
