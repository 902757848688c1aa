"""How numbers, times and states read on pages. Pure: no database, no request."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from autoscaler.latency import FIRST_TOKEN
from autoscaler.sla import Standing
from controlplane.domain.reclaimprice import price_of
from gpushare.gpu import WHOLE
from scheduler.model.workload import ENDED, LEAVING, WAITING, Level, Phase

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
NOT_KNOWN = "–"  # what stands where a number is not known; never 0
MILLI_SECONDS_PER_GPU_HOUR = WHOLE * 3600
# (tone, word) of how a service stands against its objective.
STANDINGS = {
    Standing.MET: ("ok", "Met"),
    Standing.AT_RISK: ("warn", "At risk"),
    Standing.VIOLATED: ("bad", "Violated"),
    Standing.UNKNOWN: ("dim", "Not known"),
}


def gpus(milli: float | None) -> str:
    """milli-GPU as GPUs: whole ones without decimals, shares with two at most."""
    if milli is None:
        return NOT_KNOWN
    value = milli / WHOLE
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def gpu_hours(milli_seconds: float | None) -> str:
    """milli-GPU seconds as GPU-hours."""
    if milli_seconds is None:
        return NOT_KNOWN
    value = milli_seconds / MILLI_SECONDS_PER_GPU_HOUR
    return f"{value:,.1f}"


def percent(ratio: float | None, digits: int = 0) -> str:
    """A ratio as percent. Rounded down, so that 99.99 % is never told as 100."""
    if ratio is None:
        return NOT_KNOWN
    scale = 10**digits
    value = int(ratio * 100 * scale + 1e-9) / scale if ratio >= 0 else round(ratio * 100, digits)
    return f"{value:.{digits}f} %"


def duration(seconds: float | None) -> str:
    """A length of time in its two largest units."""
    if seconds is None:
        return NOT_KNOWN
    seconds = max(0.0, seconds)
    if seconds < 1 and seconds > 0:
        return f"{seconds * 1000:.0f} ms"
    if seconds < MINUTE:
        return f"{seconds:.0f} s"
    if seconds < HOUR:
        return f"{seconds // MINUTE:.0f} min"
    if seconds < DAY:
        hours, minutes = divmod(int(seconds // MINUTE), 60)
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(int(seconds // HOUR), 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def rough(seconds: float | None) -> str:
    """A length of time in one unit, for tiles."""
    if seconds is None or seconds < MINUTE:
        return duration(seconds)
    if seconds < 2 * HOUR:
        return f"{seconds / MINUTE:.0f} min"
    return f"{seconds / HOUR:.0f} h" if seconds < 2 * DAY else f"{seconds / DAY:.0f} d"


def latency(seconds: float | None) -> str:
    """A latency: milliseconds below ten seconds."""
    if seconds is None:
        return NOT_KNOWN
    return f"{seconds * 1000:,.0f} ms" if seconds < 10 else f"{seconds:.0f} s"


def promised(row: Any) -> str:
    """ "within 200 ms", or "first token within 500 ms": of what has `p95_target` and `p95_of`."""
    return f"{'first token ' if row.p95_of == FIRST_TOKEN else ''}within {latency(row.p95_target)}"


def p95(row: Any) -> str:
    """What is measured of it: "p95", or "p95 to first token"."""
    return "p95 to first token" if row.p95_of == FIRST_TOKEN else "p95"


def burn(rate: float | None) -> str:
    """A burn rate: how many times as fast as planned an error budget is used; 1x is on target."""
    if rate is None:
        return NOT_KNOWN
    return f"{rate:,.0f}x" if rate >= 10 else f"{rate:.2g}x"


def memory(mib: float | None) -> str:
    """MiB in the unit that reads best."""
    if mib is None:
        return NOT_KNOWN
    if mib < 1024:
        return f"{mib:.0f} MiB"
    return f"{mib / 1024:.1f}".rstrip("0").rstrip(".") + " GiB"


def cores(milli: float | None) -> str:
    """1/1000 cores as cores."""
    return NOT_KNOWN if milli is None else f"{milli / 1000:g}"


def size(cpu_milli: float, mib: float) -> str:
    """CPU and memory of a worker: "8 cores and 64 GiB"."""
    return f"{cores(cpu_milli)} {'core' if cpu_milli == 1000 else 'cores'} and {memory(mib)}"


def exact(at: float) -> str:
    """A moment in full, UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}"


def iso(at: float) -> str:
    """A moment for machines."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"


def clock_time(at: float, now: float | None = None) -> str:
    """The time of day, with the date when that is not today's."""
    moment = datetime.fromtimestamp(at, UTC)
    if now is None or moment.date() == datetime.fromtimestamp(now, UTC).date():
        return f"{moment:%H:%M:%S}"
    return f"{moment:%b %-d, %H:%M}"


# --- states -----------------------------------------------------------------------------------

_TONE_OF_PHASE = {
    Phase.SUCCEEDED: "ok",
    Phase.FAILED: "bad",
    Phase.REJECTED: "bad",
    Phase.EXPIRED: "bad",
    Phase.DEGRADED: "bad",
    Phase.RUNNING: "ok",
    Phase.STOPPED: "dim",
    Phase.SUSPENDED: "dim",
    Phase.HELD: "dim",
}
_TONE_OF_KIND = {
    "Admitted": ("ok", "placed"),
    "Placed": ("ok", "placed"),
    "Reserved": ("accent", "reserved"),
    "Submitted": ("accent", "submitted"),
    "NotSubmittedAgain": ("warn", "not submitted again"),
    "Starting": ("accent", "starting"),
    "Running": ("ok", "running"),
    "Evicted": ("bad", "evicted"),
    "Waiting": ("warn", "waiting"),
    "Scaled": ("accent", "scaled"),
    "Scaling": ("accent", "scaling"),
    "Shrunk": ("warn", "shrunk"),
    "Succeeded": ("ok", "finished"),
    "Failed": ("bad", "failed"),
    "Expired": ("bad", "expired"),
    "Degraded": ("bad", "degraded"),
    "Preempted": ("warn", "preempted"),
    "Checkpointing": ("warn", "checkpointing"),
    "Requeued": ("warn", "queued again"),
    "Resumed": ("accent", "resumed"),
    "Held": ("dim", "held"),
    "Suspending": ("dim", "suspending"),
    "Suspended": ("dim", "suspended"),
    "Stopping": ("dim", "stopping"),
    "Stopped": ("dim", "stopped"),
    "Patched": ("dim", "changed"),
    "Offloaded": ("accent", "weights to host memory"),
    "Restored": ("ok", "weights to GPU"),
    "OffloadRefused": ("bad", "weights not moved"),
    "Resizing": ("accent", "resizing"),
    "Resized": ("ok", "resized"),
    "ResizeRefused": ("bad", "resize refused"),
    "RollingOut": ("accent", "rolling out"),
    "TwoOwnersOfReplicas": ("warn", "two owners of replicas"),
    "Split": ("accent", "requests split"),
    "Promoted": ("ok", "promoted"),
    "RolledOut": ("ok", "rolled out"),
    "RollingBack": ("bad", "rolling back"),
    "RolledBack": ("warn", "rolled back"),
    "Moved": ("accent", "left to move"),
    "ReplicasMoved": ("warn", "replicas moved"),
    "Diagnosed": ("warn", "bottleneck found"),
    "ChangeTried": ("accent", "change tried"),
    "WorkersPlanned": ("accent", "workers planned"),
    "ChangeKept": ("ok", "change kept"),
    "ChangeRolledBack": ("warn", "change rolled back"),
    "ChangeTakenBack": ("warn", "change taken back"),
    "ReallocationChanged": ("accent", "reallocation changed"),
    "NotebookPolicyChanged": ("accent", "rules of notebooks changed"),
    "Extended": ("accent", "extended"),
    "QuotaChanged": ("accent", "quota changed"),
    "QuotaRemoved": ("warn", "quota removed"),
    "BudgetChanged": ("accent", "budget changed"),
    "BudgetRemoved": ("warn", "budget removed"),
    "PolicyChanged": ("accent", "policy changed"),
    "PriorityClassChanged": ("accent", "priority changed"),
    "NodePoolChanged": ("accent", "pool changed"),
    "TeamCreated": ("ok", "team created"),
    "TeamMoved": ("accent", "team moved"),
    "TeamHandedOver": ("accent", "team handed over"),
    "NodeSeen": ("ok", "seen"),
    "NodeGone": ("bad", "gone"),
    "NodeChanged": ("dim", "changed"),
    "NodeNamedSlow": ("warn", "named as slow"),
    "Cordoned": ("warn", "cordoned"),
    "Uncordoned": ("ok", "uncordoned"),
    "Drained": ("warn", "drained"),
    "RemedyApplied": ("accent", "changed"),
}


def tone(phase: str) -> str:
    """The colour family of a phase: ok, warn, bad, accent or dim."""
    known = Phase(phase)
    if known in _TONE_OF_PHASE:
        return _TONE_OF_PHASE[known]
    return "warn" if known in WAITING | LEAVING | {Phase.PREEMPTED} else "accent"


def event_word(kind: str, reason: str = "") -> tuple[str, str]:
    """(tone, word) of an event: what happened, in the past or present tense."""
    if kind == "Evicted" and reason:
        known = {
            "Consolidated": ("warn", "moved"),
            "Reallocated": ("accent", "moves"),
            "TakenBack": ("warn", "gave GPUs back"),
        }
        return known.get(reason, ("bad", reason.lower()))
    return _TONE_OF_KIND.get(kind, ("dim", kind))


def actions(phase: str) -> tuple[str, ...]:
    """What a person can do with a workload in this phase."""
    known = Phase(phase)
    if known in ENDED or known == Phase.STOPPING:
        return ()
    if known in (Phase.HELD, Phase.SUSPENDED):
        return ("resume", "stop")
    if known in LEAVING or known == Phase.PREEMPTED:
        return ("stop",)
    if known == Phase.QUEUED:
        return ("suspend", "stop")
    return ("suspend", "requeue", "stop")


# --- sentences --------------------------------------------------------------------------------


def asks(values: Mapping[str, Any]) -> str:
    """What a workload asks for, from its columns: "4 × 2 A100, one rack"."""
    workers, models = int(values["workers"]), " or ".join(values["gpu_models"]) or "GPU"
    if values["share_guarantee"]:
        each = f"{gpus(values['share_guarantee'])} of a {models}"
    elif values["gpus"]:
        plural = "s" if models == "GPU" and values["gpus"] > 1 else ""
        each = f"{values['gpus']} {models}{plural}"
    else:
        each = f"{cores(values['cpu_milli'])} cores"
    sentence = each if workers == 1 else f"{workers} × {each}"
    for name, count, _ in values.get("roles", ()):
        sentence += f" + {count} {name}"
    level = values["topology_require"]
    if level is not None and Level(level) is not Level.CLUSTER and (workers > 1 or values.get("roles")):
        sentence += f", one {Level(level).name.lower() if level else 'NVLink domain'}"
    return sentence


def plural(number: int, word: str) -> str:
    """ "1 worker", "4 workers"."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def listed(names: Sequence[str], most: int = 3) -> str:
    """ "a, b and c", or "a, b, c and 5 more"."""
    names = list(names)
    if len(names) > most + 1:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def standing(
    phase: str,
    reason: str,
    message: str,
    workers: int,
    running: int,
    exit_code: int | None,
    utilisation: float | None = None,
) -> str:
    """What a workload is doing, as one sentence; the API's own one where there is one. utilisation: of its GPUs."""
    if message:
        return message
    known = Phase(phase)
    sentences = {
        Phase.QUEUED: "It waits for the next scheduling round.",
        Phase.RESERVED: "Its GPUs are reserved; it starts when the workloads that use them have left.",
        Phase.ADMITTED: f"It is placed; {plural(workers, 'worker')} will start next.",
        Phase.STARTING: f"{running}/{workers} running; the others pull their image and start.",
        Phase.RUNNING: _running(workers, running, utilisation),
        Phase.SCALING: f"{running}/{workers} running; the number of workers is changing.",
        Phase.DEGRADED: f"Only {running}/{workers} running.",
        Phase.CHECKPOINTING: "It saves a checkpoint and leaves; then it is queued again.",
        Phase.PREEMPTED: "It was preempted; it is queued again with its checkpoint.",
        Phase.SUSPENDING: "It saves a checkpoint and leaves its GPUs.",
        Phase.SUSPENDED: "It is suspended and has no GPUs; its checkpoint is kept. Resume queues it again.",
        Phase.HELD: "It is held outside the queue. Resume queues it again.",
        Phase.STOPPING: "Its workers are being stopped.",
        Phase.SUCCEEDED: "Finished with exit code 0.",
        Phase.FAILED: f"Failed with exit code {exit_code}." if exit_code is not None else "Failed.",
        Phase.STOPPED: "Stopped.",
    }
    return sentences.get(known, reason or phase)


def _running(workers: int, running: int, utilisation: float | None) -> str:
    if running > workers:  # an elastic gang that was lent some
        workers = running
    return f"{running}/{workers} running" + (f", {percent(utilisation)} GPU" if utilisation is not None else "")


def event_sentence(kind: str, reason: str, message: str, data: Mapping[str, Any]) -> str:
    """What an event says beside its label."""
    if message:
        price = price_of(kind, reason, data)
        return message if price is None else f"{message} {price.sentence}"
    placed = data.get("workers")
    if kind in ("Admitted", "Reserved", "Placed", "Scaling") and isinstance(placed, list) and placed:
        nodes = list(dict.fromkeys(str(worker[1]) for worker in placed if isinstance(worker, list) and len(worker) > 1))
        return f"{plural(len(placed), 'worker')} on {listed(nodes)}{_terms(data.get('terms'))}"
    return reason


def _terms(terms: Any) -> str:
    """What a place was decided by (scheduler/model/terms.py), as the end of a sentence."""
    if not isinstance(terms, Mapping) or "level" not in terms:
        return ""
    level = {"nvlink": "NVLink domain"}.get(str(terms["level"]), str(terms["level"]))
    return f", in one {level}; {plural(int(terms.get('idle_gpus_left', 0)), 'whole GPU')} stay idle there"


LABELS = {
    "stop": "Stop",
    "suspend": "Suspend",
    "resume": "Resume",
    "requeue": "Requeue",
    "priority": "Change priority",
}
DONE = {
    "stop": "Stopping",
    "suspend": "Suspending",
    "resume": "Queued again:",
    "requeue": "Requeueing",
    "priority": "Priority changed:",
}
PARTICIPLES = {"stop": "stopped", "suspend": "suspended", "resume": "resumed", "requeue": "requeued"}
UNDO = {"suspend": "resume", "resume": "suspend", "priority": "priority"}


def question(verb: str, names: Sequence[str]) -> str:
    """What is asked before something is done to these workloads: "Stop a, b and 3 more?"."""
    if not names:
        return f"{LABELS[verb]}: none of them"
    of = " of" if verb == "priority" else ""
    return f"{LABELS[verb]}{of} {listed(names)}?"


def effect(verb: str, *, is_active: bool, workers: int, unsaved: float | None) -> str:
    """What an action does to a workload, before it is confirmed. unsaved: seconds since the last checkpoint."""
    loss = ""
    if is_active and unsaved is not None:
        losers = f"{plural(workers, 'worker')} lose{'s' if workers == 1 else ''}"
        loss = f"{losers} at most {duration(unsaved)} of work, the time since the last checkpoint."
    elif is_active:
        loss = f"{plural(workers, 'worker')} end{'s' if workers == 1 else ''}; there is no checkpoint to resume from."
    return {
        "stop": f"It is stopped permanently. {loss}" if is_active else "It leaves the queue permanently.",
        "suspend": f"It leaves its GPUs until it is resumed. {loss}"
        if is_active
        else "It leaves the queue until it is resumed.",
        "requeue": f"This attempt ends and it is queued again. {loss}",
        "resume": "It is queued again, behind the workloads that have waited in the meantime.",
    }[verb].strip()
