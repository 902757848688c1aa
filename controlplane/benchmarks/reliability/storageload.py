"""The process of `storage`: it simulates a day, multiplies it, prunes, and times rounds beside that."""

import statistics
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.db import connection

from controlplane.benchmarks.reliability import storagerows
from controlplane.benchmarks.reliability.storagerows import Copies, one
from controlplane.jobspec.spec import parse
from controlplane.loops import actuate, observe, prune, schedule, wiring
from controlplane.loops import lease as leases
from controlplane.loops.embedded import Driver
from controlplane.loops.lease import Report
from controlplane.loops.threads import LoopThread
from controlplane.loops.wiring import Wiring
from controlplane.models import Pruned, Workload
from controlplane.runtime import tuning
from controlplane.services.audit import auditpruning, retention
from controlplane.services.workloads import presets, submission, workloads
from controlplane.services.workloads.submission import Submission
from controlplane.simulator.worlds import catalogue
from controlplane.simulator.worlds.presets import Pace

WORKLOADS, WHOLE_DAY, SHORT_DAY = 1_000_000, 24.0, 2.0  # hours of the demo; the short one for tries
SLOTS = Pace(slot=60.0, scale=60.0)  # of the day: it is only to have all kinds of rows
SLICE_DAYS = 15  # of rows, before what is too old is pruned again
BLOCKS, ROUNDS = 12, 50  # of each condition, by turns; in a block


def measure(options: Mapping[str, Any]) -> dict[str, Any]:
    """Fill, prune, measure."""
    tuning.collect_less_often()
    tuning.take_turns_often()
    call_command("migrate", verbosity=0, interactive=False, skip_checks=True)
    wanted = int(options["count"])
    began = time.monotonic()
    wired = _day(WHOLE_DAY if wanted >= WORKLOADS else SHORT_DAY, int(options["seed"]))
    day_seconds = time.monotonic() - began
    storagerows.put_aside()
    copies = Copies(wanted, wired.cluster.now())
    slices = list(copies.slices(SLICE_DAYS))
    lease = leases.of(wired, "prune")
    for number, part in enumerate(slices):
        copies.write(part)
        if number < len(slices) - 1:  # the last is for the loop
            _prune_all(lease, copies.shift(part[-1]) // storagerows.DAY)
        storagerows.vacuum()
    filled = time.monotonic() - began - day_seconds
    lease.release()
    timed = _rounds(wired, BLOCKS if wanted >= WORKLOADS else 2)
    _prune_all(lease)
    storagerows.run("DROP SCHEMA day CASCADE")
    storagerows.vacuum()
    return timed | {
        "workloads": Workload.objects.count(),
        "database_bytes": one("SELECT pg_database_size(current_database())"),
        "sizes": storagerows.sizes(),
        "pruned": {row.name: row.rows for row in Pruned.objects.all()},
        "each_day": copies.each,
        "copies": copies.count,
        "day_seconds": day_seconds,
        "fill_seconds": filled,
    }


def _day(hours: float, seed: int) -> Wiring:
    """A day of the demo, by the production loops, in slots of a minute."""
    preset = replace(catalogue.demonstration(catalogue.DEFAULT_LOAD, seed=seed), pace=SLOTS)
    presets.load(preset=preset, password=connection.settings_dict["NAME"], speed=1.0)
    wired = wiring.simulated(preset, in_memory=True)
    Driver(wired, preset, contain=False).run_to(preset.start + hours * 3600)
    return wired


def _prune_all(lease: leases.Lease, days_ago: int = 0) -> None:
    """What the loop does, without its rests; as it was so many days ago, when all that is there was younger."""
    kept = settings.KEEP_DAYS
    settings.KEEP_DAYS = {variable: days + days_ago for variable, days in kept.items()}
    for table in retention.KEPT.values():
        while retention.prune(table, lease=_held(lease)) >= retention.BATCH:
            pass
    while auditpruning.prune(lease=_held(lease)) >= auditpruning.BATCH:
        pass
    settings.KEEP_DAYS = kept


def _held(lease: leases.Lease) -> Any:
    held = lease.hold()
    assert held is not None  # noqa: S101 - nothing else runs
    return held


# --- rounds -----------------------------------------------------------------------------------


def _rounds(wired: Wiring, blocks: int) -> dict[str, Any]:
    """Rounds with and without the loop `prune` beside them, in one thread from beginning to end, as in a worker.

    Pairs of blocks, each the other way round than the one before: what comes every so many rounds meets both alike.
    """
    _settle(wired)
    quiet: list[float] = []
    beside: list[float] = []
    rows, seconds = 0, 0.0
    pruning = _Pruning()
    try:
        for pair in range(blocks):
            for is_beside in (False, True) if pair % 2 == 0 else (True, False):
                if not is_beside:
                    quiet += [_round(wired) for _ in range(ROUNDS)]
                    continue
                before, began = _deleted(), time.monotonic()
                with pruning.on():
                    beside += [_round(wired) for _ in range(ROUNDS)]
                rows, seconds = rows + _deleted() - before, seconds + time.monotonic() - began
    finally:
        pruning.end()
    return {"quiet": quiet, "beside": beside, "rows": rows, "seconds": seconds, "median": statistics.median(quiet)}


class _Pruning:
    """The loop's thread, which waits while it is not on. A round of it ends at its own limit, or when it is put off."""

    def __init__(self) -> None:
        self._is_on = threading.Event()
        self._rests = threading.Event()
        self._is_over = threading.Event()
        self._thread = LoopThread("prune", self._run, period=0.0)
        self._thread.start()

    @contextmanager
    def on(self) -> Iterator[None]:
        """Have it prune, and wait at the end until it rests."""
        self._rests.clear()
        self._is_on.set()
        try:
            yield
        finally:
            self._is_on.clear()
            self._rests.wait(60)

    def end(self) -> None:
        """End the thread."""
        self._is_over.set()
        self._thread.stop()
        self._thread.join(60)

    def _run(self, wired: Wiring) -> Report:
        while not self._is_on.wait(0.01):
            self._rests.set()
            if self._is_over.is_set():
                return Report("prune")
        return prune.run_once(wired)


_numbers = iter(range(1_000_000))


def _round(wired: Wiring) -> float:
    """One round of the schedule loop about a workload that has just come, timed; then it goes again."""
    name = f"storage-{next(_numbers)}"
    job = {
        "type": "training", "name": name, "team": "vision", "image": "registry.example/train:1",
        "resources": {"gpus": 1, "cpu": 2, "memory": "8Gi"},
    }  # fmt: skip
    submission.submit_all([Submission(parse(job), actor="benchmark")])
    began = time.monotonic()
    schedule.run_once(wired)
    seconds = time.monotonic() - began
    workloads.stop(workload=Workload.objects.select_related("team").get(name=name), actor="benchmark")
    _settle(wired)
    return seconds


def _settle(wired: Wiring) -> None:
    """Have the cluster do what was decided, until nothing is left to do."""
    for _ in range(20):
        if not (actuate.run_once(wired).did + observe.run_once(wired).did + schedule.run_once(wired).did):
            break


def _deleted() -> int:
    return one('SELECT sum("rows") FROM controlplane_pruned') + one('SELECT sum("rows") FROM controlplane_auditanchor')
