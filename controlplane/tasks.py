"""Celery: one task a loop, and the beat table. A message is a hint; the loops hold leases and read the database."""

from celery import current_app, shared_task

from controlplane.loops import account as account_loop
from controlplane.loops import actuate as actuate_loop
from controlplane.loops import following, wiring
from controlplane.loops import observe as observe_loop
from controlplane.loops import scale as scale_loop
from controlplane.loops import schedule as schedule_loop

SOFT_LIMIT = 8  # seconds; a lease lasts 10, so a round that takes too long ends itself before another may begin
PERIODS = {"observe": 5, "schedule": 10, "actuate": 5, "scale": 15, "account": 60}  # seconds; wake-ups come between


@shared_task(ignore_result=True, soft_time_limit=SOFT_LIMIT)
def observe() -> None:
    """Read what changed in the cluster."""
    following.follow(wiring.get())
    observe_loop.run_once(wiring.get())


@shared_task(ignore_result=True, soft_time_limit=SOFT_LIMIT)
def schedule() -> None:
    """Decide who runs where."""
    schedule_loop.run_once(wiring.get())


@shared_task(ignore_result=True, soft_time_limit=SOFT_LIMIT)
def actuate() -> None:
    """Have the cluster do what was decided."""
    actuate_loop.run_once(wiring.get())


@shared_task(ignore_result=True, soft_time_limit=SOFT_LIMIT)
def scale() -> None:
    """Decide how much each service should have."""
    scale_loop.run_once(wiring.get())


@shared_task(ignore_result=True, soft_time_limit=SOFT_LIMIT)
def account() -> None:
    """Add up what was used."""
    account_loop.run_once(wiring.get())


current_app.conf.beat_schedule = {
    name: {"task": f"controlplane.tasks.{name}", "schedule": period, "options": {"expires": period}}
    for name, period in PERIODS.items()
}
