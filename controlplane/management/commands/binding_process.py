"""`manage.py binding_process NAME`: the processes that `benchmark kubernetes-bind` starts beside Weft's own."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from controlplane.benchmarks.scheduling import bindload

PARTS = {"prepare": bindload.prepare, "worker": bindload.work, "submit": bindload.submit}


class Command(BaseCommand):
    """Do one part of the benchmark."""

    help = "For `manage.py benchmark kubernetes-bind`: a process that it starts."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("name", choices=sorted(PARTS))
        parser.add_argument("--nodes", type=int, default=0)
        parser.add_argument("--count", type=int, default=0, help="gangs that wait")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it; what it found goes to standard output as JSON."""
        self.stdout.write(json.dumps(PARTS[options["name"]](options)))
