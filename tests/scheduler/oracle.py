"""A scheduler's oracle by brute force for small worlds: plain sums over devices, nothing of the code under test.

It knows whole GPUs of one model without topology, trainings, and teams side by side with a nominal quota that others
may borrow from without limit; `borrowing` is the only limit. That is what `Small` worlds have.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

from gpushare.gpu import WHOLE
from scheduler.model.decision import Decision, Evict, Place, Shrink
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Node, Snapshot
from scheduler.model.team import Quota, Team
from scheduler.model.workload import Assignment, Gang, Kind, Phase, ResourceRequest, Role, Workload

AT = 100_000.0
NOMINAL = 2 * WHOLE  # milli-GPU, of each team
BLUE_MAX = 3 * WHOLE  # it borrows 1


@dataclass(frozen=True, slots=True)
class Job:
    """One training: its workers ask `gpus` each; with a chief beside them that asks so many, or without (0)."""

    team: str
    priority: int
    gpus: int
    gang: Gang
    is_running: bool
    saves: bool = False
    chief: int = 0


def small(nodes: int, gpus: int, jobs: Iterable[Job]) -> Snapshot | None:
    """A world of equal nodes; jobs that run lie first-fit. None if one that should run may not."""
    machines = [Node(f"n{i}", "gpu", "gpu", gpus, 16_000, 64_000, 256_000) for i in range(nodes)]
    idle = {node.name: list(range(gpus)) for node in machines}
    workloads = []
    for seq, job in enumerate(jobs):
        workload = Workload(
            f"w{seq}", f"w{seq}", job.team, Kind.TRAINING, ResourceRequest(gpus=job.gpus), job.gang,
            priority=job.priority, seq=seq, submitted_at=AT - 9, queued_at=AT - 9,
            checkpoint_interval=600.0 if job.saves else None,
            roles=(Role("chief", ResourceRequest(gpus=job.chief)),) if job.chief else (),
        )  # fmt: skip
        if job.is_running:
            asks = [*[job.chief] * bool(job.chief), *[job.gpus] * job.gang.count]
            placement = tuple(_first_fit(idle, rank, asked) for rank, asked in enumerate(asks))
            if any(not worker.gpus for worker in placement):
                return None
            workload = replace(
                workload, phase=Phase.RUNNING, attempt=1, started_at=AT - 1000.0 * (seq + 1), placement=placement
            )
        workloads.append(workload)
    quotas = [Quota("red", "gpu", NOMINAL), Quota("blue", "gpu", NOMINAL, BLUE_MAX - NOMINAL)]
    world = Snapshot.build(AT, machines, [Team("red"), Team("blue")], quotas, workloads)
    return world if held(world, "blue") <= BLUE_MAX else None


def _first_fit(idle: dict[str, list[int]], rank: int, gpus: int) -> Assignment:
    for name, free in idle.items():
        if len(free) >= gpus:
            taken, idle[name] = tuple(free[:gpus]), free[gpus:]
            return Assignment(rank, name, taken)
    return Assignment(rank, "", ())


def exhaustive(nodes: int, gpus: int, kinds: list[Job], most: int) -> Iterator[Snapshot]:
    """Every world of so many nodes and of 1..most jobs of these kinds."""
    for count in range(1, most + 1):
        for jobs in product(kinds, repeat=count):
            world = small(nodes, gpus, jobs)
            if world is not None:
                yield world


# --- what is free, by sums ---------------------------------------------------------------------


def idle_gpus(world: Snapshot, without: Iterable[tuple[str, int]] = (), is_later: bool = True) -> list[int]:
    """Idle GPUs of each node, without these (workload, rank). Leaving workers hold theirs unless it is later."""
    gone = set(without)
    idle = {node.name: node.gpus for node in world.inventory.nodes}
    for workload in world.workloads.values():
        for worker in workload.placement:
            if (workload.id, worker.rank) not in gone and not (is_later and worker.leaving):
                idle[worker.node] -= len(worker.gpus)
    return list(idle.values())


def held(world: Snapshot, team: str, without: Iterable[tuple[str, int]] = ()) -> int:
    """Milli-GPU that a team holds or has reserved, without what leaves and without these (workload, rank)."""
    gone = set(without)
    mine = [w for w in world.workloads.values() if w.team == team]
    return WHOLE * sum(len(a.gpus) for w in mine for a in w.placement if not a.leaving and (w.id, a.rank) not in gone)


def fits(world: Snapshot, claimant: Workload, without: Iterable[tuple[str, int]] = (), is_owed: bool = False) -> bool:
    """Whether the least of the claimant fits once these workers have left, by room and by quota."""
    gone = list(without)
    chief = claimant.roles[0].ask.gpus if claimant.roles else 0
    need = claimant.ask.milli * claimant.gang.min + chief * WHOLE
    has = held(world, claimant.team, gone)
    if claimant.team == "blue" and has + need > BLUE_MAX:
        return False
    if is_owed and has + need > NOMINAL:
        return False
    idle, each = idle_gpus(world, gone), claimant.ask.gpus
    if not chief:
        return sum(free // each for free in idle) >= claimant.gang.min
    tried = ([free - chief * (n == at) for n, free in enumerate(idle)] for at in range(len(idle)) if idle[at] >= chief)
    return any(sum(free // each for free in left) >= claimant.gang.min for left in tried)


# --- what must hold ----------------------------------------------------------------------------


def check_places(world: Snapshot) -> None:
    """No device has two, now or later; every gang that holds something is whole."""
    for is_later in (False, True):
        taken: set[tuple[str, int]] = set()
        for workload in world.workloads.values():
            for worker in workload.placement:
                waits = worker.reserved or workload.phase is Phase.RESERVED
                if worker.leaving if is_later else waits:
                    continue
                for index in worker.gpus:
                    assert (worker.node, index) not in taken, (worker, workload.id)
                    taken.add((worker.node, index))
    for workload in world.workloads.values():
        staying = [a for a in workload.placement if not a.leaving]
        assert not staying or len(staying) >= workload.gang.min + len(workload.roles)
        assert not staying or not workload.roles or any(a.rank == 0 for a in staying)
    assert held(world, "blue") <= BLUE_MAX


def check_victims(world: Snapshot, decisions: tuple[Decision, ...]) -> None:
    """Each claimant's victims are enough, and no proper subset of them is."""
    for position, decision in enumerate(decisions):
        if not isinstance(decision, Place):
            continue
        mine = [d for d in decisions[:position] if isinstance(d, Evict | Shrink) and d.by == decision.workload]
        before = _so_far(world, [d for d in decisions[:position] if d not in mine])
        claimant = before.workloads[decision.workload]
        if claimant.phase is not Phase.QUEUED:
            continue
        is_moved = any(isinstance(d, Evict) and d.reason == "Consolidated" for d in mine)
        others = {before.workloads[d.workload].team for d in mine} - {claimant.team} if not is_moved else set()
        is_owed = bool(others) and not _is_fair(before.after((*mine, decision)), claimant.team, others)
        units = [unit for d in mine for unit in _units(before, d)]
        assert fits(before, claimant, [worker for unit in units for worker in unit], is_owed), decision
        for size in range(len(units)):
            for chosen in combinations(units, size):
                assert not fits(before, claimant, [w for unit in chosen for w in unit], is_owed), (decision, chosen)


def _so_far(world: Snapshot, decisions: Sequence[Decision]) -> Snapshot:
    """The world after these decisions, with the places that are kept for those that only move."""
    after = world.after(decisions)
    moved = [(after.workloads[d.workload], d.keeps) for d in decisions if isinstance(d, Evict) and d.keeps]
    kept = [(w, tuple(replace(place, reserved=True) for place in places)) for w, places in moved]
    return after.replace(changed=[replace(w, placement=(*w.placement, *places)) for w, places in kept])


def _is_fair(after: Snapshot, team: str, others: Iterable[str]) -> bool:
    """Whether a team that holds more than its nominal quota took it from those that even so hold no less.

    The teams own as much and weigh as much as each other, so nobody above its entitlement is entitled to less.
    """
    has = held(after, team)
    return has > NOMINAL and all(held(after, other) >= has for other in others)


def _units(world: Snapshot, decision: Evict | Shrink) -> list[list[tuple[str, int]]]:
    """What cannot be left out by halves: a whole workload, or one worker of an elastic gang."""
    if isinstance(decision, Shrink):
        return [[(decision.workload, rank)] for rank in decision.ranks]
    return [[(decision.workload, a.rank) for a in world.workloads[decision.workload].placement]]


def check_not_dominated(world: Snapshot, rules: Settings) -> None:
    """At rest nobody waits who would fit beside all others, or who may still ask enough of them to leave."""
    for claimant in world.workloads.values():
        if claimant.phase is not Phase.QUEUED:
            continue
        assert not fits(world, claimant), f"{claimant.id} waits beside free room"
        if claimant.preempted_by:
            continue  # it may not ask those who made it leave
        lower = [
            w for w in world.workloads.values()
            if w.team == claimant.team and w.priority < claimant.priority and _may_leave(w, world.at, rules)
        ]  # fmt: skip
        workers = [(w.id, a.rank) for w in lower for a in w.placement]
        assert not fits(world, claimant, workers), f"{claimant.id} waits for {[w.id for w in lower]}"
        spare = [
            (w.id, a.rank) for w in world.workloads.values() for a in w.placement[w.gang.min + len(w.roles) :]
            if w.team == claimant.team and w.priority <= claimant.priority and w.phase is Phase.RUNNING
        ]  # fmt: skip
        assert not fits(world, claimant, {*spare, *workers}), f"{claimant.id} waits for {spare} beside {workers}"


def _may_leave(workload: Workload, at: float, rules: Settings) -> bool:
    if workload.phase is not Phase.RUNNING or workload.started_at is None:
        return False
    return at - workload.started_at >= rules.min_runtime_seconds and len(workload.preempted_at) < rules.max_preemptions


# --- time --------------------------------------------------------------------------------------


def moved_on(world: Snapshot, seconds: float) -> Snapshot:
    """The world when all that leaves has left, what waited for it has its places, and all that was placed runs."""
    at = world.at + seconds
    changed = []
    for old in world.workloads.values():
        staying = tuple(replace(a, reserved=False) for a in old.placement if not a.leaving)
        new = old
        if old.phase is Phase.CHECKPOINTING:
            new = replace(old, phase=Phase.QUEUED, placement=(), started_at=None)
        elif staying != old.placement or old.phase in (Phase.RESERVED, Phase.ADMITTED, Phase.SCALING):
            new = replace(old, phase=Phase.RUNNING, placement=staying, after=(), started_at=old.started_at or at)
        if new is not old:
            changed.append(new)
    return world.replace(at=at, changed=changed)
