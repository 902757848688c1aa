"""Quotas, priority classes and node pools: what an admin sets. Warnings are told, not refused."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import F, Sum

from controlplane.models import Chosen, Node, NodePool, PriorityClass, Quota, Takes, Team, Workload
from controlplane.runtime.wake import wake
from controlplane.services.audit import events
from controlplane.services.cells import parts
from controlplane.services.errors import Refused
from controlplane.services.scheduling import changes
from controlplane.services.tenancy import teams
from gpushare.gpu import WHOLE
from scheduler.model.team import owned_together
from scheduler.model.workload import ENDED

SHARES_ONLY = (Chosen.MIG, Chosen.MPS, Chosen.HAMI, Chosen.DRA)  # the device plugin offers parts there, no whole GPU
MAX_MILLI = 10**9  # a million GPUs
MAX_PRIORITY = 1_000_000


@transaction.atomic
def save(
    *,
    team: Team,
    pool: NodePool,
    nominal: int,
    borrowing_limit: int | None = None,
    lending_limit: int | None = None,
    weight: int = 1,
    actor: str,
    version: int | None = None,
    by_object: bool = False,
) -> tuple[Quota, tuple[str, ...]]:
    """Set what a team owns in a pool, in milli-GPU; tell the quota and warnings.

    `version` is the one the caller saw (None: whatever it is); Refused 412 if another has changed it meanwhile.
    """
    values = {"nominal": nominal, "borrowing_limit": borrowing_limit, "lending_limit": lending_limit, "weight": weight}
    _check(values)
    teams.require_here(team, by_object=by_object)
    before = Quota.objects.select_for_update(no_key=True).filter(team=team, pool=pool).first()
    if version is not None and version != (before.version if before else 0):
        now = f"its version is {before.version}, not {version}" if before else "there is none now"
        message = f"The quota of {team} in {pool} was changed meanwhile: {now}. Read it again."
        raise Refused(412, "VersionMismatch", "version", message)
    if before is None:
        quota = Quota.objects.create(team=team, pool=pool, **values)
    else:
        Quota.objects.filter(pk=before.pk).update(version=F("version") + 1, **values)
        quota = Quota.objects.get(pk=before.pk)
    was = {name: getattr(before, name) for name in values} if before else {}
    if was != values:
        changed = {name: [was.get(name), value] for name, value in values.items() if was.get(name) != value}
        events.record(kind="QuotaChanged", actor=actor, team=team.name, name=pool.name, data=changed)
        _touch()
    return quota, warnings(pool=pool)


@transaction.atomic
def remove(*, quota: Quota, actor: str, by_object: bool = False) -> None:
    """Take a team's quota in a pool away; what it runs there goes on until others claim the room."""
    teams.require_here(quota.team, by_object=by_object)
    parts.alone()
    events.record(kind="QuotaRemoved", actor=actor, team=quota.team.name, name=quota.pool.name)
    quota.delete()
    _touch()


def warnings(*, pool: NodePool) -> tuple[str, ...]:
    """What is odd about a pool's quotas, as sentences."""
    capacity = (Node.objects.filter(pool=pool).aggregate(n=Sum("gpu_count"))["n"] or 0) * WHOLE
    parents = dict(Team.objects.values_list("pk", "parent_id"))
    owned = owned_together(parents, dict(Quota.objects.filter(pool=pool).values_list("team_id", "nominal")))
    if owned <= capacity:
        return ()
    return (
        f"The quotas of the teams in {pool} add up to {owned / WHOLE:g} GPUs, but it has {capacity / WHOLE:g}. "
        "Not all of them can be used at once.",
    )


def _check(values: Mapping[str, int | None]) -> None:
    for name, value in values.items():
        if value is None and name in ("borrowing_limit", "lending_limit"):
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_MILLI:
            raise Refused(422, "BadQuota", name, f"{name} is {value}. Give a whole number from 0 to {MAX_MILLI}.")
    if not 1 <= (values["weight"] or 0) <= 10_000:
        raise Refused(422, "BadQuota", "weight", f"weight is {values['weight']}. Give a whole number from 1 to 10000.")
    lending, nominal = values["lending_limit"], values["nominal"] or 0
    if lending is not None and lending > nominal:
        message = f"lending_limit is {lending} but nominal is {nominal}. Set lending_limit to at most {nominal}."
        raise Refused(422, "BadQuota", "lending_limit", message)


# --- priority classes -------------------------------------------------------------------------


@transaction.atomic
def save_priority(
    *, name: str, value: int, preemptible: bool = True, is_default: bool = False, actor: str
) -> PriorityClass:
    """Create or change a priority class; workloads that have not ended follow it."""
    if not -MAX_PRIORITY <= value <= MAX_PRIORITY:
        message = f"value is {value}. Give a whole number from {-MAX_PRIORITY} to {MAX_PRIORITY}."
        raise Refused(422, "BadPriority", "value", message)
    if is_default:
        PriorityClass.objects.exclude(name=name).filter(is_default=True).update(is_default=False)
    values = {"value": value, "preemptible": preemptible, "is_default": is_default}
    before = PriorityClass.objects.filter(name=name).values(*values).first()
    found, _ = PriorityClass.objects.update_or_create(name=name, defaults=values)
    live = Workload.objects.filter(priority_class=found).exclude(phase__in=sorted(p.value for p in ENDED))
    stale = live.exclude(priority=value, preemptible=preemptible)
    uids = list(stale.order_by("pk").select_for_update(no_key=True).values_list("pk", flat=True))
    stale.update(priority=value, preemptible=preemptible, version=F("version") + 1)
    events.record(kind="PriorityClassChanged", actor=actor, name=name, data=_difference(before, values))
    changes.touch(uids)
    wake("schedule")
    return found


# --- node pools -------------------------------------------------------------------------------


@transaction.atomic
def save_pool(*, name: str, gpu_model: str = "", price_per_gpu_hour: Decimal = Decimal(0), actor: str) -> NodePool:
    """Create a node pool, or change its model or price."""
    if price_per_gpu_hour < 0:
        raise Refused(422, "BadPrice", "price_per_gpu_hour", "price_per_gpu_hour is below 0. Give 0 or more.")
    values = {"gpu_model": gpu_model, "price_per_gpu_hour": price_per_gpu_hour}
    before = NodePool.objects.filter(name=name).values(*values).first()
    pool, _ = NodePool.objects.update_or_create(name=name, defaults=values)
    events.record(kind="NodePoolChanged", actor=actor, name=name, data=_difference(before, values))
    _touch()
    return pool


@transaction.atomic
def change_pool(*, pool: NodePool, takes: str | None = None, enforcer: str | None = None, actor: str) -> None:
    """Say for what new work may take a pool's GPUs, and what holds shares there to their parts; what runs there stays.

    None: it stays as it is. enforcer empty: what the nodes say of themselves.
    """
    before = NodePool.objects.select_for_update(no_key=True).get(pk=pool.pk)
    was = {"takes": before.takes, "enforcer": before.enforcer}
    wanted = {name: was[name] if value is None else value for name, value in (("takes", takes), ("enforcer", enforcer))}
    if wanted["takes"] not in Takes.values:
        raise Refused(422, "BadTakes", "takes", f"takes is {takes}. Give {', '.join(Takes.values)}.")
    if wanted["enforcer"] and wanted["enforcer"] not in Chosen.values:
        message = f"enforcer is {enforcer}. Give {', '.join(Chosen.values)}, or leave it empty."
        raise Refused(422, "BadEnforcer", "enforcer", message)
    if wanted == was:
        return
    if wanted["enforcer"] in SHARES_ONLY and wanted["takes"] != Takes.SHARES:
        message = (
            f"Where {wanted['enforcer']} divides the GPUs, none is whole to Kubernetes, and {pool.name} takes "
            f"{wanted['takes']}. Set takes to shares, or choose another enforcer."
        )
        raise Refused(422, "SharesOnly", "takes" if enforcer is None else "enforcer", message)
    NodePool.objects.filter(pk=pool.pk).update(**wanted)
    events.record(kind="NodePoolChanged", actor=actor, name=pool.name, data=_difference(was, wanted))
    _touch()


def _difference(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> dict[str, list[Any]]:
    """What an event keeps of a change: [before, after] of each value that is another; before is None for a new row."""
    was = before or {}
    return {name: [_plain(was.get(name)), _plain(value)] for name, value in after.items() if was.get(name) != value}


def _plain(value: Any) -> Any:
    return f"{value.normalize():f}" if isinstance(value, Decimal) else value


def _touch() -> None:
    parts.trim()
    changes.touch(None)
    wake("schedule")
