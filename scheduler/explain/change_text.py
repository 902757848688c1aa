"""A change as a sentence: what to do, with its number."""

from scheduler.explain.change import ANY, Change, ChangeKind
from scheduler.model.mention import mention
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import Workload
from scheduler.quota.tree import gpus_counted, gpus_text

GPU_HOUR = 3_600_000  # milli-GPU seconds


def text_of(snapshot: Snapshot, workload: Workload, change: Change) -> str:
    """Tell in one sentence what to change for the workload, from what to what."""
    match change.kind:
        case ChangeKind.NOMINAL | ChangeKind.BORROWING:
            return _quota(change)
        case ChangeKind.STOP:
            other = snapshot.workloads[change.target]
            return f"Stop {mention(other.id)}, which loses {loss_text(int(change.after))} of work."
        case ChangeKind.PRIORITY:
            return f"Give it priority class {change.target} ({change.after} instead of {change.before})."
        case ChangeKind.MODEL:
            return (
                "Allow any GPU model."
                if change.after == ANY
                else f"Allow {change.after} in addition to {change.before}."
            )
        case ChangeKind.TOPOLOGY if change.after == ANY:
            return f"Do not require that its workers are in one {_level(change.before)}."
        case ChangeKind.TOPOLOGY:
            return f"Require one {_level(change.after)} instead of one {_level(change.before)}."
        case ChangeKind.WORKERS if workload.gang.min < workload.gang.max:
            return f"Let it start with {change.after} workers instead of {change.before} (workers.min)."
        case _:
            return _ask(change)


def loss_text(milli_seconds: int) -> str:
    """Lost work in words: GPU-hours with two figures, or less than a hundredth of one."""
    hours = milli_seconds / GPU_HOUR
    if hours < 0.01:
        return "less than 0.01 GPU-hours"
    return f"{hours:.2g} GPU-hour{'' if f'{hours:.2g}' == '1' else 's'}"


def _ask(change: Change) -> str:
    before, after = int(change.before), int(change.after)
    unit = "worker" if after == 1 else "workers"
    of_worker = "" if change.kind is ChangeKind.WORKERS else " for each worker"
    what = {
        ChangeKind.WORKERS: f"{after} {unit} instead of {before}",
        ChangeKind.GPUS: f"{gpus_counted(after * 1000)} instead of {before}",
        ChangeKind.SHARE: f"{gpus_text(after)} of a GPU instead of {gpus_text(before)}",
        ChangeKind.GPU_MEMORY: f"{after} MiB of GPU memory instead of {before}",
        ChangeKind.CPU: f"{after / 1000:g} cores instead of {before / 1000:g}",
        ChangeKind.MEMORY: f"{after} MiB of memory instead of {before}",
    }[change.kind]
    return f"Request {what}{of_worker}."


def _quota(change: Change) -> str:
    name = "nominal quota" if change.kind is ChangeKind.NOMINAL else "borrowing limit"
    before, after = gpus_text(int(change.before)), gpus_counted(int(change.after))
    return f"Raise the {name} of team {change.target} in pool {change.pool} from {before} to {after}."


def _level(name: int | str) -> str:
    return "NVLink domain" if name == "nvlink" else str(name)
