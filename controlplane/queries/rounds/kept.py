"""What the newest full round left: how the queue stands, as of when, and what is held (models.RoundView)."""

from dataclasses import dataclass

from django.conf import settings

from controlplane.domain.deciders import decider_of
from controlplane.domain.phases import LIVE
from controlplane.domain.roundview import OtherLayoutError, held_of, lineup_of
from controlplane.models import RoundView, Workload, bulk
from controlplane.models.lookups import Where
from controlplane.queries.scheduling.snapshot import observed_at
from scheduler.explain.roundview import Lineup
from scheduler.model.cell import CellView
from scheduler.model.snapshot import Columns
from scheduler.quota.tree import Held

_HEAD = ("cluster_at", "every", "lineup")


@dataclass(frozen=True, slots=True)
class Kept:
    """How a full round left the queue. at: the cluster's clock."""

    at: float
    every: float
    lineup: Lineup

    @property
    def next_in(self) -> float:
        """Seconds of the cluster's clock until the next full round is due; 0: it is due now."""
        due = (self.at // self.every + 1) * self.every if self.every > 0 else self.at
        return max(0.0, due - observed_at())


def is_large() -> bool:
    """Whether a round of one's own for each question costs too much, so that the newest full round is asked.

    Below that a question is a dry run on a snapshot of now, which takes a tenth of a second. Of several cells all
    count, as some questions are about each of them.
    """
    ((live,),) = bulk.count(Workload, (), {"phase__in": LIVE})
    return bool(live > settings.DRY_RUN_MOST)


def newest(view: CellView | None = None) -> Kept | None:
    """How the newest full round left the queue; None before the first, and until an older version's is replaced.

    view: of the decider of this cell.
    """
    for at, every, packed in bulk.select(RoundView, _HEAD, _of(view)):
        try:
            return Kept(at, every, lineup_of(bytes(packed)))
        except OtherLayoutError:
            return None
    return None


def held(view: CellView | None = None) -> tuple[tuple[str, ...], Held, Columns] | None:
    """The nodes, what teams hold and what is taken of nodes, as that round left it; None as above."""
    for (packed,) in bulk.select(RoundView, ("held",), _of(view)):
        try:
            return held_of(bytes(packed))
        except OtherLayoutError:
            return None
    return None


def _of(view: CellView | None) -> Where:
    return {"name": decider_of("" if view is None else view.cell)}
