"""What the canaries of services and the revisions before them have answered since their requests are split."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from autoscaler.latency import Within
from controlplane.cluster.port import Metrics
from controlplane.jobspec.objective import within
from controlplane.lifecycle import canaries
from controlplane.lifecycle.canaries import Judged, Tally
from controlplane.models import Workload, bulk
from controlplane.queries.reports import sla


@dataclass(frozen=True, slots=True)
class Canary:
    """A service with an objective whose requests are split: the two revisions, since when, and what it promises."""

    revision: int
    before: int
    since: float
    within: Within
    availability: float


def all_split(uids: Collection[UUID]) -> dict[str, Canary]:
    """Those of these services that can be judged, by id. One query."""
    found = {}
    for uid, revision, rollout, spec in bulk.select(
        Workload, ("uid", "revision", "rollout", "spec"), {"uid__among": list(uids)}
    ):
        objective = sla.objective(spec)
        if not objective or not canaries.is_one(rollout) or rollout.get("split_at") is None:
            continue
        promised, availability = within(objective), float(objective["availability"])
        if promised is not None:
            found[str(uid)] = Canary(revision, rollout["from"], rollout["split_at"], promised, availability)
    return found


def judged(services: Mapping[str, Canary], metrics: Metrics) -> dict[str, Judged]:
    """What was measured of them, by id; one of which nothing is known is left out."""
    if not services:
        return {}
    told = metrics.revisions({uid: (one.since, one.within) for uid, one in services.items()})
    tallies = {(one.workload, one.revision): Tally(one.requests, one.over) for one in told}
    return {
        uid: Judged(tallies[uid, one.revision], tallies.get((uid, one.before), Tally(0, 0)), one.availability)
        for uid, one in services.items()
        if (uid, one.revision) in tallies
    }
