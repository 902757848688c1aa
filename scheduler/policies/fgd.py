"""`fgd`: first come, first served with skipping, each single worker where it fragments the least.

The placement is fragmentation gradient descent (Weng et al., ATC'23), in scheduler/placement/fgd.py: the node whose
expected unusable GPUs, under the demand seen of late, grow the least. Until demand is known, places are best fit.
Gangs are placed as by weft.
"""

from collections.abc import Iterator
from dataclasses import replace

from scheduler.fit.capacity import Refusal
from scheduler.model.settings import Placement
from scheduler.model.workload import Workload
from scheduler.policies.fifo import best_fit
from scheduler.state.session import Session


def fgd(session: Session) -> Iterator[tuple[Workload, Refusal | None]]:
    """Place in order what fits, each where it fragments the least."""
    by_fgd = replace(session.settings, placement=Placement.FGD)
    session.chooser = session.memo.choosers.of(session.snapshot, by_fgd)
    return best_fit(session)
