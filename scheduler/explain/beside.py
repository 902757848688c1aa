"""Why shares have no place beside those that lie on GPUs: other teams, models or labels; and the words for that."""

import numpy as np

from gpushare.packing import Bools, shares_that_fit
from scheduler.explain import role_reasons
from scheduler.fit.capacity import Refusal, allowed_nodes, ask_text, labels_text
from scheduler.fit.gang import Goal, find_places
from scheduler.model.decision import Reason
from scheduler.model.snapshot import IDLE, Flavor
from scheduler.model.workload import Workload, least
from scheduler.state.free import Free
from scheduler.state.plan import Plan
from scheduler.state.tenants import Tenants


def beside_others(plan: Plan, workload: Workload, options: list[Flavor | None]) -> Refusal | None:
    """It would fit beside shares of other teams, but not both teams allow that; or but for models or labels."""
    free = plan.free[IDLE]
    if (
        plan.open_to(workload, free, IDLE) is free
        or plan.tenants is None
        or not has_places(plan, workload, free, options)
    ):
        return None
    by_teams = plan.tenants.closed_to(workload, IDLE)
    allowed = Free(np.where(by_teams, 0, free.gpu), free.node, free.idle)
    if not by_teams.any() or has_places(plan, workload, allowed, options):
        by_models = _kept_off_by_models(plan, plan.tenants, workload, allowed, options)
        return by_models or _kept_off_by_labels(plan, plan.tenants, workload)
    closed = by_teams & _could_take(plan, workload, free, options)
    names = sorted({team for at in np.flatnonzero(closed).tolist() for team in plan.tenants.on(at)} - {workload.team})
    text = (
        f"Needs {members_text(workload)}; GPUs that have it free hold shares of {_teams(names)}, and two teams "
        f"share a GPU only where both allow it."
    )
    return Refusal(Reason.WAITING_FOR_CAPACITY, text, (("neighbours", ", ".join(names)),))


def _could_take(plan: Plan, workload: Workload, free: Free, options: list[Flavor | None]) -> Bools:
    """The devices that have room for one of its shares. Shape [G]."""
    shares = [ask.share for ask in (workload.ask, *(role.ask for role in workload.roles)) if ask.share]
    could = np.logical_or.reduce([shares_that_fit(free.gpu, share) > 0 for share in shares])
    there = np.logical_or.reduce([allowed_nodes(plan.inventory, workload.ask, flavor) for flavor in options])
    found: Bools = could & there[plan.inventory.node_of]
    return found


def _kept_off_by_models(
    plan: Plan, tenants: Tenants, workload: Workload, free: Free, options: list[Flavor | None]
) -> Refusal | None:
    """It would fit beside other models, but nothing there says that it holds shares to their parts; or None."""
    alone = plan.beside_no_model(workload, free, IDLE)
    if alone is free or has_places(plan, workload, alone, options):
        return None
    closed = tenants.closed_to_model(workload, IDLE) & _could_take(plan, workload, free, options)
    nodes = plan.inventory.nodes
    pools = sorted({nodes[at].pool for at in plan.inventory.node_of[closed].tolist()})
    text = (
        f"Needs {members_text(workload)}; GPUs that have it free hold another model, and what holds shares in node "
        f"{'pool' if len(pools) == 1 else 'pools'} {listed(pools)} is advisory, so each GPU there takes one model. It "
        f"needs a pool with a back-end that enforces shares, or whole GPUs."
    )
    return Refusal(Reason.WAITING_FOR_CAPACITY, text, (("advisory", ", ".join(pools)),))


def _kept_off_by_labels(plan: Plan, tenants: Tenants, workload: Workload) -> Refusal:
    """Which labels, its own or those of shares on GPUs that have room, keep it off these."""
    labels, inventory = workload.ask.labels, plan.inventory
    kept = []
    if labels.affinity:
        at = [(device, int(inventory.node_of[device])) for device in tenants.carries(workload).tolist()]
        on = [f"GPU {device - int(inventory.offset[node])} of {inventory.nodes[node].name}" for device, node in at]
        none = "no share with it has a GPU yet, and the first one needs an idle one"
        there = f"its shares lie on {listed(on)}" if on else none
        kept.append((f"affinity {labels.affinity}", there))
    if labels.anti_affinity:
        kept.append((f"anti-affinity {labels.anti_affinity}", "others with it lie there"))
    if labels.exclusion or not kept:
        own = f"exclusion {labels.exclusion}" if labels.exclusion else "exclusion"
        kept.append((own, "only shares with the same exclusion lie on one GPU"))
    words = "; or ".join(f"{name}: {why}" for name, why in kept)
    text = f"Needs {members_text(workload)}; GPUs have that free, but labels of shares keep it off them ({words})."
    return Refusal(Reason.WAITING_FOR_CAPACITY, text, (("labels", ", ".join(name for name, _ in kept)),))


def _teams(names: list[str]) -> str:
    return f"{'team' if len(names) == 1 else 'teams'} {listed(names)}" if names else "other teams"


def has_places(plan: Plan, workload: Workload, free: Free, options: list[Flavor | None]) -> bool:
    """Whether the least of a workload has places on one of these flavors with so much free."""
    goal = Goal(least(workload), least(workload))
    return any(find_places(plan.inventory, workload, goal, free, flavor) is not None for flavor in options)


def members_text(workload: Workload) -> str:
    """What must start of it, in words: `3 workers of 2 GPUs`."""
    if workload.roles:
        return role_reasons.gang_text(workload)
    count = least(workload)
    labels = labels_text(workload.ask) if count > 1 else ""
    return f"{f'{count} workers' if count > 1 else 'a worker'} of {ask_text(workload.ask)}{labels}"


def listed(names: tuple[str, ...] | list[str]) -> str:
    """`a, b and 3 more`: messages stay short."""
    shown = list(names[:3])
    rest = len(names) - len(shown)
    if rest:
        return f"{', '.join(shown)} and {rest} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]
