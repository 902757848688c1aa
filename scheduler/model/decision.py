"""What a scheduling round can decide. Decisions are values; services and the simulator interpret them."""

from dataclasses import dataclass
from enum import StrEnum

from scheduler.model.workload import Assignment, Weights


class Reason(StrEnum):
    """Why a workload waits: the first of these that holds is given (docs/explanations.md#reasons)."""

    MISCONFIGURED = "Misconfigured"
    SUSPENDED = "Suspended"
    ADMISSION_GATED = "AdmissionGated"
    BACKOFF_AFTER_FAILURE = "BackoffAfterFailure"
    BUDGET_EXHAUSTED = "BudgetExhausted"
    NO_MATCHING_FLAVOR = "NoMatchingFlavor"
    GPU_MEMORY_DOES_NOT_FIT = "GpuMemoryDoesNotFit"
    WAITING_FOR_NODES = "WaitingForNodes"
    EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
    BEHIND_HIGHER_PRIORITY = "BehindHigherPriority"
    WAITING_FOR_PREEMPTED_WORKLOADS = "WaitingForPreemptedWorkloads"
    NON_PREEMPTIBLE_OVER_QUOTA = "NonPreemptibleOverQuota"
    WAITING_FOR_QUOTA = "WaitingForQuota"
    FAIR_SHARE_EXCEEDED = "FairShareExceeded"
    OVER_LIMIT = "OverLimit"
    RESERVED_FOR_LARGER_JOB = "ReservedForLargerJob"
    TOPOLOGY_PLACEMENT_FAILED = "TopologyPlacementFailed"
    GANG_INCOMPLETE = "GangIncomplete"
    FRAGMENTED = "Fragmented"
    WAITING_FOR_CAPACITY = "WaitingForCapacity"
    WAITING_FOR_PODS_READY = "WaitingForPodsReady"
    PENDING_EVALUATION = "PendingEvaluation"


REASONS = frozenset(reason.value for reason in Reason)  # what rows tell of them


class Whose(StrEnum):
    """Whose GPUs they are that workers give."""

    LENT = "lent"  # of a sleeping replica, or beside a share: the lender's own
    SURPLUS = "surplus"  # beyond what the gang asked for: they go to any claimant
    TEAM = "team"  # of the quota of the team that both are of
    OWNED = "owned"  # nominal GPUs of the claimant's team, which the gang's team borrowed
    FAIR_SHARE = "fair share"  # what both teams borrow, above the entitlement of the gang's


class EvictReason(StrEnum):
    """Why a running workload has to leave."""

    PREEMPTED = "Preempted"  # by a higher priority of its own team, or one that it overtook long ago
    RECLAIMED = "Reclaimed"  # by a team that takes its nominal GPUs back
    CONSOLIDATED = "Consolidated"  # moved: a place elsewhere is kept for it, so that room comes in one piece
    REALLOCATED = "Reallocated"  # moved by its own wish: it is expected to run faster at the places kept for it
    FAIR_SHARE = "FairShare"  # by a team further below its entitlement: both borrow
    TAKEN_BACK = "TakenBack"  # by a service whose sleeping replicas' GPUs it cannot do without; "" if that one left


@dataclass(frozen=True, slots=True)
class Place:
    """Give workers their places at once; with `after`, as soon as those workloads have left."""

    workload: str
    version: int  # the row version this decision saw
    workers: tuple[Assignment, ...]
    after: tuple[str, ...] = ()
    terms: tuple[tuple[str, int | str], ...] = ()  # scheduler/model/terms.py


@dataclass(frozen=True, slots=True)
class Evict:
    """Stop a workload with its grace and queue it again. `by` is the workload that gets the room.

    `keeps`: the places that this round keeps for one that is only moved; every round keeps them anew.
    """

    workload: str
    version: int
    reason: EvictReason
    by: str
    message: str = ""
    terms: tuple[tuple[str, int | str], ...] = ()  # scheduler/model/terms.py
    keeps: tuple[Assignment, ...] = ()


@dataclass(frozen=True, slots=True)
class Shrink:
    """Stop these ranks and keep the rest: a service scaled in, or an elastic gang that makes room.

    `by` is the workload that gets the room, empty for a service and for workers whose lender has left.
    """

    workload: str
    version: int
    ranks: tuple[int, ...]
    message: str = ""
    by: str = ""
    terms: tuple[tuple[str, int | str], ...] = ()  # scheduler/model/terms.py


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a workload was not given what it wants; decided only when that changes."""

    workload: str
    version: int
    reason: Reason
    message: str
    numbers: tuple[tuple[str, int | str], ...] = ()


@dataclass(frozen=True, slots=True)
class Offload:
    """Move the weights of a service's replicas on standby: `to` is TO_HOST, or TO_DEVICE for back again.

    `by` is the gang that needs the memory of their devices; empty when they come back.
    """

    workload: str
    version: int
    ranks: tuple[int, ...]
    to: Weights
    by: str = ""
    message: str = ""


Decision = Place | Evict | Shrink | Wait | Offload
