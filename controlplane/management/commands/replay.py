"""`manage.py replay CYCLE`: decide a stored round of the scheduler or of the autoscaler again."""

import json
import sys
from argparse import ArgumentParser
from difflib import unified_diff
from typing import Any

from django.core.management.base import BaseCommand

from autoscaler.scale import scale
from controlplane.domain.cycle import OtherRuleError, digest_of, is_of_this_form, unpack_scaling
from controlplane.loops.scale import record as record_of_scale
from controlplane.loops.schedule import record
from controlplane.models import Cycle
from controlplane.queries.scheduling.cycles import InputGoneError, replayable, snapshot_of, stored
from controlplane.services.scheduling import policy
from scheduler.policies import decide


class Command(BaseCommand):
    """Rebuild the round's input, decide, and compare with what was decided then."""

    help = "Decide a stored round again; exit 1 and show the difference if the decisions differ."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which round."""
        parser.add_argument(
            "cycle",
            nargs="?",
            type=int,
            help="the number of a scheduling or scaling round; without it the newest scheduling round with an input",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Decide again."""
        number = options["cycle"]
        try:
            cycle = stored(next(iter(replayable()), 0) if number is None else number)
            decided, about = self._scaled(cycle) if cycle.loop == "scale" else self._scheduled(cycle)
        except (InputGoneError, OtherRuleError) as gone:
            self.stderr.write(str(gone))
            sys.exit(2)
        before, now = _text(cycle.decisions), _text(decided)
        if before != now:
            for line in unified_diff(before, now, "decided then", "decided now", lineterm=""):
                self.stdout.write(line)
            sys.exit(1)
        self.stdout.write(f"Cycle {cycle.pk}: {len(decided)} decisions on {about}, the same again.")

    def _scheduled(self, cycle: Cycle) -> tuple[list[dict[str, Any]], str]:
        """What the scheduler decides now on what it saw then, and how much that was. Raises InputGoneError."""
        snapshot = snapshot_of(cycle)
        if not is_of_this_form(cycle.digest):
            self.stderr.write(f"Cycle {cycle.pk} is of another version of Weft, so its input cannot be verified.")
        elif (digest := digest_of(snapshot)) != cycle.digest:
            self.stderr.write(f"Cycle {cycle.pk} saw {cycle.digest}; its stored input has {digest}.")
            sys.exit(1)
        decided = [record(decision) for decision in decide(snapshot, policy.version(cycle.policy).scheduling)]
        return decided, f"{len(snapshot.workloads)} workloads"

    def _scaled(self, cycle: Cycle) -> tuple[list[dict[str, Any]], str]:
        """The same of the autoscaler. Each of its rounds is stored whole."""
        seen, metrics = unpack_scaling(bytes(cycle.input or b""))
        decided = [record_of_scale(d) for d in scale(seen, metrics, policy.version(cycle.policy).scaling).decisions]
        return decided, f"{len(seen.workloads)} services"


def _text(decisions: Any) -> list[str]:
    """One decision a line, as JSON stores it."""
    return [json.dumps(decision, sort_keys=True) for decision in json.loads(json.dumps(decisions))]
