"""A workload that is an object of Kubernetes: its controller says how it ended, and how many replicas it has."""

from controlplane.lifecycle import requests
from controlplane.lifecycle.attempts import stop_attempt, succeed
from controlplane.lifecycle.changes import Changes
from controlplane.lifecycle.state import FAIL, SUCCEED, State
from scheduler.model.workload import ACTIVE, ENDED, Phase
from scheduler.model.workload import LEAVING as LEAVING_PHASES

NO_REPLICAS = "NoReplicas"  # the reason of a service that is suspended as its Deployment wants no pods


def finish(changes: Changes, row: State, *, has_succeeded: bool, reason: str, message: str) -> None:
    """Its object has ended: so does it, once what still runs of it is gone. One that is leaving is asked again then."""
    if row.phase in ENDED or row.phase in LEAVING_PHASES or row.phase == Phase.PREEMPTED:
        return
    if row.phase in ACTIVE and changes.live(row):
        if not row.intent:
            changes.change(row, exit_code=None)  # of an earlier attempt: this one's is said by the end of its pods
            stop_attempt(changes, row, SUCCEED if has_succeeded else FAIL, reason, message)
        return
    requests.give_up_places(changes, row)
    if row.phase == Phase.RESERVED:
        changes.move(row, Phase.QUEUED, kind="Requeued", reason=reason, message=message)
    elif row.phase in (Phase.HELD, Phase.SUSPENDED):
        requests.resume(changes, row, message=message)
    if has_succeeded:
        succeed(changes, row, ())
    else:
        changes.change(row, ended_at=changes.at)
        changes.move(row, Phase.FAILED, reason=reason, message=message)


def scale(changes: Changes, row: State, replicas: int) -> None:
    """Its Deployment wants so many pods. Which of them go, its controller decides."""
    if row.phase in ENDED:
        return
    if replicas == 0:
        requests.suspend(changes, row, reason=NO_REPLICAS, message="Its Deployment wants no replicas.")
        return
    if row.phase in (Phase.HELD, Phase.SUSPENDED) and row.reason == NO_REPLICAS:
        requests.resume(changes, row, message=f"Its Deployment wants {replicas} replicas.")
    if row.workers != replicas:
        changes.bump(row, workers=replicas, workers_min=replicas, workers_max=replicas)
        told = {"changes": {"replicas": replicas}}
        changes.note(row, "Patched", message=f"Its Deployment has {replicas} pods.", data=told)
