"""Stored rounds of a large cluster decided again by nothing that rounds keep: they must decide the same.

Each from its stored input alone: without the ledger and the memo that a round hands on to the next, and with the passes
over nodes and devices in numpy in place of compiled ones.
"""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from controlplane.domain.cycle import digest_of, rebuild
from controlplane.domain.deciders import SCHEDULE
from controlplane.loops.schedule import record
from controlplane.models import Cycle
from controlplane.services.scheduling import policy
from scheduler.model.snapshot import Snapshot
from scheduler.policies import decide
from scheduler.state import passes

COUNT = 60  # rounds, evenly from all that are stored


def decide_again(options: Mapping[str, Any]) -> dict[str, Any]:
    """Of so many stored rounds: how many decide otherwise, how many were about another input, decisions, seconds."""
    passes.load(is_compiled=False)
    stored = Cycle.objects.filter(loop=SCHEDULE, input__isnull=False)
    first = stored.filter(is_base=True).order_by("pk").values_list("pk", flat=True).first()
    numbers = list(stored.filter(pk__gte=first or 0).order_by("pk").values_list("pk", flat=True))
    count = min(COUNT, len(numbers))
    chosen = {numbers[i * len(numbers) // count] for i in range(count)}
    found = {"rounds": 0, "different": 0, "other_inputs": 0, "decisions": 0}
    took = []
    for cycle, snapshot in _inputs(numbers):
        if cycle.pk not in chosen:
            continue
        began = time.monotonic()
        decided = [record(decision) for decision in decide(snapshot, policy.version(cycle.policy).scheduling)]
        took.append(time.monotonic() - began)
        found["rounds"] += 1
        found["different"] += json.loads(json.dumps(decided)) != cycle.decisions
        found["other_inputs"] += digest_of(snapshot) != cycle.digest
        found["decisions"] += len(decided)
    return {**found, "seconds": sum(took) / max(1, len(took))}


def _inputs(numbers: list[int]) -> Iterator[tuple[Cycle, Snapshot]]:
    """Each of these rounds with what it saw; the first of them is a base."""
    before: Snapshot | None = None
    for number in numbers:
        cycle = Cycle.objects.get(pk=number)
        before = rebuild([bytes(cycle.input or b"")], None if cycle.is_base else before)
        yield cycle, before
