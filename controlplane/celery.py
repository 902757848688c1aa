"""The Celery app. Its messages are hints: every loop also wakes by itself and reads the truth from the database."""

import os
from typing import Any

from celery import Celery, signals
from celery.beat import Scheduler
from kombu.common import Broadcast

from controlplane.runtime import liveness
from controlplane.runtime.wake import exchange

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

STOP_SECONDS = 8.0  # for the rounds in progress when a worker is told to end; supervisors kill after 10

app = Celery("weft")
app.config_from_object("django.conf:settings", namespace="CELERY")
# Every worker process gets every hint: only the holder of a loop's lease can use it, and no other process knows it.
app.conf.task_queues = (Broadcast("hints", exchange=exchange()),)
app.conf.task_default_queue = "hints"
app.autodiscover_tasks(["controlplane"])


class Beat(Scheduler):
    """Celery's scheduler, without a file of its own: after a restart each loop is hinted at once, which is harmless."""

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send what is due, and say that this process is alive."""
        seconds: float = super().tick(*args, **kwargs)
        liveness.touch("beat")
        return min(seconds, 5.0)


@signals.setup_logging.connect
def _keep_logging(**_: Any) -> None:
    """Leave the logs as the settings have them: Celery asks this before it sets up its own."""


@signals.worker_ready.connect
def _start_loops(**_: Any) -> None:
    from controlplane.runtime import worker

    worker.start()


@signals.worker_shutting_down.connect
def _stop_loops(**_: Any) -> None:
    from controlplane.runtime import worker

    worker.stop()


@signals.worker_shutdown.connect
def _join_loops(**_: Any) -> None:
    from controlplane.runtime import worker

    worker.join(STOP_SECONDS)
