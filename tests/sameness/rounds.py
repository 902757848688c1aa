"""Stored rounds: what the scheduler and the autoscaler saw, as the Cycle table keeps it, and what they decided.

The scheduler's rounds are of the demo, of the shipped models of Philly and openb, and of the runs at random with
faults; the autoscaler's are of the demo and of openb's model. The other two have none: Philly's model has trainings and
notebooks only, and the runs at random draw how many replicas a service gets, so no autoscaler decides there. Inputs are
kept in their stored form, so that reading them again also shows that rounds stored by the version before can be read.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from autoscaler.decision import Scale
from autoscaler.metrics import Metrics
from autoscaler.scale import scale
from autoscaler.settings import Settings as ScalingSettings
from controlplane.domain.cycle import Difference, Frame, rebuild, unpack_scaling, workload_text
from controlplane.loops.scale import record as record_of_scale
from controlplane.loops.schedule import record
from controlplane.simulator.chaos.run import Parts, Runner
from scheduler.model.decision import Decision, Wait
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.policies import decide
from tests.sameness.store import plain
from tests.sameness.words import translate

MIN_SCHEDULING, MIN_SCALING = 200, 50


@dataclass(frozen=True, slots=True)
class Stored:
    """A round. source: its world; input: in the stored form, unpacked; decisions: as the row has them."""

    source: str
    loop: str
    is_base: bool
    input: str
    decisions: list[Any]


def documents(rounds: Sequence[Stored]) -> list[dict[str, Any]]:
    """Rounds as the fixture keeps them."""
    return [asdict(one) for one in rounds]


def stored(document: Sequence[Mapping[str, Any]]) -> list[Stored]:
    """The rounds of a fixture."""
    return [Stored(**one) for one in document]


def again(rounds: Sequence[Stored]) -> Iterator[tuple[Stored, list[Any]]]:
    """Decide every stored round again: the round, and the decisions of now as the row would have them.

    A workload's row holds the message of the round before, so the input is translated as well.
    """
    for _, found in groupby(rounds, lambda one: (one.source, one.loop)):
        before: list[bytes] = []
        for one in found:
            packed = zlib.compress(translate(one.input).encode(), level=1)
            before = [packed] if one.is_base else [*before, packed]
            yield one, plain(_scaled(packed) if one.loop == "scale" else _scheduled(rebuild(before)))


def _scheduled(snapshot: Snapshot) -> list[Any]:
    return [record(decision) for decision in decide(snapshot, Settings())]


def _scaled(packed: bytes) -> list[Any]:
    seen, metrics = unpack_scaling(packed)
    return [record_of_scale(decision) for decision in _scale(seen, metrics)]


def _scale(seen: Snapshot, metrics: Metrics) -> tuple[Scale, ...]:
    return scale(seen, metrics, ScalingSettings()).decisions


def chaos(seed: int, most: int) -> list[Stored]:
    """The first rounds of a run at random with faults in which anything but waiting was decided."""
    found: list[Stored] = []
    last: dict[str, str] = {}
    frame = ""

    def noted(snapshot: Snapshot, settings: Settings) -> tuple[Decision, ...]:
        nonlocal last, frame
        decided = tuple(decide(snapshot, settings))
        if len(found) < most and any(not isinstance(one, Wait) for one in decided):
            texts = {uid: workload_text(one) for uid, one in snapshot.workloads.items()}
            kept = snapshot.use, snapshot.budgets, snapshot.history
            of_now = Frame(snapshot.inventory.nodes, snapshot.teams, snapshot.quotas, *kept).text
            difference = Difference(
                snapshot.at,
                {uid: text for uid, text in texts.items() if last.get(uid) != text},
                tuple(uid for uid in last if uid not in texts),
                of_now if of_now != frame else None,
            )
            decisions = plain([record(one) for one in decided])
            found.append(Stored(f"chaos {seed}", "schedule", not found, unpacked(difference.pack()), decisions))
            last, frame = texts, of_now
        return decided

    runner = Runner(seed, parts=Parts(schedule=noted))
    while len(found) < most:
        runner.run(100)
    return found


def unpacked(packed: bytes) -> str:
    """The text of a stored input."""
    return zlib.decompress(packed).decode()
