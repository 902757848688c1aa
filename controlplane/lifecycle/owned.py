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


def bounds(replicas: int, least: int, most: int) -> tuple[int, int]:
    """The least and the most of a service whose Deployment has so many pods, by those that its job file gives."""
    return min(least, replicas), max(most, replicas)


def follow(changes: Changes, row: State, replicas: int, least: int, most: int) -> None:
    """The Deployment of a service of ours has so many pods. least, most: of its job file."""
    was = row.workers
    if replicas == 0 or row.phase in ENDED:  # only people do that; its pods say when they are gone
        return
    low, high = bounds(replicas, least, most)
    changes.bump(row, workers=replicas, workers_min=low, workers_max=high)
    if was != replicas:
        numbers = {"before": was, "after": replicas}
        changes.note(row, "Scaled", message=f"Kubernetes' autoscaler: {was} to {replicas} replicas.", data=numbers)


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
