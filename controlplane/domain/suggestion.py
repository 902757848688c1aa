"""A suggestion on its way to being applied: what a dry run said to it, and what it changes in the job file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.explain.change import ANY, Change, ChangeKind


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a dry run said to one change for one workload."""

    change: Change | None  # None: it does not start the workload (any more)
    text: str  # the change as a sentence; else why it would not do, and what would
    version: int  # of the workload, as the dry run saw it


def job_changes(job: Mapping[str, Any], change: Change) -> dict[str, Any]:
    """The fields of a job file that a change of the ask or of the priority sets, each with its whole new value."""
    match change.kind:
        case ChangeKind.WORKERS:
            return {"workers": _workers(job.get("workers", {}), change)}
        case ChangeKind.TOPOLOGY:
            near = {name: level for name, level in job.get("topology", {}).items() if name != "require"}
            return {"topology": near if change.after == ANY else {**near, "require": change.after}}
        case ChangeKind.PRIORITY:
            return {"priority_class": change.target}
        case _:
            return {"resources": _resources(job.get("resources", {}), change)}


def _workers(workers: Mapping[str, Any], change: Change) -> dict[str, Any]:
    numbers = {name: change.after for name in ("count", "min", "max") if name in workers}
    is_rigid = all(workers.get(name, change.before) == change.before for name in ("count", "min", "max"))
    return {**workers, **(numbers if is_rigid else {"min": change.after})}


def _resources(asked: Mapping[str, Any], change: Change) -> dict[str, Any]:
    kind, share = change.kind, asked.get("gpu_share")
    if kind is ChangeKind.MODEL:
        models = asked.get("gpu_model") or []
        return {**asked, "gpu_model": [] if change.after == ANY else [*models, change.after]}
    after = int(change.after)
    if share and kind in (ChangeKind.SHARE, ChangeKind.GPU_MEMORY):
        part = {"guarantee": after / 1000} if kind is ChangeKind.SHARE else {"memory": f"{after}Mi"}
        return {**asked, "gpu_share": {**share, **part}}
    if kind is ChangeKind.GPUS:
        return {**asked, "gpus": after}
    return {**asked, kind.value: after / 1000 if kind is ChangeKind.CPU else f"{after}Mi"}
