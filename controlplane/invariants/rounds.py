"""S14 order, S17 idempotence and S18 determinism: what one round of decisions must be like."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

from controlplane.invariants.state import Round, State, Violation
from scheduler.actions.start_on_lent import may_start_on_lent
from scheduler.fit.capacity import is_given_wherever
from scheduler.model.decision import Decision, Evict, Place, Reason, Shrink, Wait
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import Phase, ResourceRequest, Workload

# What one is told that a reservation keeps out, and those of its equivalence class behind it.
KEPT_OUT = frozenset({Reason.RESERVED_FOR_LARGER_JOB.value, Reason.BEHIND_HIGHER_PRIORITY.value})


def s14_order(state: State) -> tuple[Violation, ...]:
    """No workload overtakes an earlier one of its own kind that asks no more.

    The weak first come, first served that is always decidable: within one team, kind, deadline and priority, with
    equal attained service and failures, the same constraints and the same history of evictions, neither in back-off
    nor dependent on others: if i came before j, waits as long and asks no more in any component, j is not placed
    while i waits.
    Backfill is the exception: while room is kept for a larger one, the shorter may go first. So is a start on GPUs that
    a service lends: those that may not start there have no use for them.
    """
    return tuple(_overtaken(state.round)) if state.round else ()


def _overtaken(made: Round) -> Iterator[Violation]:
    world = made.snapshot
    placed = {d.workload: any(a.lender for a in d.workers) for d in made.decisions if isinstance(d, Place)}
    reason = {w.id: w.reason for w in world.workloads.values()}
    reason.update((d.workload, str(d.reason)) for d in made.decisions if isinstance(d, Wait))
    groups: dict[object, list[Workload]] = {}
    for workload in world.workloads.values():
        if workload.phase == Phase.QUEUED and not workload.unmet and not _backs_off(workload, world.at):
            groups.setdefault(_class_of(workload), []).append(workload)
    for group in groups.values():
        later = [w for w in group if w.id in placed]
        waiting = [w for w in group if w.id not in placed]
        for j in later if waiting else ():
            for i in waiting:
                is_backfill = reason[i.id] in KEPT_OUT and not _ends_as_soon(i, j)
                goes = is_given_wherever(world.inventory, i.ask, j.ask)
                is_exempt = is_backfill or (placed[j.id] and not may_start_on_lent(i))
                if i.seq < j.seq and i.queued_at <= j.queued_at and _asks_no_more(i, j) and not is_exempt and goes:
                    yield Violation(
                        "S14", i.id, f"It waits while {j.id}, which came later and asks no less, is placed."
                    )


def _ends_as_soon(i: Workload, j: Workload) -> bool:
    return i.expected_seconds == j.expected_seconds or (i.expected_seconds or inf) <= (j.expected_seconds or inf)


def _backs_off(workload: Workload, at: float) -> bool:
    return workload.not_before is not None and workload.not_before > at


def _class_of(workload: Workload) -> object:
    w = workload
    standing = (w.team, w.kind, w.priority, w.deadline, w.attained, w.failures, w.preempted_by, w.moving, w.at_risk)
    return (*standing, w.preemptible, w.topology, w.ask.models, w.roles)


def _asks_no_more(i: Workload, j: Workload) -> bool:
    return i.gang.min <= j.gang.min and i.gang.count <= j.gang.count and _component_wise(i.ask, j.ask)


def _component_wise(i: ResourceRequest, j: ResourceRequest) -> bool:
    if (i.share is None) != (j.share is None) or i.labels != j.labels:
        return False
    if i.share and j.share and (i.share.guarantee > j.share.guarantee or i.share.memory > j.share.memory):
        return False
    if i.share and j.share and (bool(i.share.on_demand) != bool(j.share.on_demand)):
        return False
    pairs = ((i.gpus, j.gpus), (i.gpu_memory, j.gpu_memory), (i.cpu_milli, j.cpu_milli), (i.memory, j.memory))
    return all(mine <= theirs for mine, theirs in pairs)


SETTLES_WITHIN = 3  # rounds


def s17_idempotence(state: State) -> tuple[Violation, ...]:
    """A world in which nothing happens is left alone in the end: rounds that see their own decisions carried out stop.

    The first rounds after may still change what they gave (a service takes the rest of its replicas). From the third on
    none takes back what these rounds gave. Each of them may start, or make room for, what a planned start kept out
    before, which then moved: so there are at most as many of them as there are workloads.
    That the same decisions committed twice count once is a matter of their versions, and tested where commits are.
    """
    if state.round is None or state.round.schedule is None:
        return ()
    made = state.round
    world, rounds = made.snapshot.after(made.decisions), [_moves(made.decisions)]
    given: set[str] = set()
    for number in range(1, SETTLES_WITHIN + len(world.workloads) + 1):
        given.update(one.workload for one in rounds[-1] if isinstance(one, Place))
        again = state.round.schedule(world, made.settings)
        rounds.append(_moves(again))
        if not rounds[-1]:
            return ()
        taken = {one.workload for one in rounds[-1] if isinstance(one, Evict | Shrink)}
        if number >= SETTLES_WITHIN and given & taken:
            break
        world = world.after(again)
    message = f"After {len(rounds) - 1} more rounds in which nothing happened there are still decisions: "
    said = " | ".join(_first(moves) for moves in reversed(rounds))
    return (Violation("S17", rounds[-1][0].workload, f"{message}{said}; the last round first."),)


def s18_determinism(state: State) -> tuple[Violation, ...]:
    """The same snapshot gives the same decisions in the same order, however its parts are listed.

    Workloads and quotas are given in reverse order too; nodes keep theirs, it is part of the input.
    """
    if state.round is None or state.round.schedule is None:
        return ()
    made = state.round
    seen = made.snapshot
    shuffled = Snapshot.build(
        seen.at,
        seen.inventory.nodes,
        seen.teams[::-1],
        seen.quotas[::-1],
        list(seen.workloads.values())[::-1],
        seen.use[::-1],
        seen.budgets,
        seen.demand,
        seen.history,
    )
    shuffled = replace(shuffled, scope=seen.scope)
    for what, world in (("the same snapshot", seen), ("the same snapshot listed in reverse", shuffled)):
        again = tuple(made.schedule(world, made.settings)) if made.schedule else ()
        if again != tuple(made.decisions):
            return (Violation("S18", "round", f"From {what} come {_difference(again, made.decisions)}."),)
    return ()


def _moves(decisions: Sequence[Decision]) -> list[Decision]:
    return [d for d in decisions if not isinstance(d, Wait)]


def _first(decisions: Sequence[Decision]) -> str:
    return "; ".join(repr(d) for d in decisions[:3])


def _difference(again: Sequence[Decision], before: Sequence[Decision]) -> str:
    for i, (one, other) in enumerate(zip(again, before, strict=False)):
        if one != other:
            return f"another decision {i}: {one!r} in place of {other!r}"
    return f"{len(again)} decisions in place of {len(before)}"
