"""What an action would do to a workload, or why it is not possible, before a user confirms it."""

from typing import TYPE_CHECKING

from frontend import words
from scheduler.model.workload import ACTIVE, ENDED, Kind, Phase

if TYPE_CHECKING:
    from controlplane.models import Workload

OFTEN = ("priority",)  # possible in every phase but the last ones


def effect(w: "Workload", verb: str, now: float) -> str:
    """What it does, with what would be lost. `now` is the cluster's clock."""
    if verb == "priority":
        return f"Its priority class is {w.priority_class.name} now."
    saved = w.checkpointed_at or w.started_at
    unsaved = now - saved if saved is not None and w.kind == Kind.TRAINING.value and w.checkpoint_interval else None
    return words.effect(verb, is_active=Phase(w.phase) in ACTIVE, workers=w.workers, unsaved=unsaved)


def obstacle(w: "Workload", verb: str) -> str:
    """Why it cannot be done in this phase; empty if it can."""
    if Phase(w.phase) in ENDED:
        return f"It has ended: it is {w.phase}."
    if verb in OFTEN or verb in words.actions(w.phase):
        return ""
    return f"It is {w.phase}; it cannot be {words.PARTICIPLES[verb]}."
