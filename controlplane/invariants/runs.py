"""S4 gang atomicity, S5 single run and S6 placement validity: what runs is whole, runs once, and where it may."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from controlplane.invariants.state import Round, State, Violation
from scheduler.model.decision import Place
from scheduler.model.snapshot import Inventory, Node
from scheduler.model.workload import ACTIVE, ENDED, Assignment, Kind, Level, Phase, ResourceRequest, Workload

_STARTS = frozenset({Phase.RESERVED, Phase.ADMITTED})


def s4_gang(state: State) -> tuple[Violation, ...]:
    """The workers of one attempt have places for at least `min` of them, or for none.

    None: an attempt that broke, whose last workers are being stopped. A service is no gang: its replicas come and
    go one by one, and how many there must be is for the autoscaler to say.
    Nor does one count whose workers begin to be done: those that are need no place any more.
    In the cluster a training may have some but fewer than `min` pods while they start and stop or while the news
    of an ended one is under way, but not longer than the gang timeout.
    """
    found: list[Violation] = []
    for workload in state.subjects():
        ranks = Counter(a.rank for a in workload.placement)
        if twice := [rank for rank, count in ranks.items() if count > 1]:
            found.append(Violation("S4", workload.id, f"Ranks {twice} have two places each."))
        fixed = sum(role.count for role in workload.roles)
        placed = sum(not a.leaving and a.rank >= fixed for a in workload.placement)
        least = 1 if workload.kind == Kind.INFERENCE else workload.gang.min
        starts = workload.phase in _STARTS
        is_short = placed < least and not workload.finishing
        if is_short and (starts or (workload.phase in ACTIVE and placed > 0)):
            message = f"{placed} of at least {least} workers have a place ({workload.phase})."
            found.append(Violation("S4", workload.id, message))
        found += _without_role_members(workload, fixed)
    return (*found, *_partly_up_too_long(state))


def _without_role_members(workload: Workload, fixed: int) -> Iterator[Violation]:
    """A gang with roles that has places has one for each role member."""
    staying = [a for a in workload.placement if not a.leaving]
    if not fixed or not staying or workload.finishing or workload.phase not in (*_STARTS, *ACTIVE):
        return
    if missing := sorted(set(range(fixed)) - {a.rank for a in staying}):
        message = f"Role members {missing} have no place, others of the gang have ({workload.phase})."
        yield Violation("S4", workload.id, message)


def _partly_up_too_long(state: State) -> Iterator[Violation]:
    for uid, since in state.partly_up.items():
        workload = state.snapshot.workloads.get(uid)
        if workload is None or workload.phase not in ACTIVE or workload.kind == Kind.INFERENCE:
            continue
        if workload.finishing or all(a.leaving for a in workload.placement):
            continue  # some of its workers are done; or it broke and is on its way out
        seconds = state.snapshot.at - since
        if seconds > state.settings.gang_timeout_seconds:
            message = f"Fewer than {workload.gang.min} of its pods are up since {seconds:.0f} s ({workload.phase})."
            yield Violation("S4", uid, message)


def s5_single_run(state: State) -> tuple[Violation, ...]:
    """Work runs once: one attempt at a time, one pod for each rank, and none for what has ended.

    Attempt numbers only grow, and what has ended is not among the living (with S12: ended phases absorb).
    """
    found = [
        Violation("S5", uid, f"It ended as {state.ended[uid]} and is still alive as {workload.phase}.")
        for uid, workload in ((w.id, w) for w in state.subjects())
        if uid in state.ended or workload.phase in ENDED
    ]
    for workload in state.subjects():
        old = state.before.workloads.get(workload.id) if state.before else None
        if old and old.attempt > workload.attempt:
            message = f"Its attempt went back from {old.attempt} to {workload.attempt}."
            found.append(Violation("S5", workload.id, message))
    return (*found, *_pods_twice(state))


def _pods_twice(state: State) -> Iterator[Violation]:
    pods = state.pods or {}
    for uid in sorted(pods.keys() if state.only is None else state.only & pods.keys()):
        seen = pods[uid]
        if not seen:
            continue
        if uid not in state.snapshot.workloads:
            ended = state.ended.get(uid)
            what = f"its workload ended as {ended}" if ended else "there is no such workload"
            yield Violation("S5", seen[0].name, f"The cluster runs this pod, but {what}.")
        elif others := {p.attempt for p in seen} - {state.snapshot.workloads[uid].attempt}:
            current = state.snapshot.workloads[uid].attempt
            yield Violation("S5", uid, f"Pods of attempt {sorted(others)} run, the current one is {current}.")
        if len({p.name for p in seen}) < len(seen):
            yield Violation("S5", uid, "Two pods run as one rank of one attempt.")


def s6_placement(state: State) -> tuple[Violation, ...]:
    """Every worker is where its ask allows: node, model, device memory, device count, topology, health.

    Health and cordon are judged in the snapshot that the round saw, for what it places: a node may be lost
    under a worker later. So they are where a reservation becomes a hold, by what is known then. What cannot
    change (model, memory, count, topology) is judged for every placement.
    """
    found: list[Violation] = []
    for workload in state.subjects():
        found += _misplaced(state.snapshot.inventory, workload, workload.placement)
        found += _started_unfit(state, workload)
    if state.round is not None:
        found += _placed_unfit(state.round)
    return tuple(found)


def _misplaced(inventory: Inventory, workload: Workload, workers: tuple[Assignment, ...]) -> Iterator[Violation]:
    for worker in workers:
        at = inventory.index.get(worker.node)
        if at is None:
            continue  # the node is gone since; the pod will be seen as lost
        if why := _refused(inventory.nodes[at], _ask_of(workload, worker.rank), worker):
            yield Violation("S6", workload.id, f"Rank {worker.rank} on {worker.node}: {why}.")
    models = {inventory.nodes[inventory.index[a.node]].model for a in workers if a.gpus and a.node in inventory.index}
    if workload.roles and len(models) > 1:
        yield Violation("S6", workload.id, f"Its roles are on GPUs of several models: {', '.join(sorted(models))}.")
    level = workload.topology.require
    if level is not None and len(domains := _domains(inventory, level, workers)) > 1:
        yield Violation("S6", workload.id, f"It must stay within one {level.name} but is in {len(domains)}.")


def _ask_of(workload: Workload, rank: int) -> ResourceRequest:
    """By its own count: role members have the first ranks, role by role."""
    for role in workload.roles:
        if rank in range(role.count):
            return role.ask
        rank -= role.count
    return workload.ask


def _started_unfit(state: State, workload: Workload) -> Iterator[Violation]:
    """Reserved places that became bound just now although they are out of use by now."""
    old = state.before.workloads.get(workload.id) if state.before else None
    if old is None or workload.phase == Phase.RESERVED or not old.after:
        return
    promised = {a.rank for a in old.placement if a.reserved or old.phase == Phase.RESERVED}
    inventory = state.snapshot.inventory
    for worker in workload.placement:
        is_new = worker.rank in promised and not worker.reserved and not worker.leaving
        if is_new and (why := _unhealthy(inventory, worker)):
            yield Violation("S6", workload.id, f"Rank {worker.rank} starts on {worker.node}: {why}.")


def _refused(node: Node, ask: ResourceRequest, worker: Assignment) -> str:
    """Why the worker may not be there, or nothing."""
    wanted = 1 if ask.share else ask.gpus
    if len(set(worker.gpus)) != wanted or len(worker.gpus) != wanted:
        return f"it has devices {worker.gpus}, it asked for {wanted}"
    if worker.gpus and not all(0 <= index < node.gpus for index in worker.gpus):
        return f"devices {worker.gpus} do not exist, the node has {node.gpus}"
    if ask.models and worker.gpus and node.model not in ask.models:
        return f"the model is {node.model}, allowed are {', '.join(ask.models)}"
    if worker.gpus and node.gpu_memory < ask.gpu_memory:
        return f"a device has {node.gpu_memory} MiB, it needs {ask.gpu_memory}"
    return ""


def _domains(inventory: Inventory, level: Level, workers: tuple[Assignment, ...]) -> set[int]:
    """The domains of a level that the workers touch; what leaves does not count."""
    stay = [(inventory.index[a.node], a) for a in workers if not a.leaving and a.node in inventory.index]
    if level == Level.NVLINK:
        return {int(inventory.link_of[inventory.offset[at] + index]) for at, a in stay for index in a.gpus}
    if level == Level.NODE:
        return {at for at, _ in stay}
    if level == Level.RACK:
        return {int(inventory.rack_of[at]) for at, _ in stay}
    if level == Level.ZONE:
        return {int(inventory.zone_of[at]) for at, _ in stay}
    return set()


def _unhealthy(inventory: Inventory, worker: Assignment) -> str:
    """Why nothing may start there now, or nothing."""
    at = inventory.index.get(worker.node)
    if at is None:
        return "no such node"
    if not inventory.nodes[at].is_usable:
        return "the node is out of use"
    lost = set(worker.gpus) & set(inventory.nodes[at].lost)
    return f"devices {sorted(lost)} are lost" if lost else ""


def _placed_unfit(made: Round) -> Iterator[Violation]:
    inventory, workloads = made.snapshot.inventory, made.snapshot.workloads
    for place in made.decisions:
        if isinstance(place, Place):
            for worker in place.workers:
                ask = _ask_of(workloads[place.workload], worker.rank)
                if why := _unhealthy(inventory, worker) or _not_taken(inventory, ask, worker):
                    message = f"Rank {worker.rank} is placed on {worker.node}: {why}."
                    yield Violation("S6", place.workload, message)
    yield from _badly_beside(made)


def _not_taken(inventory: Inventory, ask: ResourceRequest, worker: Assignment) -> str:
    """Why the node's GPUs are not for this, or nothing."""
    node = inventory.nodes[inventory.index[worker.node]]
    if (ask.share or worker.lender) and not node.takes_shares:
        return "its GPUs are not shared"
    if ask.share and not inventory.gives(ask.share, ask.demands)[inventory.index[worker.node]]:
        return f"{node.enforcer or 'nothing'}, which enforces shares there, does not give it"
    return (
        "its GPUs are for shares only"
        if worker.gpus and not (ask.share or worker.lender) and not node.takes_whole
        else ""
    )


def _badly_beside(made: Round) -> Iterator[Violation]:
    """Shares placed beside those of a team, label or model beside which they may not be: now, or before these left."""
    allows = {team.name: team.shares_with_others for team in made.snapshot.teams}
    advisory = {node.name for node in made.snapshot.inventory.nodes if node.is_advisory}
    if all(allows.values()) and not advisory and not any(w.ask.labels for w in made.snapshot.workloads.values()):
        return
    world = made.snapshot.after(made.decisions).workloads
    on = _shares_on(world.values())
    for place in made.decisions:
        if not isinstance(place, Place):
            continue
        placed = world[place.workload]
        beside = ((worker, *one) for worker in place.workers for one in on.get(_where(placed, worker), ()))
        for worker, other, there in beside:
            is_itself = other is placed and there.rank == worker.rank
            why = "" if is_itself else _not_beside(placed, other, allows)
            if not why and worker.node in advisory and _are_two_models(placed, other):
                why = "both are models, and what holds shares there is advisory"
            if why and not (there.leaving and other.id in place.after):
                yield Violation(
                    "S6", placed.id, f"Rank {worker.rank} is placed beside {other.id} of {other.team}: {why}."
                )


def _not_beside(one: Workload, other: Workload, allows: Mapping[str, bool]) -> str:
    """Why these shares may not be on one device, or nothing."""
    if one.team != other.team and not (allows[one.team] and allows[other.team]):
        return "not both teams allow it"
    is_same = one.team == other.team
    label, exclusions = one.ask.labels.anti_affinity, (one.ask.labels.exclusion, other.ask.labels.exclusion)
    if is_same and label and label == other.ask.labels.anti_affinity:
        return f"both have the anti-affinity {label}"
    if any(exclusions) and not (is_same and exclusions[0] == exclusions[1]):
        return f"their exclusions are {exclusions[0] or 'none'} and {exclusions[1] or 'none'}"
    return ""


def _are_two_models(one: Workload, other: Workload) -> bool:
    return one.id != other.id and one.kind is Kind.INFERENCE and other.kind is Kind.INFERENCE


def _shares_on(workloads: Iterable[Workload]) -> dict[tuple[str, tuple[int, ...]], list[tuple[Workload, Assignment]]]:
    """The shares on each device, each with its worker."""
    found: dict[tuple[str, tuple[int, ...]], list[tuple[Workload, Assignment]]] = defaultdict(list)
    for workload in workloads:
        for worker in workload.placement:
            if _ask_of(workload, worker.rank).share:
                found[_where(workload, worker)].append((workload, worker))
    return found


def _where(workload: Workload, worker: Assignment) -> tuple[str, tuple[int, ...]]:
    """The device of a share; one on demand comes to each GPU of its node, where no other shares are."""
    share = _ask_of(workload, worker.rank).share
    return worker.node, () if share and share.on_demand else worker.gpus
