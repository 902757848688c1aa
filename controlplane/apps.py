"""The one Django app."""

from django.apps import AppConfig


class ControlplaneConfig(AppConfig):
    """Stores jobs and quotas, runs the loops."""

    name = "controlplane"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Load the Celery app, so that `celery -A controlplane.celery` and `send_task` share one."""
        from controlplane import celery  # noqa: F401
