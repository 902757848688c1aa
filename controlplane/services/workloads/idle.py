"""Notebooks that nobody uses: after `idle.park_after` without any measured use they are suspended.

Use is what their pods' devices and CPUs do. What is not measured is taken to be in use, for as long as it is not
known: a notebook is parked only after a whole period in which each measurement said that it was idle. A quiet CPU says
nothing of whole GPUs, so of a notebook that has some these must be measured.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from controlplane.cluster.port import PodUse
from controlplane.lifecycle import notebooks
from controlplane.models import Team, Workload, bulk
from controlplane.services.audit import events
from controlplane.services.errors import Refused
from controlplane.services.intake.ownership import CULLED, Hand
from controlplane.services.scheduling.leases import HeldLease
from controlplane.services.workloads.workloads import suspend
from scheduler.model.workload import Kind, Phase

ACTOR = "loop:account"
REASON = CULLED
BUSY_CPU_MILLI = 50  # 1/20 of a core: an open page costs a notebook's server a tenth of that, any cell far more
BUSY_DUTY = 0.01  # part of the time in which a device ran anything

_RUNNING = {"phase": Phase.RUNNING, "kind": Kind.NOTEBOOK}


@dataclass(frozen=True, slots=True)
class Watched:
    """A running notebook that may be parked; seconds of the cluster's clock. idle_since: of this attempt."""

    uid: UUID
    attempt: int
    has_devices: bool  # of its own: no other workload is on them
    park_after: float
    rule: str  # what says so
    idle_since: float | None


def watched() -> tuple[Watched, ...]:
    """The running notebooks with an `idle.park_after`, and those whose teams have a limit."""
    columns = ("uid", "attempt", "started_at", "idle_since", "spec", "gpus", "share_guarantee", "team_id")
    running = bulk.select(Workload, columns, _RUNNING, order=("seq",))
    limits = (
        dict(Team.objects.exclude(notebook_park_minutes=0).values_list("pk", "notebook_park_minutes"))
        if running
        else {}
    )
    found = []
    for uid, attempt, started, since, spec, gpus, share, team in running:
        park_after = notebooks.park_after(spec, limits.get(team, 0))
        if park_after:
            is_of_now = since is not None and since >= (started or 0.0)
            has_devices = gpus > 0 and share == 0
            asked = notebooks.park_after(spec, 0)
            rule = "idle.park_after" if asked == park_after else "its team's limit"
            found.append(Watched(uid, attempt, has_devices, park_after, rule, since if is_of_now else None))
    return tuple(found)


def park(*, at: float, notebooks: Iterable[Watched], uses: Iterable[PodUse], lease: HeldLease) -> int:
    """Note which notebooks are idle, and suspend those that were for long enough; tells how many."""
    of: dict[tuple[str, int], list[PodUse]] = {}
    for use in uses:
        of.setdefault((use.workload, use.attempt), []).append(use)
    changed: list[tuple[float | None, UUID]] = []
    due: list[tuple[Watched, float, float]] = []
    for notebook in notebooks:
        its = of.get((str(notebook.uid), notebook.attempt), [])
        is_idle = bool(its) and all(_is_idle(use, notebook.has_devices) for use in its)
        since = None if not is_idle else at if notebook.idle_since is None else notebook.idle_since
        if since != notebook.idle_since:
            changed.append((since, notebook.uid))
        if since is not None and at - since >= notebook.park_after:
            due.append((notebook, since, at - since))
    if changed:
        with transaction.atomic():
            lease.check()
            bulk.update(Workload, ("idle_since",), ("uid",), changed, in_order=True)
    return sum(_park(notebook, since, seconds, lease) for notebook, since, seconds in due)


def note_use(notebook: UUID) -> None:
    """Somebody works in it, or its kernel does: the countdown to parking begins anew, and no event tells of it."""
    Workload.objects.filter(pk=notebook, **_RUNNING).exclude(idle_since=None).update(idle_since=None)


@transaction.atomic
def extend(*, workload: Workload, actor: str) -> None:
    """Begin the countdown to parking anew, as if the notebook had just been used; doing it twice does it once.

    Raises Refused 409 for what does not run, 422 for what is never parked, 403 where its team allows it to nobody.
    """
    park_after = notebooks.park_after(workload.spec, workload.team.notebook_park_minutes)
    if workload.kind != Kind.NOTEBOOK.value or not park_after:
        message = f"{workload.name} is never parked, so there is nothing to extend."
        raise Refused(422, "NeverParked", "idle.park_after", message)
    if not workload.team.notebook_extend:
        message = (
            f"Team {workload.team} has its notebooks parked when they are idle, and does not let them be extended."
        )
        raise Refused(403, "NotAllowed", "", message)
    running = Workload.objects.filter(pk=workload.pk, phase=Phase.RUNNING.value)
    if running.exclude(idle_since=None).update(idle_since=None):
        events.record(
            kind="Extended",
            actor=actor,
            team=workload.team.name,
            workload=workload.pk,
            name=workload.name,
            phase=Phase.RUNNING.value,
            message=f"Stays for another {park_after / 60:.0f} minutes without use.",
        )
    elif not running.exists():
        raise Refused(409, "WrongPhase", "phase", f"{workload.name} does not run; it cannot be extended. Resume it.")


@transaction.atomic
def _park(notebook: Watched, since: float, seconds: float, lease: HeldLease) -> bool:
    lease.check()
    message = f"It was not used for {seconds / 60:.0f} minutes ({notebook.rule}). Resume it to start it again."
    still = Workload.objects.filter(pk=notebook.uid, phase=Phase.RUNNING.value, attempt=notebook.attempt)
    workload = still.filter(idle_since=since).first()
    if workload is None:  # somebody has extended it meanwhile
        return False
    try:
        suspend(workload=workload, actor=ACTOR, reason=REASON, message=message, hand=Hand.LOOP)
    except Refused:  # it ended or left meanwhile
        return False
    return True


def _is_idle(use: PodUse, has_devices: bool) -> bool:
    if use.duty is None and (has_devices or use.cpu_milli is None):
        return False
    is_computing = use.duty is not None and use.duty >= BUSY_DUTY
    is_working = use.cpu_milli is not None and use.cpu_milli >= BUSY_CPU_MILLI
    return not is_computing and not is_working
