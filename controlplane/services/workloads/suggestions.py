"""Apply what would start a waiting workload now, by the same means as people have without it."""

from django.db import transaction

from controlplane.domain.suggestion import Verdict, job_changes
from controlplane.models import NodePool, Quota, Team, Workload
from controlplane.services.errors import Refused
from controlplane.services.tenancy import quotas
from controlplane.services.workloads.amending import patch
from controlplane.services.workloads.workloads import stop
from scheduler.explain.change import IN_QUOTA, Change, ChangeKind

APPLIED = "RemedyApplied"


@transaction.atomic
def apply(*, workload: Workload, verdict: Verdict, version: int | None, actor: str) -> None:
    """Make the change that a dry run said yes to: of the workload itself, of a quota, or the stop of another.

    `version` is the one of the workload that the caller saw. Raises Refused 409 where the round said no or something
    has changed since, 412 for an older version, and what `patch` and `quotas.save` raise. Who may is asked before.
    """
    change = verdict.change
    if change is None:
        raise Refused(409, "NoLongerHolds", "kind", verdict.text)
    if version is not None and version != verdict.version:
        message = f"{workload.name} has changed: its version is {verdict.version}, not {version}. Read it again."
        raise Refused(412, "VersionMismatch", "version", message)
    if change.kind in IN_QUOTA:
        _raise_quota(change, actor)
    elif change.kind is ChangeKind.STOP:
        stop(workload=Workload.objects.get(pk=change.target), actor=actor)
    else:
        told = (APPLIED, verdict.text)
        patch(workload=workload, changes=_fields(workload, change), version=verdict.version, actor=actor, event=told)


def _fields(workload: Workload, change: Change) -> dict[str, object]:
    job = Workload.objects.values_list("spec", flat=True).get(pk=workload.pk)
    return job_changes(job, change)


def _raise_quota(change: Change, actor: str) -> None:
    """The one number of the quota; the others stay as they are."""
    team, pool = Team.objects.get(name=change.target), NodePool.objects.get(name=change.pool)
    found = Quota.objects.filter(team=team, pool=pool).first() or Quota(team=team, pool=pool, nominal=0)
    is_nominal, after = change.kind is ChangeKind.NOMINAL, int(change.after)
    if change.before != (found.nominal if is_nominal else found.borrowing_limit):
        message = f"The quota of team {team} in pool {pool} has changed meanwhile. Read the explanation again."
        raise Refused(409, "NoLongerHolds", "after", message)
    quotas.save(
        team=team,
        pool=pool,
        nominal=after if is_nominal else found.nominal,
        borrowing_limit=found.borrowing_limit if is_nominal else after,
        lending_limit=found.lending_limit,
        weight=found.weight,
        actor=actor,
        version=found.version if found.pk else None,
    )
