"""Teams, quotas, machines and usage as the REST API shows them, with the rights of the user who asks."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import F, QuerySet, Sum

from controlplane.domain.ondemand import on_demand
from controlplane.jobspec.quantities import iso
from controlplane.models import ClusterState, Node, NodePool, PriorityClass, Quota, Team
from controlplane.queries.accounts import access, accounts
from controlplane.queries.cells import views
from controlplane.queries.scheduling import cluster, ledger
from controlplane.queries.tenancy import teams
from controlplane.queries.tenancy.enforcement import enforcement
from controlplane.queries.workloads.prices import MILLI_SECONDS_PER_GPU_HOUR, used
from controlplane.queries.workloads.workloadrows import HERE
from scheduler.cells.route import shown

STEPS = {"hour": 3600, "day": 86_400, "all": 0}
DIMENSIONS = {"team": "team__name", "user": "user", "pool": "pool", "workload": "workload"}
MAX_ROWS = 10_000


class TooMany(Exception):  # noqa: N818 - reads as the fact it is
    """An answer of more than MAX_ROWS rows."""


def scope(user: access.Person) -> list[str] | None:
    """The names of the teams whose things the user may see; None = all."""
    return None if access.is_platform_admin(user) else access.team_names(user)


# --- teams and quotas -------------------------------------------------------------------------


def team_rows(user: access.Person) -> list[dict[str, Any]]:
    """The teams that the user may see, by name; the number of queries does not depend on theirs."""
    roles = access.roles(user)
    return [_team(row, roles[row.name].value) for row in teams.rows() if row.name in roles]


def team(user: access.Person, name: str) -> dict[str, Any] | None:
    """One team with its quotas and members; None if not visible."""
    found = next((row for row in team_rows(user) if row["name"] == name), None)
    if found is None:
        return None
    managed_by, pods, gpus = Team.objects.values_list("managed_by", "other_pods", "other_gpus").get(name=name)
    others = {"pods": pods, "gpus": gpus}
    rows = [quota_row(q) for q in quotas(user, name)]
    more = {"managed_by": managed_by or HERE, "other_pods": others}
    return {**found, **more, "quotas": rows, "members": accounts.members(name)}


def quotas(user: access.Person, team: str | None = None, pool: str | None = None) -> QuerySet[Quota]:
    """The quotas of visible teams, by team and pool."""
    found = Quota.objects.select_related("team", "pool").prefetch_related("parts").order_by("team__name", "pool__name")
    seen = scope(user)
    found = found if seen is None else found.filter(team__name__in=seen)
    wanted = {"team__name": team, "pool__name": pool}
    return found.filter(**{column: value for column, value in wanted.items() if value is not None})


def quota_row(quota: Quota) -> dict[str, Any]:
    """One quota, milli-GPU; null = no limit."""
    return {
        "team": quota.team.name,
        "pool": quota.pool.name,
        "nominal_milli": quota.nominal,
        "borrowing_limit_milli": quota.borrowing_limit,
        "lending_limit_milli": quota.lending_limit,
        "weight": quota.weight,
        "version": quota.version,
        **_parts(quota),
    }


def _parts(quota: Quota) -> dict[str, Any]:
    """What each cell has of it, where there are cells."""
    found = sorted(quota.parts.all(), key=lambda part: part.cell)
    limits = ("nominal", "borrowing_limit", "lending_limit")
    shown_of = [{"cell": shown(p.cell), **{f"{name}_milli": getattr(p, name) for name in limits}} for p in found]
    return {"parts": shown_of} if found else {}


def has_team(name: str) -> bool:
    """Whether there is such a team. Platform admins may read of any name."""
    return Team.objects.filter(name=name).exists()


def quota_at(team: str, pool: str) -> tuple[Team, NodePool, Quota | None] | None:
    """A team, a pool, and what the team owns there; None if there is no such team or pool. For platform admins."""
    found, where = Team.objects.filter(name=team).first(), NodePool.objects.filter(name=pool).first()
    if found is None or where is None:
        return None
    return found, where, Quota.objects.select_related("team", "pool").filter(team=found, pool=where).first()


# --- machines ---------------------------------------------------------------------------------


def priority_classes() -> list[dict[str, Any]]:
    """Every class, the highest first."""
    names = ("name", "value", "preemptible", "is_default")
    return list(PriorityClass.objects.order_by("-value", "name").values(*names))


def node_pools(user: access.Person) -> list[dict[str, Any]]:
    """Every pool with what it has; its price for people who have a role in some team, else null."""
    knows = access.knows_prices(user)
    return [
        {
            "name": pool.name,
            "gpu_model": pool.gpu_model,
            "gpus": pool.capacity // 1000,
            "price_per_gpu_hour": pool.price_per_gpu_hour if knows else None,
            "nodes": pool.nodes,
            "capacity_milli": pool.capacity,
            "nominal_milli": pool.nominal,
            "allocated_milli": pool.held,
            "takes": pool.takes.value,
            "share_nodes": pool.share_nodes,
            "enforcer": pool.chosen,
            **enforcement(pool.enforced_by),
        }
        for pool in teams.pools()
    ]


def node_pool(user: access.Person, name: str) -> dict[str, Any] | None:
    """One pool; None if there is none of this name."""
    return next((row for row in node_pools(user) if row["name"] == name), None)


def pool_at(name: str) -> NodePool | None:
    """One pool's row."""
    return NodePool.objects.filter(name=name).first()


def node_keys(pool: str = "", rack: str | None = None) -> list[dict[str, Any]]:
    """The names of the machines of a pool and a rack, where these are given. One query."""
    wanted = {"pool__name": pool or None, "rack": rack}
    found = Node.objects.filter(**{column: value for column, value in wanted.items() if value is not None})
    return [{"name": name} for name in found.values_list("name", flat=True)]


def nodes(user: access.Person, wanted: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """These machines of `node_keys` with their GPUs and the workloads on them."""
    cells = views.known()
    found = cluster.hosts([key["name"] for key in wanted], scope(user))
    return [_node(node) | views.of_node(node, cells) for node in found]


def node(user: access.Person, name: str) -> dict[str, Any] | None:
    """One machine, or None."""
    found = cluster.node(name, scope(user))
    return None if found is None else _node(found) | views.of_node(found, views.known())


def gpu_keys(pool: str = "", node: str | None = None, *, is_shared: bool = False) -> list[dict[str, Any]]:
    """Node and index of every device; is_shared: only of those of which somebody has a part."""
    return [{"node": name, "index": index} for name, index in ledger.keys(pool, node, is_shared=is_shared)]


def gpus(user: access.Person, wanted: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """These devices of `gpu_keys` with their machines, the workloads on them, and their last measured use."""
    return [_device(one) for one in ledger.devices([(key["node"], key["index"]) for key in wanted], scope(user))]


def gpu_profiles() -> list[dict[str, Any]]:
    """The kinds of devices there are: model and memory, how many, in which pools."""
    kinds: dict[tuple[str, int], dict[str, Any]] = {}
    found = Node.objects.filter(gpu_count__gt=0).order_by("pool__name")
    for model, memory, count, pool in found.values_list("gpu_model", "gpu_memory", "gpu_count", "pool__name"):
        kind = kinds.setdefault((model, memory), {"nodes": 0, "gpus": 0, "node_pools": []})
        kind["nodes"], kind["gpus"] = kind["nodes"] + 1, kind["gpus"] + count
        kind["node_pools"] += [] if pool in kind["node_pools"] else [pool]
    return [{"name": f"{m or 'unknown'}-{b}Mi", "gpu_model": m, "memory_mib": b, **k} for (m, b), k in kinds.items()]


def topologies(user: access.Person) -> list[dict[str, Any]]:
    """Each rack with its zone and machines: what `topology` of a job file is about."""
    return [
        {
            "zone": rack.zone,
            "rack": rack.name,
            "nodes": [{"name": n.name, "gpus": len(n.gpus), "nvlink": n.nvlink} for n in rack.nodes],
            "gpus": rack.gpus,
            "whole_free_gpus": rack.whole_free,
        }
        for rack in cluster.racks(scope(user))
    ]


def cluster_state() -> dict[str, Any]:
    """The cluster's clock and what drives it."""
    state = ClusterState.objects.order_by("id").first() or ClusterState()
    return {
        "now": iso(state.now),
        "seconds": state.now,
        "is_simulated": state.is_simulated,
        "preset": state.preset,
        "speed": state.speed if state.is_simulated else None,
        "paused": state.paused,
        "observed_at": iso(state.observed_at.timestamp()) if state.observed_at else None,
    }


# --- usage ------------------------------------------------------------------------------------


def usage(
    user: access.Person, *, group_by: Sequence[str], granularity: str, since: float, until: float
) -> list[dict[str, Any]]:
    """GPU time held and computed in [since, until) of the cluster's clock, by step and dimensions. Raises TooMany.

    By team alone it is for all users; by user, pool or workload only of the teams that the user may see.
    """
    rows = used(since, until, None if is_by_team_alone(group_by) else scope(user))
    keys = [DIMENSIONS[name] for name in group_by]
    step = STEPS[granularity]
    if step:
        rows = rows.annotate(start=F("hour") - F("hour") % step)
        keys = ["start", *keys]
    if "workload" in group_by:
        keys.append("name")
    summed = rows.order_by(*keys).values(*keys).annotate(held_sum=Sum("held"), computed_sum=Sum("computed"))
    found = list(summed[: MAX_ROWS + 1])
    if len(found) > MAX_ROWS:
        raise TooMany
    return [_used(row, group_by, since) for row in found]


def _used(row: dict[str, Any], group_by: Sequence[str], since: float) -> dict[str, Any]:
    named = {name: row[DIMENSIONS[name]] for name in group_by}
    if "workload" in named:
        named |= {"workload": str(named["workload"]), "name": row["name"]}
    held, computed = row["held_sum"], row["computed_sum"]
    return {
        "start": iso(row.get("start", since)),
        **named,
        "allocated_milli_seconds": held,
        "computed_milli_seconds": computed,
        "allocated_gpu_hours": round(held / MILLI_SECONDS_PER_GPU_HOUR, 3),
        "computed_gpu_hours": round(computed / MILLI_SECONDS_PER_GPU_HOUR, 3),
    }


def is_by_team_alone(group_by: Sequence[str]) -> bool:
    """Whether a report tells nothing of single users or workloads of a team."""
    return set(group_by) == {"team"}


# --- rows -------------------------------------------------------------------------------------


def _team(row: teams.TeamRow, role: str) -> dict[str, Any]:
    return {
        "name": row.name,
        "parent": row.parent or None,
        "colour": row.colour,
        "role": role,
        "nominal_milli": row.nominal,
        "allocated_milli": row.held,
        "borrowed_milli": row.borrowed,
        "computing_milli": row.computing,
        "waiting": row.waiting,
        "running": row.running,
        "shares_with_others": row.shares_with_others,
        "reallocation": row.reallocation,
        "notebook_park_minutes": row.notebook_park_minutes,
        "notebook_max_milli": row.notebook_max_milli,
        "notebook_extend": row.notebook_extend,
        "share_demands": list(row.share_demands),
    }


def _device(row: ledger.Device) -> dict[str, Any]:
    same = ("pool", "gpu_model", "zone", "rack", "ready", "schedulable", "enforced_by")
    return {
        "node": row.node.name,
        **{name: getattr(row.node, name) for name in same},
        "gpu_memory_mib": row.node.gpu_memory,
        "index": row.gpu.index,
        "healthy": row.gpu.healthy,
        "duty": row.gpu.duty,
        "memory_used_mib": row.gpu.memory_used,
        "allocated_milli": row.held,
        "neighbours": row.neighbours,
        "tenants": [_entry(one) for one in row.entries],
    }


def _entry(one: ledger.Entry) -> dict[str, Any]:
    return {
        "team": one.team,
        "workload": str(one.uid) if one.uid else None,
        "name": one.name or None,
        "milli": one.guarantee,
        "hold": one.hold.value,
        "may_use_milli": one.limit,
        "may_use_memory_mib": one.memory or None,
        "measured_duty": one.duty,
        "measured_memory_mib": one.memory_used,
        "is_leaving": one.is_leaving,
        **on_demand(one.on_gpu),
    }


def _node(row: cluster.NodeRow) -> dict[str, Any]:
    same = ("name", "pool", "gpu_model", "cpu_milli", "zone", "rack", "nvlink", "ready", "schedulable")
    return {
        **{name: getattr(row, name) for name in same},
        "gpu_count": len(row.gpus),
        "gpu_memory_mib": row.gpu_memory,
        "memory_mib": row.memory,
        "allocated_milli": row.held,
        "takes": list(row.takes),
        **enforcement(row.enforced_by),
        "gpus": [
            {
                "index": gpu.index,
                "healthy": gpu.healthy,
                "duty": gpu.duty,
                "memory_used_mib": gpu.memory_used,
                "allocated_milli": gpu.held,
                "tenants": [
                    {
                        "team": t.team,
                        "workload": str(t.uid) if t.uid else None,
                        "name": t.name or None,
                        "milli": t.milli,
                    }
                    for t in gpu.tenants
                ],
            }
            for gpu in row.gpus
        ],
    }
