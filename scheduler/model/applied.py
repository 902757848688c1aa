"""What a decision means for the workload that it is about: the one rule, for snapshots and for the life cycle.

A snapshot puts it on a frozen `Workload` (`snapshot.applied`), so that rounds can go on from what they decided. The
life cycle puts it on what is stored of it and on its places (controlplane/lifecycle/decisions.py), with events and
commands.
"""

from collections.abc import Sequence
from typing import Any, Protocol, assert_never

from scheduler.model.decision import Decision, Evict, EvictReason, Offload, Place, Shrink, Wait
from scheduler.model.workload import ACTIVE, Phase


class Decided(Protocol):
    """What has to be known of a workload to say what a decision makes of it."""

    @property
    def phase(self) -> Phase:
        """Where it is in its life."""

    @property
    def attempt(self) -> int:
        """The number of its attempt."""

    @property
    def next_rank(self) -> int:
        """What a further worker of this attempt gets."""

    @property
    def after(self) -> Sequence[str]:
        """Those that have to leave before it gets its places."""

    @property
    def preempted_at(self) -> Sequence[float]:
        """When it was made to leave, oldest first."""

    @property
    def preempted_by(self) -> Sequence[str]:
        """For which workloads, in the same order."""


def becomes(workload: Decided, decision: Decision, at: float) -> dict[str, Any]:
    """The fields of a workload that a decision sets, by their names in `Workload`; its places and version aside."""
    match decision:
        case Place():
            return _placed(workload, decision, at)
        case Evict():
            return _evicted(workload, decision, at)
        case Shrink():
            return {"scaled_at": at}
        case Offload():
            return {}
        case Wait(reason=reason, message=message):
            # An explanation is not a change of the workload: the version stays, so that it fences off no other change.
            return {"reason": str(reason), "message": message, "reason_at": at}
        case _:
            assert_never(decision)


def leaves(decision: Evict | Shrink, rank: int) -> bool:
    """Whether a decision makes this worker leave."""
    return isinstance(decision, Evict) or rank in decision.ranks


def _placed(workload: Decided, decision: Place, at: float) -> dict[str, Any]:
    # A service that grows may run some workers and wait for the places of others: each says so itself.
    is_fresh = workload.phase not in ACTIVE
    first = Phase.RESERVED if decision.after else Phase.ADMITTED
    return {
        "phase": first if is_fresh else Phase.SCALING,
        "attempt": workload.attempt + is_fresh,
        "next_rank": max(0 if is_fresh else workload.next_rank, *(worker.rank + 1 for worker in decision.workers)),
        "after": decision.after if is_fresh else (*workload.after, *decision.after),
        "reason": "",
        "message": "",
        "scaled_at": None if is_fresh else at,
        "finishing": False,
        "moving": False,
        "goes_to": (),
        "off": (),
        "role_counts": (),
        "batch_wanted": None,
    }


def _evicted(workload: Decided, decision: Evict, at: float) -> dict[str, Any]:
    if workload.phase == Phase.RESERVED:  # nothing runs yet: the reservation is simply given up
        return {"phase": Phase.QUEUED, "after": ()}
    if decision.reason is EvictReason.REALLOCATED:  # by its own wish: no preemption
        return {"phase": Phase.CHECKPOINTING, "scaled_at": at, "moving": True}
    # What takes its own GPUs back is no preemptor: the two may push each other out (docs/promises.md, S10).
    by = "" if decision.reason is EvictReason.TAKEN_BACK else decision.by
    return {
        "phase": Phase.CHECKPOINTING,
        "preempted_at": (*workload.preempted_at, at),
        "preempted_by": (*workload.preempted_by, by),
        "moving": decision.reason is EvictReason.CONSOLIDATED,
        "goes_to": (),
        "off": (),
        "role_counts": (),
        "batch_wanted": None,
    }
