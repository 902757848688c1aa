"""Follow our custom resources: what kubectl has applied is submitted, changed and stopped; how it stands is told back.

A Workload object's uid is the workload's, so it is submitted once by any lease's holder. An object that is gone
is found by comparing with a complete list, so none needs a finalizer, and a namespace can go while no worker runs. A
status is written with the version of the object that was read: one by a process that was paused is refused.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from controlplane.domain import addresses
from controlplane.kubeobjects import status
from controlplane.kubeobjects.names import TEAM, WORKLOAD
from controlplane.kubeobjects.port import Objects, Thing
from controlplane.kubeobjects.status import Told, Verdict
from controlplane.loops import rounds
from controlplane.loops.intaking import People, Round, Verdicts
from controlplane.loops.lease import Report
from controlplane.loops.wiring import Wiring
from controlplane.queries.intake import standing
from controlplane.queries.intake.standing import Standing
from controlplane.services.scheduling.leases import HeldLease

LOOP = "intake"
WORDS_SECONDS = 30.0  # between two writes of a status in which only a sentence about waiting has changed
STANDING_SECONDS = 30.0  # between two looks how services stand, which changes without an event


@dataclass
class Kept:
    """What this process knows from its last rounds; another holder of the lease begins with nothing."""

    epoch: int = -1
    seen: tuple[int, int] = (-1, -1)  # numbers of the objects and of the event log
    verdicts: Verdicts = field(default_factory=dict)
    written: dict[str, tuple[Mapping[str, Any], float]] = field(default_factory=dict)  # by uid: statuses, monotonic

    again_at: float = math.inf  # monotonic: when a sentence that waits is written, or how services stand looked at

    def forget(self, uids: set[str]) -> None:
        """Keep only what is about these."""
        self.verdicts = {uid: one for uid, one in self.verdicts.items() if uid in uids}
        self.written = {uid: one for uid, one in self.written.items() if uid in uids}


def run_once(wiring: Wiring) -> Report:
    """One round; without a Kubernetes, or without our definitions in it, there is nothing to do."""
    return rounds.run(LOOP, wiring, _intake)


def _intake(wiring: Wiring, lease: HeldLease) -> int:
    objects = wiring.objects
    if objects is None or not objects.are_there():
        return 0
    kept: Kept = wiring.kept.setdefault(LOOP, Kept())
    if kept.epoch != lease.epoch:
        kept = wiring.kept[LOOP] = Kept(lease.epoch)
    now = (objects.number(), standing.last_event())
    if now == kept.seen and min([kept.again_at, *(until for _, _, until in kept.verdicts.values())]) > time.monotonic():
        return 0
    did = _follow(objects, lease, kept)
    kept.seen = now
    return did


def _follow(objects: Objects, lease: HeldLease, kept: Kept) -> int:
    things = objects.all()
    made = [one for one in things if one.kind == WORKLOAD]
    standings = standing.standings([one.uid for one in made])
    teams = standing.teams()
    if _has_orphans(things, standings, teams):
        objects.check()  # before anything ends because its object is not there
        things = objects.all()
        made = [one for one in things if one.kind == WORKLOAD]
    work = Round(lease, kept.verdicts, People(is_believed=objects.are_fenced()))
    work.end_orphans({one.uid for one in made if not one.is_leaving}, standings)
    work.release_teams({one.name for one in things if one.kind == TEAM and not one.is_leaving}, teams)
    verdicts = work.teams([one for one in things if one.kind == TEAM and not one.is_leaving])
    verdicts |= work.workloads([one for one in made if not one.is_leaving], standings)
    if work.did:
        standings = standing.standings([one.uid for one in made])
    kept.forget({one.uid for one in things})
    return work.did + _tell(objects, things, verdicts, standings, kept)


def _has_orphans(things: Sequence[Thing], standings: Mapping[str, Standing], teams: Mapping[str, Any]) -> bool:
    there, named = {one.uid for one in things}, {one.name for one in things if one.kind == TEAM}
    return bool(teams.keys() - named) or any(uid not in there and not one.has_ended for uid, one in standings.items())


def _tell(
    objects: Objects,
    things: Sequence[Thing],
    verdicts: Mapping[str, Verdict],
    standings: Mapping[str, Standing],
    kept: Kept,
) -> int:
    """Write the statuses that are others now."""
    due: list[tuple[Thing, Mapping[str, Any]]] = []
    now = time.monotonic()
    kept.again_at = now + STANDING_SECONDS if any(one.seen.standing for one in standings.values()) else math.inf
    for thing in things:
        if thing.uid not in verdicts:
            continue
        before, at = kept.written.get(thing.uid, (thing.status, -WORDS_SECONDS))
        wanted = _status(thing, verdicts[thing.uid], standings.get(thing.uid), before)
        is_news = status.without_words(wanted) != status.without_words(before)
        if is_news or (wanted != before and now - at >= WORDS_SECONDS):
            due.append((thing, wanted))
        elif wanted != before:
            kept.again_at = min(kept.again_at, at + WORDS_SECONDS)
    missed = objects.write(due) if due else 0
    for thing, wanted in due:
        if missed:
            kept.written.pop(thing.uid, None)  # which one was refused is seen in what is heard next
        else:
            kept.written[thing.uid] = wanted, now
    return len(due) - missed


def _status(thing: Thing, verdict: Verdict, one: Standing | None, before: Mapping[str, Any]) -> Mapping[str, Any]:
    told = Told(thing.generation, time.time(), before)
    if thing.kind == TEAM:
        return status.of_team(addresses.namespace(thing.name, settings.NAMESPACE_PREFIX), verdict, told)
    return status.of_workload(one.seen if one else None, verdict, told)
