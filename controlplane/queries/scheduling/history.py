"""The newest stored rounds of the scheduler as an episode: the cluster at the first, and the work until the last.

What runs how long is taken from what happened: from a workload's times when it was last seen, and its row's end. Work
that has not ended runs on to the end of the replay. Services have their requests where these are known (traffic.py),
and the numbers of replicas that were wanted then. Not told by stored rounds, and so left out: failures of nodes and
of work, and what users did to running work other than ending it. Nodes, teams and quotas are those of the first round.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from controlplane.domain.cycle import Frame, unpack
from controlplane.models import Cycle
from controlplane.models import Workload as WorkloadRow
from controlplane.queries.scheduling.cycles import InputGoneError
from controlplane.queries.workloads import traffic
from controlplane.simulator.replay.episode import Episode, Job
from scheduler.model.demand import NO_DEMAND
from scheduler.model.workload import ACTIVE, LEAVING, Kind, Phase, Workload

COMES = frozenset({Phase.QUEUED, Phase.RESERVED, *ACTIVE, *LEAVING})


@dataclass(slots=True)
class _Seen:
    """What the rounds showed of one workload."""

    first: Workload
    first_at: float
    last: Workload
    counts: list[tuple[float, int]]
    limits: list[tuple[float, int]]
    gone_at: float | None = None
    has_started: bool = True  # as far as is known


def episode(cycles: int) -> Episode:
    """The newest `cycles` stored rounds of the scheduler: of cells, of the one that decided last.

    Raises InputGoneError if fewer than two are kept.
    """
    stored = Cycle.objects.filter(loop="schedule", input__isnull=False)
    cell = stored.order_by("-pk").values_list("cell", flat=True).first() or ""
    stored = stored.filter(cell=cell)
    numbers = list(stored.order_by("-pk").values_list("pk", flat=True)[:cycles])
    if len(numbers) < 2:
        raise InputGoneError("Fewer than two rounds of the scheduler are kept. Let it run for a while, or use a trace.")
    first, last = numbers[-1], numbers[0]
    base = stored.filter(pk__lte=first, is_base=True).order_by("-pk").values_list("pk", flat=True).first()
    if base is None:
        raise InputGoneError(f"The database has no whole input before round {first}. Ask for fewer rounds.")
    inputs = stored.filter(pk__gte=base, pk__lte=last).order_by("pk")
    rows = inputs.values_list("pk", "input", "is_base").iterator(chunk_size=200)
    packed = ((pk, bytes(data), is_base) for pk, data, is_base in rows if data)
    return _read(packed, first, len(numbers))


def _read(inputs: Iterable[tuple[int, bytes, bool]], first: int, count: int) -> Episode:
    frame, demand, workloads = Frame((), (), ()), NO_DEMAND, dict[str, Workload]()
    seen: dict[str, _Seen] = {}
    start = at = 0.0
    for number, packed, is_base in inputs:
        at, changed, gone, other, asked, _ = unpack(packed)
        if is_base:  # it names what there is, not what left
            gone = sorted(workloads.keys() - {w.id for w in changed})
        workloads.update((w.id, w) for w in changed)
        left = [workloads.pop(uid) for uid in gone if uid in workloads]
        if number <= first:
            frame, demand, start = other or frame, asked or demand, at
        if number < first:
            continue
        for workload in list(workloads.values()) if number == first else changed:
            _note(seen, workload, at)
        for workload in left:
            if workload.id in seen and seen[workload.id].gone_at is None:
                seen[workload.id].gone_at = at
    _add_ends(seen)
    services = traffic.known((uid for uid, one in seen.items() if one.last.kind is Kind.INFERENCE), start, at)
    kept = ((uid, one, services.get(uid)) for uid, one in seen.items())
    made = (replace(_job(one, start), service=service, limits=tuple(one.limits)) for uid, one, service in kept)
    jobs = sorted(made, key=lambda j: (j.at, j.workload.seq))
    name = f"the newest {count} rounds"
    found = Episode(
        name,
        start,
        at,
        frame.nodes,
        frame.teams,
        frame.quotas,
        tuple(jobs),
        use=frame.use,
        budgets=frame.budgets,
        demand=demand,
    )
    return found.without_lost_places()


def _note(seen: dict[str, _Seen], workload: Workload, at: float) -> None:
    one = seen.get(workload.id)
    if one is None:
        if workload.phase in COMES and not workload.unmet:  # it comes when nothing holds it back any more
            seen[workload.id] = _Seen(workload, at, workload, [], [])
        return
    if workload.kind is Kind.INFERENCE and workload.gang.count != one.last.gang.count:
        one.counts.append((at, workload.gang.count))
    now, before = workload.ask.share, one.last.ask.share
    if workload.kind is Kind.INFERENCE and now and before and now.limit != before.limit:
        one.limits.append((at, now.limit))
    one.last, one.gone_at = workload, None


def _add_ends(seen: dict[str, _Seen]) -> None:
    """Rounds are apart; the rows say exactly when work ended."""
    gone = [uid for uid, one in seen.items() if one.gone_at is not None]
    for first in range(0, len(gone), 500):
        rows = WorkloadRow.objects.filter(pk__among=gone[first : first + 500], ended_at__isnull=False)
        for uid, ended, started, first_started in rows.values_list("pk", "ended_at", "started_at", "first_started_at"):
            one = seen[str(uid)]
            if one.gone_at is not None and ended is not None:
                one.gone_at = min(one.gone_at, ended)
            one.last = replace(one.last, started_at=started or one.last.started_at)
            one.has_started = first_started is not None


def _job(one: _Seen, start: float) -> Job:
    comes = _as_it_comes(one.first)
    was_there = one.first_at <= start
    at = start if was_there else max(start, min(one.first_at, comes.queued_at))
    if not was_there or not comes.placement:
        comes = replace(comes, phase=Phase.QUEUED, placement=(), after=(), started_at=None)
    if one.gone_at is None:
        return Job(comes, at, None, tuple(one.counts))
    if not one.has_started:
        return Job(comes, at, None, tuple(one.counts), withdrawn=one.gone_at)
    before = _ran(one.first, start) if was_there else 0.0
    return Job(comes, at, max(1.0, _ran(one.last, one.gone_at) - before), tuple(one.counts))


def _as_it_comes(workload: Workload) -> Workload:
    """What a replay starts from: no back-off, no reason, and no promise of places that others still hold."""
    clean = replace(workload, not_before=None, reason="", message="", reason_at=0.0)
    if workload.phase in (Phase.QUEUED, Phase.RESERVED) or any(a.reserved for a in workload.placement):
        kept = tuple(a for a in workload.placement if not a.reserved) if workload.phase is not Phase.RESERVED else ()
        return replace(clean, after=(), placement=kept)
    return clean


def _ran(workload: Workload, at: float) -> float:
    """Seconds it has run with all its workers, over all attempts, as far as its row tells."""
    whole = workload.whole_milli
    earlier = workload.attained / whole if whole else 0.0
    now = max(0.0, at - workload.started_at) if workload.started_at is not None else 0.0
    return earlier + now
