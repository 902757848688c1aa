"""What slows a training, with the evidence: for REST, pages and the CLI."""

from dataclasses import dataclass
from typing import Any

from autoscaler.bottleneck.advice import told
from autoscaler.bottleneck.constants import DEFAULT
from autoscaler.bottleneck.detect import Diagnosis
from autoscaler.bottleneck.window import Bottleneck
from autoscaler.reallocate.restarts import Learned
from controlplane.domain import diagnosisstate
from controlplane.jobspec.quantities import iso
from controlplane.models import Placement, TrainingDiagnosis, Workload, restarts
from controlplane.queries.workloads import scalingcurve

SILENT = "Its program reports no steps, so it is not known what slows it. See docs/reporter.md."
LEVELS = ("cpu", "throttled", "disk", "nic", "server_cpu", "gpu")


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of its present attempt. at, since: cluster clock."""

    at: float
    since: float
    diagnosis: Diagnosis

    @property
    def sentence(self) -> str:
        """What its steps wait for, and what would help."""
        return told(self.diagnosis)


def of(workload: Workload) -> Known | None:
    """The diagnosis of a training's present attempt; None where there is none, or no report of a step. One query."""
    row = TrainingDiagnosis.objects.filter(workload=workload.pk, attempt=workload.attempt).first()
    return (
        None
        if row is None or not row.state.get("windows")
        else Known(row.at, row.since, diagnosisstate.state_of(row.state))
    )


def restart(workload: Workload) -> Learned:
    """What a restart of it is taken to cost. Two queries."""
    return restarts.known(workload)


def shown(workload: Workload) -> dict[str, Any]:
    """As REST answers it. removable and levels: 0..1; evidence: odds of the alarm, 1 = named. Four to eight queries."""
    known = of(workload)
    answer: dict[str, Any] = {"uid": str(workload.pk), "attempt": workload.attempt}
    answer["scaling_curve"] = scalingcurve.rows(workload)
    answer["batch"] = scalingcurve.batch_shown(workload)
    costs = restart(workload)
    answer["restart"] = {
        "seconds": round(costs.seconds, 1),
        "leave_seconds": round(costs.leave, 1),
        "begin_seconds": round(costs.begin, 1),
        "own": costs.own,
        "lent": costs.lent,
    }
    if known is None:
        empty = {"bottleneck": None, "since": None, "at": None, "windows": 0, "message": SILENT}
        return answer | empty | {"evidence": [], "levels": None, "slow_worker": None}
    found = known.diagnosis
    return answer | {
        "bottleneck": found.bottleneck,
        "since": iso(known.since) if found.bottleneck else None,
        "at": iso(known.at),
        "windows": found.windows,
        "message": known.sentence,
        "evidence": [
            {
                "bottleneck": one,
                "removable": round(evidence.removable, 3),
                "strength": strength(evidence.odds),
                "lately": [round(part, 3) for part in evidence.lately],
            }
            for one, evidence in ranked(found)
        ],
        "levels": {name: getattr(found.levels, name) for name in LEVELS},
        "slow_worker": slow_worker(workload, found),
    }


def slow_worker(workload: Workload, found: Diagnosis) -> dict[str, Any] | None:
    """The rank of the worker that the others wait for, and its node; None where there is none. A query if there is."""
    if found.slow_worker is None:
        return None
    places = Placement.objects.filter(workload=workload, attempt=workload.attempt, rank=found.slow_worker)
    return {"rank": found.slow_worker, "node": places.values_list("node", flat=True).last() or ""}


def strength(odds: float) -> float:
    """How far the evidence of a class is on its way to being named, 0..1."""
    return round(min(max(odds / DEFAULT.alarm, 0.0), 1.0), 3)


def ranked(found: Diagnosis) -> list[tuple[Bottleneck, Any]]:
    """The classes that could be told, the strongest first."""
    return sorted(found.evidence.items(), key=lambda item: (-item[1].odds, -item[1].removable, item[0]))
