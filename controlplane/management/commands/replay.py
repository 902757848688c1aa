"""`manage.py replay CYCLE`: decide a stored round of the scheduler again."""

import json
import sys
from argparse import ArgumentParser
from difflib import unified_diff
from typing import Any

from django.core.management.base import BaseCommand

from controlplane.cycle import digest_of, rebuild
from controlplane.loops.schedule import record
from controlplane.models import Cycle
from controlplane.services import policy
from scheduler.schedule import schedule


class Command(BaseCommand):
    """Rebuild the round's input, decide, and compare with what was decided then."""

    help = "Decide a stored round again; exit 1 and show the difference if the decisions are others."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which round."""
        parser.add_argument("cycle", nargs="?", type=int, help="its number; the newest with an input without it")

    def handle(self, *args: Any, **options: Any) -> None:
        """Decide again."""
        cycle = self._find(options["cycle"])
        snapshot = rebuild(_inputs(cycle))
        if (digest := digest_of(snapshot)) != cycle.digest:
            self.stderr.write(f"Cycle {cycle.pk} saw {cycle.digest}; its stored input has {digest}.")
            sys.exit(1)
        decided = [record(decision) for decision in schedule(snapshot, policy.version(cycle.policy).scheduling)]
        before, now = _text(cycle.decisions), _text(decided)
        if before != now:
            for line in unified_diff(before, now, "decided then", "decided now", lineterm=""):
                self.stdout.write(line)
            sys.exit(1)
        self.stdout.write(
            f"Cycle {cycle.pk}: {len(decided)} decisions on {len(snapshot.workloads)} workloads, the same."
        )

    def _find(self, number: int | None) -> Cycle:
        rounds = Cycle.objects.filter(loop="schedule", input__isnull=False).order_by("-pk")
        found = rounds.first() if number is None else rounds.filter(pk=number).first()
        if found is None:
            which = "any round" if number is None else f"round {number}"
            self.stderr.write(f"The database has no input of {which}. Name one of the newest rounds.")
            sys.exit(2)
        return found


def _inputs(cycle: Cycle) -> list[bytes]:
    """The stored inputs from the last base up to this round."""
    rounds = Cycle.objects.filter(loop=cycle.loop, pk__lte=cycle.pk, input__isnull=False)
    base = rounds.filter(is_base=True).order_by("-pk").values_list("pk", flat=True).first()
    return [bytes(packed) for packed in rounds.filter(pk__gte=base).order_by("pk").values_list("input", flat=True)]


def _text(decisions: Any) -> list[str]:
    """One decision a line, as JSON stores it."""
    return [json.dumps(decision, sort_keys=True) for decision in json.loads(json.dumps(decisions))]
