"""What-ifs as rows for pages and REST."""

from collections.abc import Sequence
from typing import Any

from django.db.models.functions import Now

from controlplane.models import Simulation, SimulationState
from controlplane.models.simulation import NO_WORD, SILENT


def every() -> Any:
    """All of them; order them by -pk for the newest first."""
    return Simulation.objects.defer("result").annotate(now=Now())


def rows(found: Sequence[Any]) -> list[dict[str, Any]]:
    """What each asked and how far it is, without its answer."""
    return [_row(one) for one in found]


def row(number: int) -> dict[str, Any] | None:
    """One of them; None if there is none."""
    found = every().filter(pk=number).first()
    return None if found is None else _row(found)


def result(number: int) -> dict[str, Any] | None:
    """Its answer; None while there is none."""
    found: dict[str, Any] | None = Simulation.objects.filter(pk=number).values_list("result", flat=True).first()
    return found


def _row(one: Any) -> dict[str, Any]:
    is_dead = one.state == SimulationState.RUNNING and one.now - one.seen_at > SILENT
    return {
        "id": one.pk,
        "asked": one.asked,
        "author": one.author,
        "at": one.at.isoformat().replace("+00:00", "Z"),
        "state": str(SimulationState.FAILED if is_dead else one.state),
        "progress": round(one.progress, 4),
        "doing": one.doing,
        "error": NO_WORD if is_dead else one.error,
    }
