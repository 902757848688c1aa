"""`manage.py figures`: as `make figures`, which prints without the seconds that loading Django takes."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from controlplane.benchmarks.harness import figures


class Command(BaseCommand):
    """Print what is stored; measure what is asked for."""

    help = "Print the stored figures, and which are older than their code; or measure them."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        figures.add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it."""
        sys.exit(figures.run(options["names"], is_all=options["measure"], as_json=options["json"], out=sys.stdout))
