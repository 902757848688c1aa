"""Rows -> what the invariants look at: the self-audit of a live database (`manage.py audit`, and the loop `audit`)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db.models import Min, QuerySet, Sum

from controlplane.cluster.port import PodSeen
from controlplane.domain.cycle import digest_of, is_of_this_form
from controlplane.domain.policy import Policy
from controlplane.invariants.check import ALWAYS, INVARIANTS, check_these
from controlplane.invariants.state import (
    GONE,
    Account,
    Claim,
    Interval,
    Round,
    Schedule,
    State,
    Transition,
    Violation,
    Write,
)
from controlplane.models import Cycle, Event, Placement, PlacementState, PolicyVersion, Pruned, Usage
from controlplane.models import Workload as WorkloadRow
from controlplane.queries.scheduling import snapshot as snapshots
from controlplane.queries.scheduling.atrest import LiveRows, live_rows
from controlplane.queries.scheduling.cycles import replayable, snapshot_of
from controlplane.queries.scheduling.moment import one_moment
from scheduler.model.decision import Decision, Evict, EvictReason, Offload, Place, Reason, Shrink, Wait
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import ENDED, Assignment, Phase, Weights
from scheduler.policies import WEFT
from scheduler.policies import decide as by_policy

# A promised place is bound by the observe loop's look for timeouts at the latest: two of its periods, cluster clock.
ADMISSION_SECONDS = 60.0
_RELEASED = PlacementState.RELEASED.value


def violations(
    *,
    last_rounds: int = 20,
    pods: Sequence[PodSeen] | None = None,
    before: LiveRows | None = None,
    max_ms: float | None = None,
) -> tuple[Violation, ...]:
    """Every broken invariant of the database as it stands, and of the newest rounds.

    pods: those that the cluster itself shows, if it was asked; with before, how all stood before it was asked, only
    pods of workloads that stand still are judged. max_ms: leave out rounds whose deciding took longer, as each is
    decided again twice. Quota (S3) is judged by what rounds added: a team may stand over a quota that was lowered.
    Nothing is locked while the checks run.
    """
    with one_moment():
        seen = state(pods=pods if pods is None or before is None else before.still(pods, live_rows()))
    found = check_these(seen, {name: check for name, check in ALWAYS.items() if name != "S3"})
    for cycle in _newest(last_rounds, max_ms):
        found += _of_round(cycle)
    return found


def rounds_of_other_versions(last_rounds: int) -> int:
    """How many of the newest rounds were stored by another version of Weft: what they had read is not compared."""
    return sum(not is_of_this_form(cycle.digest) for cycle in _newest(last_rounds).only("digest"))


def state(
    *,
    pods: Sequence[PodSeen] | None = None,
    before: Snapshot | None = None,
    after_event: int = 0,
    made: Round | None = None,
) -> State:
    """The state of the database.

    before: the snapshot of an earlier moment, when `after_event` was the newest event; made: the round since then.
    """
    now = snapshots.full()
    ended = {str(uid): Phase(phase) for uid, phase in _ended()}
    return State(
        snapshot=now,
        before=before,
        pods=None if pods is None else live(pods),
        ended=ended,
        submitted=_submitted(),
        transitions=tuple(_transitions(before, after_event)),
        writes=tuple(_writes()),
        accounts=_accounts(now.at),
        rate=sum(w.milli_of(a) for w in now.workloads.values() for a in w.placement if not a.reserved),
        claims=tuple(_claims(now)),
        round=made,
        settings=_settings(PolicyVersion.objects.order_by("-pk").values_list("pk", flat=True).first()),
        in_force=_in_force(),
    )


def rounds(last: int, decide: Schedule = by_policy) -> Iterator[Round]:
    """The newest rounds of the scheduler whose input is kept, oldest first; `decide` is how to decide again."""
    for cycle in _newest(last):
        yield _round(cycle, decide)


def decision_of(document: Mapping[str, Any]) -> Decision:
    """A decision from the document that its Cycle row keeps."""
    values = {name: value for name, value in document.items() if name != "kind"}
    match document["kind"]:
        case "Place":
            after, terms = tuple(values["after"]), _pairs(values, "terms")
            return Place(values["workload"], values["version"], _workers(values, "workers"), after, terms)
        case "Evict":
            read = {"reason": EvictReason(values["reason"]), "keeps": _workers(values, "keeps")}
            return Evict(**values | read | {"terms": _pairs(values, "terms")})
        case "Shrink":
            return Shrink(**values | {"ranks": tuple(values["ranks"]), "terms": _pairs(values, "terms")})
        case "Offload":
            return Offload(**values | {"ranks": tuple(values["ranks"]), "to": Weights(values["to"])})
        case "Wait":
            return Wait(**values | {"reason": Reason(values["reason"]), "numbers": _pairs(values, "numbers")})
        case kind:
            raise ValueError(f"unknown decision {kind}")


def _workers(values: Mapping[str, Any], field: str) -> tuple[Assignment, ...]:
    return tuple(Assignment(**worker | {"gpus": tuple(worker["gpus"])}) for worker in values.get(field, ()))


def _pairs(values: Mapping[str, Any], field: str) -> tuple[tuple[str, int | str], ...]:
    return tuple((name, value) for name, value in values.get(field, ()))


def _newest(last: int, max_ms: float | None = None) -> QuerySet[Cycle]:
    found = Cycle.objects.filter(pk__in=replayable()[:last]).order_by("pk")
    return found if max_ms is None else found.filter(took_ms__lte=max_ms)


def _round(cycle: Cycle, decide: Schedule) -> Round:
    decisions = tuple(decision_of(document) for document in cycle.decisions)
    return Round(snapshot_of(cycle), decisions, _settings(cycle.policy), decide)


def _of_round(cycle: Cycle) -> tuple[Violation, ...]:
    """What is wrong with a round, and whether its snapshot, kept by differences, was what it had read."""
    made = _round(cycle, by_policy)
    after = made.snapshot.after(made.decisions)
    names: tuple[str, ...] = ("S1", "S3", "S6", "S8", "S9", "S14", "S17", "S18")
    if made.settings.policy != WEFT:  # the others promise neither order (S14) nor rest after one round (S17)
        names = ("S1", "S3", "S6", "S8", "S9", "S18")
    if not is_of_this_form(cycle.digest):  # another version of Weft decided it: this one may decide otherwise
        names = ("S1", "S3", "S6", "S9")
    checks = {name: INVARIANTS[name] for name in names}
    found = check_these(State(after, before=made.snapshot, round=made, settings=made.settings), checks)
    if not is_of_this_form(cycle.digest) or digest_of(made.snapshot) == cycle.digest:
        return found
    message = f"The round decided on {cycle.digest}, which is not what it had read."
    return (*found, Violation("S2", f"cycle {cycle.pk}", message))


def _in_force() -> tuple[tuple[float, Settings], ...]:
    """By which settings the scheduler's rounds decided, since which cluster second.

    The first round of each version is enough: none comes back, as one that is restored gets a number of its own.
    """
    rounds = Cycle.objects.filter(loop="schedule").order_by()
    since = rounds.values_list("policy").annotate(first=Min("cluster_at"))
    kept = PolicyVersion.objects.in_bulk([policy for policy, _ in since if policy is not None])
    settings = {None: Settings(), **{number: Policy.stored(row.data).scheduling for number, row in kept.items()}}
    return tuple((at, settings[policy]) for policy, at in sorted(since, key=lambda row: row[1]))


def _settings(policy: int | None) -> Settings:
    if policy is None:
        return Settings()
    return Policy.stored(PolicyVersion.objects.get(pk=policy).data).scheduling


def live(pods: Sequence[PodSeen]) -> dict[str, list[PodSeen]]:
    """Those that hold something, by workload."""
    found: dict[str, list[PodSeen]] = {}
    for pod in pods:
        if pod.node and pod.phase not in GONE:  # a pod without a node was only made ahead of time
            found.setdefault(pod.workload, []).append(pod)
    return found


def _ended() -> Iterator[tuple[UUID, str]]:
    ended = sorted(phase.value for phase in ENDED)
    yield from WorkloadRow.objects.filter(phase__in=ended).values_list("pk", "phase")


def _submitted() -> set[str]:
    """Every workload that was submitted, by its event; where that is so old that it was pruned, by its row."""
    told = Event.objects.filter(kind="Submitted").values_list("workload", flat=True)
    found = {str(uid) for uid in told}
    if Pruned.objects.filter(pk=Event._meta.db_table).exists():
        first = Event.objects.order_by("id").values_list("cluster_at", flat=True).first()
        old = WorkloadRow.objects.all() if first is None else WorkloadRow.objects.filter(submitted_at__lte=first)
        found |= {str(uid) for uid in old.values_list("uid", flat=True)}
    return found


def _transitions(before: Snapshot | None, after_event: int) -> Iterator[Transition]:
    """Each workload's steps as its events tell them; an event that leaves the phase as it is is a note."""
    told = Event.objects.filter(workload__isnull=False, id__gt=after_event).exclude(phase="").order_by("id")
    at = {uid: workload.phase for uid, workload in before.workloads.items()} if before else {}
    for key, phase, actor in told.values_list("workload", "phase", "actor"):
        uid = str(key)
        if at.get(uid) != phase:
            yield Transition(uid, at.get(uid), Phase(phase), actor)
            at[uid] = Phase(phase)


def _writes() -> Iterator[Write]:
    """Committed rounds in their order. Which epoch was current then is not kept: an older one shows by going back."""
    rounds = Cycle.objects.order_by("pk").values_list("loop", "cell", "epoch")
    for loop, epoch in ((f"{loop}/{cell}" if cell else loop, epoch) for loop, cell, epoch in rounds):
        yield Write(loop, epoch, epoch)


def _accounts(now: float) -> dict[str, Account]:
    """What usage rows bill each workload, and the holds they must add up to, as far as these are accounted."""
    billed = dict(Usage.objects.order_by().values_list("workload").annotate(total=Sum("held")))
    holds: dict[UUID, list[Interval]] = {uid: [] for uid in billed}
    rows = Placement.objects.filter(bound_at__isnull=False).values_list(
        "workload_id", "attempt", "rank", "milli", "bound_at", "released_at", "accounted_to", "state"
    )
    for uid, attempt, rank, milli, bound_at, released_at, accounted_to, state_ in rows:
        start = bound_at or 0.0
        covered = start if accounted_to is None else accounted_to
        end = min(covered, released_at) if state_ == _RELEASED and released_at is not None else covered
        holds.setdefault(uid, []).append(Interval(attempt, rank, milli, start, end))
    return {str(uid): Account(int(billed.get(uid) or 0), now, tuple(kept)) for uid, kept in holds.items()}


def _claims(now: Snapshot) -> Iterator[Claim]:
    """Places that are promised and whose victims left so long ago that the claimant should have started."""
    for workload in now.workloads.values():
        promised = tuple(a for a in workload.placement if a.reserved and not a.leaving)
        if not workload.after or not promised:
            continue
        left = Placement.objects.filter(workload__among=[uid for uid in workload.after if uid != workload.id])
        newest = left.filter(released_at__isnull=False).order_by("-released_at").values_list("released_at", flat=True)
        if (newest.first() or now.at) < now.at - ADMISSION_SECONDS:
            yield Claim(workload.id, workload.attempt, promised, workload.after)
