"""`manage.py trial NAME`: the processes that benchmarks start beside Weft's own."""

import json
import time
from argparse import ArgumentParser
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import connection

from controlplane.benchmarks import podless
from controlplane.celery import app
from controlplane.cluster.unmeasured import Unmeasured
from controlplane.loops import wiring
from controlplane.loops.wiring import Wiring
from controlplane.services import presets, submission
from controlplane.services.submission import Submission
from controlplane.spec import parse

TICK_SECONDS = 0.1  # submissions of so long go in one batch


class Command(BaseCommand):
    """Do one part of a benchmark."""

    help = "For `manage.py benchmark`: a process that it starts."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options."""
        parser.add_argument("name", choices=sorted(PARTS))
        parser.add_argument("--part", type=float, default=1.0, help="of the generator's workloads")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it; what it found goes to standard output as JSON."""
        self.stdout.write(json.dumps(PARTS[options["name"]](options["part"])))


def prepare(part: float) -> dict[str, Any]:
    """Tables, teams and quotas of Kueue's generator."""
    call_command("migrate", verbosity=0, interactive=False, skip_checks=True)
    presets.load(preset=podless.preset(), password=connection.settings_dict["NAME"], speed=1.0)
    presets.forget_world(now=time.time())
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        return {"postgres": cursor.fetchone()[0]}


def work(part: float) -> dict[str, Any]:
    """A worker as in production, but for its machines."""
    cluster = podless.Podless(podless.preset().nodes)
    wiring.use(lambda: Wiring(cluster, Unmeasured(), wiring.holder()))
    app.worker_main(["worker", "--pool", "threads", "--concurrency", "1", "--without-gossip", "--without-mingle"])
    return {}


def submit(part: float) -> dict[str, Any]:
    """Submit as the generator creates: late if it must, never early."""
    due = [(at, parse(document)) for at, document in podless.arrivals(part)]
    began, done = time.monotonic(), 0
    while done < len(due):
        now = time.monotonic() - began
        batch = []
        while done < len(due) and due[done][0] <= now:
            batch.append(Submission(due[done][1], actor="generator"))
            done += 1
        submission.submit_all(batch)
        time.sleep(max(0.0, TICK_SECONDS - (time.monotonic() - began - now)))
    return {"seconds": time.monotonic() - began}


PARTS = {"admission-prepare": prepare, "admission-worker": work, "admission-submit": submit}
