"""Why a claimant waits: exactly one code, the first that holds in the order of `Reason`, with its figures."""

from dataclasses import replace
from datetime import UTC, datetime
from math import isinf

import numpy as np

from gpushare.gpu import Share
from gpushare.packing import Bools
from scheduler.backfill.reservation import Reservation, clock_text, length_text
from scheduler.explain import role_reasons
from scheduler.explain.beside import beside_others, has_places, listed, members_text
from scheduler.fit.capacity import Refusal, allowed_nodes, ask_text, in_all, labels_text, never, per_node
from scheduler.fit.claim import fits
from scheduler.model.decision import Reason
from scheduler.model.mention import mention
from scheduler.model.snapshot import COMPUTE, FUTURE_IDLE, IDLE, MEMORY, Flavor
from scheduler.model.team import Budget
from scheduler.model.workload import Kind, ResourceRequest, Topology, Workload, least
from scheduler.quota.tree import Limit, gpus_counted, gpus_text
from scheduler.state.free import free_of
from scheduler.state.plan import Plan
from scheduler.state.session import Session

Lent = tuple[tuple[tuple[str, int | str], ...], str]  # figures and the part of the sentence

# These do not pass when other workloads end: a workload with the same request has the same reason, not "behind".
PERMANENT = frozenset(
    {
        Reason.MISCONFIGURED,
        Reason.NO_MATCHING_FLAVOR,
        Reason.GPU_MEMORY_DOES_NOT_FIT,
        Reason.WAITING_FOR_NODES,
        Reason.EXCEEDS_MAX_QUOTA,
    }
)

# Of several, the first of these is told.
ORDER = {reason: number for number, reason in enumerate(Reason)}

# More quota, or less of it allocated to other workloads, would let it start.
OF_QUOTA = frozenset(
    {
        Reason.NON_PREEMPTIBLE_OVER_QUOTA,
        Reason.WAITING_FOR_QUOTA,
        Reason.OVER_LIMIT,
        Reason.FAIR_SHARE_EXCEEDED,
    }
)


def is_gated(workload: Workload) -> bool:
    """Whether `gate` may have a reason. It is checked for every workload, so it must be cheap."""
    return bool(workload.unmet or workload.after) or workload.not_before is not None


def gate(session: Session, workload: Workload) -> Refusal | None:
    """What keeps this very workload from being looked at now, or None."""
    plan = session.plan
    if wrong := _misconfigured(plan, workload):
        return wrong
    if workload.unmet:
        names = listed(workload.unmet)
        return Refusal(Reason.ADMISSION_GATED, f"Starts after {names}.", (("unmet", len(workload.unmet)),))
    if workload.not_before is not None and workload.not_before > plan.snapshot.at:
        at = int(workload.not_before)
        return Refusal(
            Reason.BACKOFF_AFTER_FAILURE,
            f"Failed; retry at {clock_text(at)} cluster time.",
            (("not_before", at),),
        )
    if workload.team in session.over_budget:
        return _spent(session.over_budget[workload.team], workload.team)
    if workload.after:
        return awaiting(plan, workload)
    return None


def _spent(budget: Budget, team: str) -> Refusal:
    """The reason of a team whose budget, or whose parent's, is used up."""
    name = f"Team {budget.team}" if budget.team == team else f"Team {budget.team}, of which {team} is a part,"
    until = int(budget.until)
    text = (
        f"{name} has used {budget.used:g} of the {budget.hours:g} GPU hours of its budget for this {budget.period}; "
        f"nothing new starts before {datetime.fromtimestamp(until, UTC):%Y-%m-%d %H:%M} cluster time."
    )
    numbers = (("used_hours", f"{budget.used:g}"), ("budget_hours", f"{budget.hours:g}"), ("until", until))
    return Refusal(Reason.BUDGET_EXHAUSTED, text, (*numbers, ("team", budget.team)))


def awaiting(plan: Plan, workload: Workload) -> Refusal:
    """The reason of a workload that has its places and waits for others to leave them."""
    known = plan.snapshot.workloads
    leaving = [uid for uid in workload.after if uid in known]
    victims = mention(*leaving) if leaving else "others"
    return Refusal(
        Reason.WAITING_FOR_PREEMPTED_WORKLOADS,
        f"Its place is reserved; it waits for {victims} to leave.",
        (("leaving", len(leaving)),),
    )


def permanent(session: Session, workload: Workload) -> Refusal | None:
    """Why the workload could not start even in an empty cluster, or None."""
    plan, known = session.plan, session.memo.possible
    tree = plan.usage.tree
    if known.holds(workload, plan.inventory, tree):
        return None
    impossible = role_reasons.never_whole if workload.roles else never
    if (wrong := _misconfigured(plan, workload)) or (wrong := impossible(plan.inventory, session.memo.empty, workload)):
        return wrong
    need = workload.need_milli(least(workload))
    most = {f.pool: tree.ceiling(workload.team, f.pool) for f in session.flavors.of(workload) if f is not None}
    if most and max(most.values()) < need:
        pool = max(most, key=lambda name: (most[name], name))
        return Refusal(
            Reason.EXCEEDS_MAX_QUOTA,
            f"Needs {gpus_counted(need)}; team {workload.team} may use at most {gpus_text(most[pool])} in {pool}.",
            (("needs_milli", need), ("most_milli", most[pool]), ("pool", pool)),
        )
    known.note(workload, plan.inventory, tree)
    return None


def behind(leader: Workload, asks: str = "the same") -> Refusal:
    """The reason of a workload that requests what an earlier one of its team could not get, or more."""
    name, request = mention(leader.id), "same request" if asks == "the same" else "no larger request"
    return Refusal(Reason.BEHIND_HIGHER_PRIORITY, f"Behind {name} ({request}).", (("behind", name),))


def why(session: Session, workload: Workload) -> Refusal:
    """Why no action could place the workload: its team's quota, else room. Only for workloads that were not placed."""
    limits = _limits(session, workload)
    options = [flavor for flavor, limit in limits if limit is None]
    if not options:
        return _beyond_quota(workload, limits)
    return _too_often_preempted(session, workload) or no_places(session, workload, options)


def _too_often_preempted(session: Session, workload: Workload) -> Refusal | None:
    """It was preempted too often to borrow, and its team's nominal quota has no room for it."""
    plan = session.plan
    if workload.id not in session.preemption_limited:
        return None
    need = workload.need_milli(least(workload))
    pools = [f.pool for f in session.flavors.of(workload) if f is not None]
    if not pools or any(plan.usage.within_nominal(workload.team, pool, FUTURE_IDLE) >= need for pool in pools):
        return None
    team, pool, times = workload.team, pools[0], len(workload.preempted_by)
    total, owned = plan.usage.total[FUTURE_IDLE][team, pool], plan.usage.tree.quota_nodes[team, pool].nominal
    text = (
        f"Preempted {times} times, so it starts only within the quota of its team; it needs {gpus_counted(need)}, "
        f"and team {team} has {gpus_text(total)} of its quota of {gpus_text(owned)} in {pool} allocated."
    )
    numbers = (("needs_milli", need), ("held_milli", total), ("owned_milli", owned), ("preempted", times))
    return Refusal(Reason.FAIR_SHARE_EXCEEDED, text, (*numbers, ("team", team), ("pool", pool)))


def kept_out(session: Session, workload: Workload) -> Refusal | None:
    """It would fit, but could then delay the planned start of a larger workload that has waited longer; or None."""
    plan = session.plan
    kept = session.constraints.keeping_out(workload, session.flavors.of(workload))
    states = (IDLE, FUTURE_IDLE) if plan.leaving else (IDLE,)
    if kept is None or not any(fits(session, workload, when) for when in states):
        return None
    return _kept_for(plan, workload, kept, "Would fit, but the room is reserved")


def would_delay(session: Session, workload: Workload) -> Refusal:
    """Preemption could make room for it, but a larger workload would then start later than planned."""
    plan = session.plan
    kept = next(session.constraints.binding(workload))
    return _kept_for(plan, workload, kept, "Preemption could make room for it, but that room is reserved")


def _kept_for(plan: Plan, workload: Workload, kept: Reservation, what: str) -> Refusal:
    head, start = kept.workload, kept.start
    name = mention(head.id)
    text = f"{what} for {name}, planned to start at {clock_text(start.at)} cluster time"
    end = kept.high_end(workload)
    numbers = (("reserved_for", name), ("planned_start", int(start.at)))
    if isinf(end):
        return Refusal(Reason.RESERVED_FOR_LARGER_JOB, f"{text}, and this one may still run then.", numbers)
    return Refusal(
        Reason.RESERVED_FOR_LARGER_JOB,
        f"{text}, and this one may run for {length_text(end - plan.snapshot.at)}.",
        (*numbers, ("may_run_seconds", int(end - plan.snapshot.at))),
    )


def over_quota(session: Session, workload: Workload) -> Refusal | None:
    """Which quota forbids the workload in every pool, or None."""
    limits = _limits(session, workload)
    return None if any(limit is None for _, limit in limits) else _beyond_quota(workload, limits)


def _limits(session: Session, workload: Workload) -> list[tuple[Flavor | None, Limit | None]]:
    """The flavors it may use, best first, with the limit that forbids each; None: quota allows it."""
    plan = session.plan
    need, usage = workload.need_milli(least(workload)), plan.usage
    return [(f, None if f is None else usage.limit(workload, f.pool, need)) for f in session.flavors.of(workload)]


def _beyond_quota(workload: Workload, limits: list[tuple[Flavor | None, Limit | None]]) -> Refusal:
    found = [limit for _, limit in limits if limit is not None]
    return _over(workload, workload.need_milli(least(workload)), min(found, key=lambda limit: ORDER[limit.reason]))


def no_places(session: Session, workload: Workload, options: list[Flavor | None]) -> Refusal:
    """Why there is no room on these flavors."""
    plan = session.plan
    return (
        beside_others(plan, workload, options)
        or _kept_for_others(plan, workload, options)
        or _too_far_apart(plan, workload, options)
        or _no_room(plan, workload, options)
    )


def _misconfigured(plan: Plan, workload: Workload) -> Refusal | None:
    ask, gang = workload.ask, workload.gang
    if workload.team not in plan.usage.tree.paths:
        return Refusal(Reason.MISCONFIGURED, f"Team {workload.team} does not exist. Submit it to another team.")
    if ask.gpus and ask.share:
        return Refusal(Reason.MISCONFIGURED, "Requests both whole GPUs and a share of one. Request only one of them.")
    fewest = 0 if workload.kind is Kind.INFERENCE else 1  # a service may have no replica while nothing comes
    if not fewest <= gang.min <= gang.count:
        return Refusal(
            Reason.MISCONFIGURED, f"workers.min is {gang.min} but count is {gang.count}. Set min to 1..{gang.count}."
        )
    return role_reasons.misconfigured(workload) if workload.roles else None


def _over(workload: Workload, need: int, limit: Limit) -> Refusal:
    held, most, wants = gpus_text(limit.held), gpus_text(limit.most), gpus_counted(need)
    sentence = {
        Reason.NON_PREEMPTIBLE_OVER_QUOTA: f"Needs {wants} that may not be preempted; team {limit.team} has "
        f"{held} such allocated, its quota in {limit.pool} is {most}.",
        Reason.WAITING_FOR_QUOTA: f"Needs {wants}; team {limit.team} has {held} of at most {most} allocated in "
        f"{limit.pool}.",
        Reason.OVER_LIMIT: f"Needs {wants}; team {limit.team}, of which {workload.team} is a part, has {held} "
        f"of at most {most} allocated in {limit.pool}.",
        Reason.FAIR_SHARE_EXCEEDED: f"Needs {wants}; team {limit.team} has {held} allocated, its quota in {limit.pool} "
        f"is {most}, and no team has idle quota to lend.",
    }[limit.reason]
    numbers = (("needs_milli", need), ("held_milli", limit.held), ("most_milli", limit.most))
    return Refusal(limit.reason, sentence, (*numbers, ("team", limit.team), ("pool", limit.pool)))


def _kept_for_others(plan: Plan, workload: Workload, options: list[Flavor | None]) -> Refusal | None:
    """It would fit on what is free this moment, but that is reserved."""
    if not plan.reserved:
        return None
    inventory = plan.inventory
    gpu = inventory.gpu_capacity - plan.columns.gpu[IDLE]
    free = free_of(inventory, gpu, inventory.node_capacity - plan.columns.node[IDLE])
    if not has_places(plan, workload, plan.open_to(workload, free, IDLE), options):
        return None
    names = mention(*(w.id for w in sorted(plan.reserved.values(), key=lambda w: w.seq)))
    return Refusal(
        Reason.RESERVED_FOR_LARGER_JOB, f"Would fit, but the room is reserved for {names}.", (("reserved_for", names),)
    )


def _too_far_apart(plan: Plan, workload: Workload, options: list[Flavor | None]) -> Refusal | None:
    """It would fit if its workers could be further apart."""
    level = workload.topology.require
    if level is None:
        return None
    anywhere = replace(workload, topology=Topology())
    later = plan.open_to(workload, plan.free[FUTURE_IDLE], FUTURE_IDLE)
    if not has_places(plan, anywhere, later, options):
        return None
    name = {0: "NVLink domain", 1: "node", 2: "rack", 3: "zone"}.get(int(level), "cluster")
    return Refusal(
        Reason.TOPOLOGY_PLACEMENT_FAILED,
        f"Needs {members_text(workload)} in one {name}; there is room only across several.",
        (("level", name),),
    )


def _no_room(plan: Plan, workload: Workload, options: list[Flavor | None]) -> Refusal:
    if workload.roles:
        return role_reasons.no_room(plan, workload, options, _lent(plan, workload, options))
    ask, wanted, free = workload.ask, least(workload), plan.open_to(workload, plan.free[IDLE], IDLE)
    masks = [(flavor, allowed_nodes(plan.inventory, ask, flavor)) for flavor in options]
    fit = max(in_all(ask, per_node(plan.inventory, ask, free, mask)) for _, mask in masks)
    lent, lent_text = _lent(plan, workload, options)
    if wanted > 1 and fit:
        numbers = (("needs_workers", wanted), ("fit_workers", fit), *lent)
        return Refusal(
            Reason.GANG_INCOMPLETE,
            f"Needs {wanted} workers of {ask_text(ask)} at once{labels_text(ask)}; {fit} would fit now{lent_text}.",
            numbers,
        )
    if not ask.milli:
        return Refusal(Reason.WAITING_FOR_CAPACITY, f"Needs {ask_text(ask)} on one node; no node has that free.")
    any_mask = np.logical_or.reduce([mask for _, mask in masks])
    if ask.share:
        return _no_share(plan, workload, ask.share, any_mask, (lent, lent_text))
    best, total = int(free.idle[any_mask].max(initial=0)), int(free.idle[any_mask].sum())
    numbers = (("needs_gpus", ask.gpus), ("best_node_free", best), ("free_gpus", total), *lent)
    if best >= ask.gpus:
        text = f"Needs {ask_text(ask)} with {ask.cpu_milli / 1000:g} cores and {ask.memory} MiB on one node; "
        return Refusal(
            Reason.WAITING_FOR_CAPACITY, f"{text}nodes with enough free GPUs lack cores or memory{lent_text}.", numbers
        )
    text = f"Needs {ask_text(ask)} on one node; the best node has {best} free"
    if total >= ask.gpus:
        return Refusal(Reason.FRAGMENTED, f"{text}, {total} are free in total{lent_text}.", numbers)
    return Refusal(Reason.WAITING_FOR_CAPACITY, f"{text}{lent_text}.", numbers)


def _no_share(plan: Plan, workload: Workload, share: Share, mask: Bools, lent: Lent) -> Refusal:
    free = plan.open_to(workload, plan.free[IDLE], IDLE)
    compute = np.maximum(free.gpu[COMPUTE][mask[plan.inventory.node_of]], 0)
    best, total = int(compute.max(initial=0)), int(compute.sum())
    numbers = (("needs_milli", share.guarantee), ("best_gpu_free_milli", best), ("free_milli", total), *lent[0])
    text = f"Needs {ask_text(workload.ask)} on one GPU; the best GPU has {gpus_text(best)} free"
    if best >= share.guarantee and share.on_demand:
        return _no_host_memory(plan, workload.ask, share, mask, lent)
    if best >= share.guarantee:
        text += " but too little memory, there or on its node"
    elif total >= share.guarantee:
        return Refusal(Reason.FRAGMENTED, f"{text}, {gpus_text(total)} are free in total{lent[1]}.", numbers)
    return Refusal(Reason.WAITING_FOR_CAPACITY, f"{text}{lent[1]}.", numbers)


def _no_host_memory(plan: Plan, ask: ResourceRequest, share: Share, mask: Bools, lent: Lent) -> Refusal:
    """A notebook on demand has room on the GPUs of a node, but not in its memory, or no cores are free there."""
    cores, memory = plan.free[IDLE].node[COMPUTE], plan.free[IDLE].node[MEMORY]
    has_cores = mask & (cores >= ask.cpu_milli)
    best = int(memory[has_cores].max(initial=0))
    numbers = (("needs_host_mib", ask.memory), ("best_node_free_mib", best), *lent[0])
    own = ask.memory - share.on_demand
    text = (
        f"Needs {ask.memory} MiB of host memory on one node: {own} MiB of its own, and {share.on_demand} MiB for what "
        f"it has on a GPU (on demand); the best node"
    )
    return Refusal(Reason.WAITING_FOR_CAPACITY, f"{text} with cores for it has {best} MiB free{lent[1]}.", numbers)


def _lent(plan: Plan, workload: Workload, options: list[Flavor | None]) -> Lent:
    """How much of the team's quota is lent, and the team that borrows most."""
    usage, tree = plan.usage, plan.usage.tree
    best: tuple[int, str] = (0, "")
    for flavor in options:
        if flavor is None:
            continue
        own = usage.within_nominal(workload.team, flavor.pool, FUTURE_IDLE)
        name = next((n for n in usage.borrowers(flavor.pool) if n not in tree.path(workload.team)), "") if own else ""
        if name:
            over = usage.total[FUTURE_IDLE][name, flavor.pool] - tree.quota_nodes[name, flavor.pool].nominal
            best = max(best, (min(own, over), name))
    if best[0] <= 0:
        return (), ""
    gpus, team = gpus_text(best[0]), best[1]
    verb = "is" if best[0] == 1000 else "are"
    return (("lent_milli", best[0]), ("lent_to", team)), f"; {gpus} {verb} lent to team {team}"
