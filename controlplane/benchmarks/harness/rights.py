"""Our accounts in a test cluster, with the rights and fences that `manage.py manifests` prints, and no others.

What we start there runs by the scheduler's account; the administrator's is for setting up and looking on.
"""

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from controlplane.cluster.kubernetes import names
from controlplane.manifests import policy, system, teams
from controlplane.manifests.site import SCHEDULER, Json, Site, TeamSpace
from controlplane.testbed.api import ApiError
from controlplane.testbed.kubernetes import TestCluster

SITE = Site()
ACCOUNT = f"{SITE.namespace}/{SCHEDULER}"
FENCES = ("ResourceQuota", "NetworkPolicy")  # of a team's namespace; the others are its rights
FORBIDDEN = 403
SCALERS = "/apis/autoscaling/v2/{}horizontalpodautoscalers"


def scheduler(
    cluster: TestCluster, team_spaces: Iterable[str | TeamSpace], *, is_fenced: bool = True, site: Site = SITE
) -> Path:
    """Give the cluster accounts, rights and these teams' namespaces; a kubeconfig of the scheduler, once it may work.

    Without fences there are no admission policies, quotas and network policies.
    """
    spaces = [one if isinstance(one, TeamSpace) else TeamSpace(one) for one in team_spaces]
    made = [*system.system(site), *(policy.policies(site) if is_fenced else ())]
    made += [one for space in spaces for one in teams.team(site, space) if is_fenced or one["kind"] not in FENCES]
    cluster.apply(made)
    token = cluster.token(ACCOUNT)
    paths = ["/api/v1/nodes?limit=1", *(f"/api/v1/{_in(space, site)}/pods/none" for space in spaces)]
    paths += ["/apis/batch/v1/jobs?limit=1"] if site.has_admission else []
    if site.has_admission and site.has_external_metrics:
        paths += [f"{SCALERS}?limit=1".format(""), *(SCALERS.format(f"{_in(one, site)}/") + "/none" for one in spaces)]
    cluster.wait_for(lambda: all(_may_read(cluster, path, token) for path in paths), "the rights")
    for quota in (one for one in made if one["kind"] == "ResourceQuota"):
        # Until the controller manager has counted, no pod may be made.
        cluster.wait_for(partial(_is_counted, cluster, quota), "the quotas")
    return cluster.kubeconfig(ACCOUNT)


def _in(space: TeamSpace, site: Site) -> str:
    return f"namespaces/{names.namespace(space.name, site.prefix)}"


def _may_read(cluster: TestCluster, path: str, token: str) -> bool:
    try:
        cluster.request("GET", path, token=token)
    except ApiError as error:
        return error.status != FORBIDDEN
    return True


def _is_counted(cluster: TestCluster, quota: Json) -> bool:
    meta: Json = quota["metadata"]  # type: ignore[assignment]
    path = f"/api/v1/namespaces/{meta['namespace']}/resourcequotas/{meta['name']}"
    return bool(cluster.request("GET", path)["status"].get("used"))
