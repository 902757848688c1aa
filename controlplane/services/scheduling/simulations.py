"""What-ifs in the background: one at a time, in a process of its own, bounded in time.

A process and not a thread: replaying keeps a core busy for a while, and pages and loops must not wait for it. It has a
low priority, tells its progress in its row and ends by itself when the row is gone.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db import transaction

from controlplane.models import Simulation, SimulationState
from controlplane.models.simulation import NO_WORD, SILENT
from controlplane.services.errors import Refused
from controlplane.services.scheduling import policy as policies
from controlplane.services.scheduling.clock import database_now

KEEP = 50  # older ones are forgotten
LIMIT_SECONDS = 600.0  # of one what-if
NICENESS = 10  # of its process: pages and loops go first


class StoppedError(Exception):
    """The what-if was deleted: its answer is not needed any more."""


def start(*, asked: Mapping[str, Any], author: str) -> Simulation:
    """Begin a what-if whose request was read; Refused 409 while another is running."""
    with transaction.atomic():
        _bury_the_dead()
        running = Simulation.objects.filter(state=SimulationState.RUNNING).first()
        if running is not None:
            message = f"What-if {running.pk} of {running.author} is running. Wait for its end, or delete it."
            raise Refused(409, "Busy", "", message)
        now = database_now()
        row = Simulation.objects.create(asked=dict(asked), author=author, at=now, seen_at=now, doing="Starting")
        kept = Simulation.objects.order_by("-pk").values_list("pk", flat=True)[:KEEP]
        Simulation.objects.exclude(pk__in=list(kept)).delete()
    if settings.WHAT_IF_PROCESS:
        transaction.on_commit(lambda: _spawn(row.pk))
    return row


def tell(*, number: int, part: float, doing: str) -> None:
    """Note how far it is. Raises StoppedError if the what-if was deleted."""
    changed = Simulation.objects.filter(pk=number, state=SimulationState.RUNNING).update(
        progress=min(1.0, part), doing=doing, seen_at=database_now()
    )
    if not changed:
        raise StoppedError(f"what-if {number} is not wanted any more")


def finish(*, number: int, result: Mapping[str, Any]) -> None:
    """Keep the answer."""
    _end(number, state=SimulationState.DONE, result=dict(result), progress=1.0, doing="")


def fail(*, number: int, error: str) -> None:
    """Keep why there is no answer."""
    _end(number, state=SimulationState.FAILED, error=error[:400], doing="")


def remove(*, number: int) -> bool:
    """Delete a what-if, and stop it if it is running; whether there was one."""
    return bool(Simulation.objects.filter(pk=number).delete()[0])


def _end(number: int, **columns: Any) -> None:
    Simulation.objects.filter(pk=number, state=SimulationState.RUNNING).update(seen_at=database_now(), **columns)


def _bury_the_dead() -> None:
    silent = Simulation.objects.filter(state=SimulationState.RUNNING, seen_at__lt=database_now() - SILENT)
    silent.update(state=SimulationState.FAILED, error=NO_WORD, doing="")


def _spawn(number: int) -> None:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "controlplane.settings"}
    subprocess.Popen(  # noqa: S603 - our own command with a number
        [sys.executable, "-m", "django", "simulation", str(number), "--niceness", str(NICENESS)],
        cwd=settings.BASE_DIR,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def apply(*, number: int, author: str, seen: int = policies.ANY) -> int:
    """Put the settings that a what-if tried in force, the others as they are; tell the new version of the policy.

    Quotas and nodes that it tried are left alone. `seen` as in policy.save. Refused 404 if there is no such what-if,
    409 if it has not ended well, 422 if it tried no other settings.
    """
    row = Simulation.objects.filter(pk=number).values_list("asked", "state").first()
    if row is None:
        raise Refused(404, "NoSuchSimulation", "", f"There is no what-if {number}. The list names those there are.")
    asked, state = row
    if state != SimulationState.DONE:
        raise Refused(409, "NotDone", "", f"What-if {number} has not come to its end. Apply one that has.")
    changes = asked.get("policy") or {}
    if not any(changes.values()):
        message = f"What-if {number} tried no other settings. Quotas and nodes are changed on their own pages."
        raise Refused(422, "NothingChanged", "", message)
    return policies.change(changes=changes, author=author, comment=f"As tried in what-if {number}", seen=seen)
