"""`manage.py benchmark_process NAME`: the processes that benchmarks start beside Weft's own."""

import json
from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.core.management.base import BaseCommand
from django.utils.module_loading import import_string

# By the function of controlplane.benchmarks that does it. Only that one is imported: what others load would count as
# memory of a process that is measured.
PARTS: Mapping[str, str] = {
    "pages-prepare": "parts.prepare_pages",
    "admission-prepare": "parts.prepare",
    "admission-worker": "parts.work",
    "admission-submit": "parts.submit",
    "site-prepare": "parts.prepare_site",
    "site-queue": "parts.queue_at_site",
    "mutate-pods": "reliability.storms.mutate",
    "node-prepare": "parts.prepare_node",
    "turnaround-prepare": "parts.prepare_turnaround",
    "authorization": "reliability.authorization.attempted",
    "demo-week": "serving.demoweekload.measure",
    "fuzz-prepare": "reliability.fuzz.prepare",
    "fencing-worker": "parts.stop_now_and_then",
    "reclaim": "reliability.reclaiming.measure",
    "round": "scheduling.roundload.measure",
    "round-whole": "scheduling.roundload.measure_whole",
    "cells-day-four": "large.cellsday.four",
    "cells-day-one": "large.cellsday.one",
    "cells-decide": "large.cellsload.decide",
    "cells-drive": "large.cellsload.drive",
    "cells-fill": "large.cellsload.fill",
    "large-again": "large.again.decide_again",
    "large-fill": "large.load.fill",
    "large-rounds": "large.load.decide",
    "reads-prepare": "large.reads.prepare",
    "storage": "reliability.storageload.measure",
    "webhook-prepare": "parts.prepare_webhook",
}
NODES = 1250  # 10,000 GPUs


class Command(BaseCommand):
    """Do one part of a benchmark."""

    help = "For `manage.py benchmark`: a process that it starts."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("name", choices=sorted(PARTS))
        parser.add_argument("--part", type=float, default=1.0, help="of the generator's workloads")
        parser.add_argument("--running", type=int, default=500)
        parser.add_argument("--waiting", type=int, default=200)
        parser.add_argument("--nodes", type=int, default=NODES)
        parser.add_argument("--count", type=int, default=200, help="rounds to time")
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--since", type=float, default=0.0, help="hours from the demo's opening")
        parser.add_argument("--until", type=float, default=24.0, help="hours from the demo's opening")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it; what it found goes to standard output as JSON."""
        part = import_string(f"controlplane.benchmarks.{PARTS[options['name']]}")
        self.stdout.write(json.dumps(part(options)))
