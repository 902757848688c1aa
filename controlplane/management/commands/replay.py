"""`manage.py replay CYCLE`: decide a stored round of the scheduler again."""

import json
import sys
from argparse import ArgumentParser
from difflib import unified_diff
from typing import Any

from django.core.management.base import BaseCommand

from controlplane.cycle import digest_of, is_of_this_form
from controlplane.loops.schedule import record
from controlplane.models import Cycle
from controlplane.queries.cycles import InputGoneError, replayable, snapshot_of
from controlplane.services import policy
from scheduler.policies import decide


class Command(BaseCommand):
    """Rebuild the round's input, decide, and compare with what was decided then."""

    help = "Decide a stored round again; exit 1 and show the difference if the decisions are others."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which round."""
        parser.add_argument("cycle", nargs="?", type=int, help="its number; the newest with an input without it")

    def handle(self, *args: Any, **options: Any) -> None:
        """Decide again."""
        try:
            cycle = _find(options["cycle"])
            snapshot = snapshot_of(cycle)
        except InputGoneError as gone:
            self.stderr.write(str(gone))
            sys.exit(2)
        if not is_of_this_form(cycle.digest):
            self.stderr.write(f"Cycle {cycle.pk} is of another version of Weft, so its input cannot be verified.")
        elif (digest := digest_of(snapshot)) != cycle.digest:
            self.stderr.write(f"Cycle {cycle.pk} saw {cycle.digest}; its stored input has {digest}.")
            sys.exit(1)
        decided = [record(decision) for decision in decide(snapshot, policy.version(cycle.policy).scheduling)]
        before, now = _text(cycle.decisions), _text(decided)
        if before != now:
            for line in unified_diff(before, now, "decided then", "decided now", lineterm=""):
                self.stdout.write(line)
            sys.exit(1)
        self.stdout.write(
            f"Cycle {cycle.pk}: {len(decided)} decisions on {len(snapshot.workloads)} workloads, the same again."
        )


def _find(number: int | None) -> Cycle:
    """A round of the scheduler. Raises InputGoneError."""
    if number is None:
        number = next(iter(replayable()), 0)
    found = Cycle.objects.filter(loop="schedule", pk=number, input__isnull=False).first()
    if found is None:
        raise InputGoneError(f"The database has no input of round {number or 'any'}. Name one of the newest rounds.")
    return found


def _text(decisions: Any) -> list[str]:
    """One decision a line, as JSON stores it."""
    return [json.dumps(decision, sort_keys=True) for decision in json.loads(json.dumps(decisions))]
