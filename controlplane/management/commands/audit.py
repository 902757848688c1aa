"""`manage.py audit`: check every invariant on the database as it stands."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from controlplane.loops import wiring
from controlplane.loops.audit import look
from controlplane.queries import audit

ROUNDS = 20


class Command(BaseCommand):
    """Look at one moment of the database; it may be in use."""

    help = "Check the invariants of reliability (S1..S18) on the database; exit 1 and name what is broken."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"newest rounds to decide again ({ROUNDS})")

    def handle(self, *args: Any, **options: Any) -> None:
        """Check."""
        broken, is_compared = look(wiring.get().cluster, last_rounds=options["rounds"])
        others = audit.rounds_of_other_versions(options["rounds"])
        found = [f"{one.name} {one.subject}: {one.message}" for one in broken]
        for line in found:
            self.stdout.write(line)
        compared = "the cluster's pods included" if is_compared else "without the pods: the cluster does not answer"
        if others:
            self.stdout.write(f"Rounds of another version of Weft, whose inputs cannot be compared: {others}.")
        self.stdout.write(f"{len(found)} broken ({compared}).")
        sys.exit(1 if found else 0)
