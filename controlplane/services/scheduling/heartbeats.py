"""How the loops fare, kept in the database: any process can tell whether all of them make progress."""

from django.db.models.functions import Now

from controlplane.models import Heartbeat

MESSAGE_LENGTH = 400


def beat(*, loop: str, holder: str, took: float, error: str = "") -> None:
    """Note a round of a loop: complete without `error`, else `at` stays where the last complete one put it."""
    at = None if error else Now()
    told = Heartbeat(loop=loop, at=at, holder=holder, took_ms=round(took * 1000, 3), error=error[:MESSAGE_LENGTH])
    changed = ("holder", "took_ms", "error") if error else ("at", "holder", "took_ms", "error")
    Heartbeat.objects.bulk_create([told], update_conflicts=True, unique_fields=("loop",), update_fields=changed)
