"""Why a gang with several roles waits, in words that name the roles."""

from collections.abc import Sequence
from dataclasses import replace

from scheduler.fit.capacity import EmptyCluster, Refusal, allowed_nodes, ask_text, empty, fitting, never, per_node
from scheduler.fit.gang import Goal, find_places
from scheduler.fit.roles import Member, alone, members
from scheduler.model.decision import Reason
from scheduler.model.snapshot import IDLE, Flavor, Inventory
from scheduler.model.workload import MAIN_ROLE, Topology, Workload, least
from scheduler.state.plan import Plan


def gang_text(workload: Workload) -> str:
    """All that must start, by role: `2 x ps (2 cores and 4096 MiB) and 4 x worker (1 GPU)`."""
    parts = [f"{member.count} x {name} ({ask_text(member.ask)})" for name, member in named(workload)]
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def named(workload: Workload) -> list[tuple[str, Member]]:
    """All roles that must start by name, in the order of their ranks."""
    names = [*(role.name for role in workload.roles), MAIN_ROLE]
    return list(zip(names, members(workload, least(workload)), strict=True))


def misconfigured(workload: Workload) -> Refusal | None:
    """What is wrong with its roles by themselves, or None."""
    names = [role.name for role in workload.roles]
    if workload.ask.labels or any(role.ask.labels for role in workload.roles):
        text = (
            "Shares of a gang with roles have no affinity, anti_affinity or exclusion. Remove the labels or the roles."
        )
        return Refusal(Reason.MISCONFIGURED, text)
    for role in workload.roles:
        if role.count < 1:
            text = f"roles: {role.name} has {role.count} members. Set its count to 1 or more."
            return Refusal(Reason.MISCONFIGURED, text)
        if role.name == MAIN_ROLE or names.count(role.name) > 1:
            text = f"roles: the name {role.name} is used twice. Give each role its own; {MAIN_ROLE} are the workers."
            return Refusal(Reason.MISCONFIGURED, text)
        if role.ask.gpus and role.ask.share:
            text = f"roles: {role.name} requests both whole GPUs and a share of one. Request only one of them."
            return Refusal(Reason.MISCONFIGURED, text)
    return None


def never_whole(inventory: Inventory, known: EmptyCluster, workload: Workload) -> Refusal | None:
    """Why its roles, each by itself or all together, could not start even if the cluster were empty, or None."""
    for name, member in named(workload):
        wrong = never(inventory, known, alone(workload, member.ask, member.count))
        if wrong is not None:
            return wrong._replace(message=f"Role {name}: {wrong.message}")
    if workload.uses_gpus and not fitting(inventory, workload):
        text = f"Needs {gang_text(workload)} on one GPU model; no model in the cluster is allowed for all of them."
        return Refusal(Reason.NO_MATCHING_FLAVOR, text)
    key = (workload.ask, workload.roles, least(workload))
    whole, usable = known.holds(inventory, key, lambda: _holds(inventory, workload))
    if not whole:
        text = f"Needs {gang_text(workload)} at once; the whole cluster could not hold all of them."
        return Refusal(Reason.NO_MATCHING_FLAVOR, text)
    if not usable:
        text = (
            f"Needs {gang_text(workload)} at once; the ready and schedulable nodes could not hold all of them. "
            f"Others are down, cordoned or have lost GPUs."
        )
        return Refusal(Reason.WAITING_FOR_NODES, text)
    return None


def no_room(
    plan: Plan, workload: Workload, options: list[Flavor | None], lent: tuple[tuple[tuple[str, int | str], ...], str]
) -> Refusal:
    """Which role has no room now, or that only all together have none. lent: figures and words, as in `reasons`."""
    text, numbers = f"Needs {gang_text(workload)} at once", lent[0]
    for name, member in named(workload):
        masks = [allowed_nodes(plan.inventory, member.ask, f if member.ask.milli else None) for f in options]
        fit = max(int(per_node(plan.inventory, member.ask, plan.free[IDLE], mask).sum()) for mask in masks)
        if fit < member.count:
            text += f"; {fit} of the {member.count} x {name} would fit now{lent[1]}."
            counts = (("role", name), ("needs_workers", member.count), ("fit_workers", fit))
            return Refusal(Reason.GANG_INCOMPLETE, text, (*counts, *numbers))
    return Refusal(Reason.GANG_INCOMPLETE, f"{text}; each role would fit now, but not all of them{lent[1]}.", numbers)


def _holds(inventory: Inventory, workload: Workload) -> tuple[int, int]:
    """Whether the empty cluster takes it, wherever its members are (1) or not (0): with all its nodes, as they are."""
    anywhere = replace(workload, topology=Topology(), placement=())
    goal = Goal(least(workload), least(workload))
    options: Sequence[Flavor | None] = fitting(inventory, workload) if workload.uses_gpus else [None]

    def fits(is_whole: bool, nodes: Inventory) -> bool:
        free = empty(inventory, is_whole)
        return any(find_places(nodes, anywhere, goal, free, flavor) is not None for flavor in options)

    if fits(False, inventory):
        return 1, 1
    mended = Inventory(tuple(replace(n, ready=True, schedulable=True, lost=()) for n in inventory.nodes))
    return int(fits(True, mended)), 0
