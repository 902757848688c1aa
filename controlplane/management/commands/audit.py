"""`manage.py audit`: check every invariant on the database as it stands."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from controlplane.cluster.port import ClusterUnreachable, PodSeen
from controlplane.loops import wiring
from controlplane.models import Action, ClusterState
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
        with audit.one_moment():
            pods = _pods()
            broken = audit.violations(last_rounds=options["rounds"], pods=pods)
        found = [f"{one.name} {one.subject}: {one.message}" for one in broken]
        for line in found:
            self.stdout.write(line)
        compared = "the cluster's pods included" if pods is not None else "without the pods: the cluster has moved on"
        self.stdout.write(f"{len(found)} broken ({compared}).")
        sys.exit(1 if found else 0)


def _pods() -> tuple[PodSeen, ...] | None:
    """The cluster's pods, if the database knows its newest state and nothing is on its way there."""
    if Action.objects.filter(done_at__isnull=True).exists():
        return None
    try:
        observation = wiring.get().cluster.observe(None)
    except ClusterUnreachable:
        return None
    known = ClusterState.objects.values_list("cursor", flat=True).first()
    return observation.pods if observation.cursor == known else None
