"""Celery: one task a loop, and the beat table.

A message is a hint and carries nothing: it wakes the loop's thread in each worker process, and that one reads what
there is to do from the database (loops/threads.py). So losing or doubling messages is harmless, tasks take
microseconds, and beat only repeats what the threads' own periods would do.
"""

from typing import Any

from celery import current_app, shared_task
from celery.utils.nodenames import anon_nodename

from controlplane.loops import intake, predict_starts, publish
from controlplane.loops.threads import PERIODS, of_settings
from controlplane.runtime import wake


def _hint(task: Any, loop: str) -> None:
    if task.request.origin != anon_nodename():  # what this process sent has rung here already
        wake.bells[loop].set()


@shared_task(bind=True, ignore_result=True)
def observe(self: Any) -> None:
    """Read what changed in the cluster."""
    _hint(self, "observe")


@shared_task(bind=True, ignore_result=True)
def schedule(self: Any) -> None:
    """Decide what runs where."""
    _hint(self, "schedule")


@shared_task(bind=True, ignore_result=True)
def actuate(self: Any) -> None:
    """Have the cluster do what was decided."""
    _hint(self, "actuate")


@shared_task(bind=True, ignore_result=True, name=f"{__name__}.{publish.LOOP}")
def publish_queue(self: Any) -> None:
    """Show in the cluster what waits and why."""
    _hint(self, publish.LOOP)


@shared_task(bind=True, ignore_result=True)
def scale(self: Any) -> None:
    """Decide how much each service should have."""
    _hint(self, "scale")


@shared_task(bind=True, ignore_result=True)
def account(self: Any) -> None:
    """Add up what was used."""
    _hint(self, "account")


@shared_task(bind=True, ignore_result=True)
def audit(self: Any) -> None:
    """Check the invariants."""
    _hint(self, "audit")


@shared_task(bind=True, ignore_result=True, name=f"{__name__}.{predict_starts.LOOP}")
def predict(self: Any) -> None:
    """Predict when waiting workloads start."""
    _hint(self, predict_starts.LOOP)


@shared_task(bind=True, ignore_result=True)
def notify(self: Any) -> None:
    """Tell people what happened."""
    _hint(self, "notify")


@shared_task(bind=True, ignore_result=True)
def prune(self: Any) -> None:
    """Delete what is older than its retention."""
    _hint(self, "prune")


@shared_task(bind=True, ignore_result=True)
def adopt(self: Any) -> None:
    """Look at Kubernetes' own objects."""
    _hint(self, "adopt")


current_app.conf.beat_schedule = {
    name: {
        "task": f"controlplane.tasks.{name}",
        "schedule": period,
        "options": {"expires": period, "declare": [wake.exchange()]},
    }
    for name, period in PERIODS.items()
    if name in of_settings()
}


@shared_task(bind=True, ignore_result=True, name=f"{__name__}.{intake.LOOP}")
def follow_objects(self: Any) -> None:
    """Follow the custom resources of the cluster."""
    _hint(self, intake.LOOP)
