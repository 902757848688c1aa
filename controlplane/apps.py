"""The one Django app."""

from typing import TYPE_CHECKING, Any

from django.apps import AppConfig

if TYPE_CHECKING:
    from controlplane.cluster.port import LogLine


class ControlplaneConfig(AppConfig):
    """Stores jobs and quotas, runs the loops."""

    name = "controlplane"
    verbose_name = "Weft"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Load the Celery app, which the embedded mode does not need, before the first hint; connect the logs."""
        from django.conf import settings

        from controlplane.runtime import logs
        from controlplane.security import checks  # noqa: F401

        if settings.REDIS_URL or not settings.EMBEDDED:
            from controlplane import celery  # noqa: F401
        logs.connect(_read_logs)


def _read_logs(*asked: Any) -> "tuple[LogLine, ...]":
    """Read from the cluster of this process, which is built on first use."""
    from controlplane.loops import wiring

    return wiring.get().cluster.logs(*asked)
