"""What Weft changed of a training and still holds, or is about to change: told where it is said why it is as it is.

So a training that runs with fewer workers than it asked for, or that leaves for other places, says so itself: what,
since when, why, and how to undo it. docs/explanations.md.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from autoscaler.reallocate.candidates import Axis
from controlplane.domain.coursestate import MOVES
from controlplane.jobspec.quantities import iso
from controlplane.models import Event, Experiment, ExperimentStatus, Workload
from controlplane.queries.workloads import experiments
from scheduler.model.mention import counted
from scheduler.model.workload import ACTIVE, ENDED, WAITING, Kind, Phase

ASKS = ("ChangeTried", "ChangeRolledBack", "ChangeTakenBack")  # events with which one asks for other places
PLANNED = "planned"  # not tried and judged, but divided among its team's trainings
SEE = "`weft diagnose` shows what is measured"


def of(workload: Workload) -> list[dict[str, Any]]:
    """Each {axis, status, since, message, undo}; at most four. A query or two; none where there can be nothing."""
    if workload.kind != Kind.TRAINING.value or Phase(workload.phase) in ENDED:
        return []
    rows = experiments.of(workload)
    return [*_cap(workload, rows), *_plan(workload), *_move(workload, rows), *_trial(workload, rows)]


def _cap(workload: Workload, rows: Sequence[Experiment]) -> Iterator[dict[str, Any]]:
    """With fewer workers than it may have."""
    cap, most = workload.workers_cap, max(workload.workers, workload.workers_max)
    if cap is None:
        return
    found = (one for one in rows if one.axis == Axis.WORKERS and one.status in experiments.IN_PLACE)
    row = next((one for one in found if one.after["workers"] == cap), None)
    has = "Once it starts it has" if Phase(workload.phase) in WAITING else "It has"
    said = f"{has} at most {counted(cap, 'worker')} of the {most} that it may have"
    newest = next((one for one in rows if one.status in experiments.IN_PLACE), None)
    undo = "Another number of workers that a person gives it undoes that"
    if row is not None and row is newest:
        undo = f"`weft rollback {workload.name}` lets it have more again, and so does a person's change of its workers"
    yield _told(row, Axis.WORKERS, said, f"{undo}.")


def _plan(workload: Workload) -> Iterator[dict[str, Any]]:
    """With fewer workers than it may have, as others of its team gain more from the GPUs."""
    planned, most = workload.workers_planned, max(workload.workers, workload.workers_max)
    if planned is None or Phase(workload.phase) not in ACTIVE:
        return
    newest = Event.objects.filter(workload=workload.pk, kind="WorkersPlanned").order_by("-id").first()
    said = f"It has at most {counted(planned, 'worker')} of the {most} that it may have"
    undo = (
        "Its own `workers.min` is never undercut; with `reallocation` set to `recommend` its team has no plan, "
        "and it grows again."
    )
    yield {
        "axis": str(Axis.WORKERS),
        "status": PLANNED,
        "since": None if newest is None else iso(newest.cluster_at),
        "message": f"{said}{'' if newest is None else ': ' + newest.message.rstrip('.')}.",
        "undo": undo,
    }


def _move(workload: Workload, rows: Sequence[Experiment]) -> Iterator[dict[str, Any]]:
    """On its way to other places, or back from them. The event that asked for it says since when and why."""
    if not workload.goes_to:
        return
    row = next((one for one in rows if one.axis in MOVES), None)
    asked = Event.objects.filter(workload=workload.pk, kind__in=ASKS).order_by("-id").first()
    nodes = counted(len(workload.goes_to), "node")
    if workload.role_counts:
        nodes = f"{nodes} with {counted(sum(workload.role_counts), 'parameter server')}"
    if workload.batch_wanted:
        nodes = f"{nodes} with {counted(workload.batch_wanted, 'example')} in a step"
    said = f"It is to run on {nodes}, {_shape(workload.goes_to)}"
    undo = f"`weft rollback {workload.name}` has it stay where it is."
    if row is not None and row.status not in experiments.IN_PLACE:
        undo = "It goes back to what it had; if no such places become free within some minutes it stays."
    if workload.moving:
        said = f"It leaves for {nodes}, {_shape(workload.goes_to)}, where a place is kept"
        undo = f"Once it runs there, `weft rollback {workload.name}` has it moved back."
    told = _told(row, Axis.PLACE if row is None else row.axis, said, undo)
    if asked is not None:
        told |= {"since": iso(asked.cluster_at), "message": f"{said}: {asked.message or asked.kind}".rstrip(".") + "."}
    yield told


def _shape(workers: Sequence[int]) -> str:
    """`with 2 workers on each`, or how many on each node."""
    if len(set(workers)) == 1:
        return f"with {counted(workers[0], 'worker')} on {'it' if len(workers) == 1 else 'each'}"
    return f"with {', '.join(map(str, workers))} workers on them"


def _trial(workload: Workload, rows: Sequence[Experiment]) -> Iterator[dict[str, Any]]:
    """What is on trial and was not told yet: CPU in place, servers, or places where it runs already."""
    row = next((one for one in rows if one.status == ExperimentStatus.ON_TRIAL), None)
    if row is None or (row.axis == Axis.WORKERS and workload.workers_cap is not None):
        return
    if row.axis in MOVES and workload.goes_to:
        return
    said = "It was moved, and is measured there" if row.axis in MOVES else "A change of it is on trial"
    if row.axis == Axis.BATCH:
        said = f"It runs with {counted(workload.batch or 0, 'example')} in a step, on trial"
    yield _told(row, row.axis, said, f"`weft rollback {workload.name}` brings back what it had; {SEE}.")


def _told(row: Experiment | None, axis: str, said: str, undo: str) -> dict[str, Any]:
    """Of the change that a row tells of; None: of one whose row is gone."""
    since = None if row is None else iso(row.begun_at)
    status = ExperimentStatus.KEPT.value if row is None else row.status
    why = "" if row is None else f": {row.message}{_measured(row)}"
    return {"axis": str(axis), "status": status, "since": since, "message": f"{said}{why}.", "undo": undo}


def _measured(row: Experiment) -> str:
    gain = experiments.part(row.gain)
    return "" if gain is None else f"; measured {100 * gain:+.0f} % over {counted(row.windows, 'window')}"
