"""The judgement of a run fails for each thing that it is to find: planted on a real API server, by its own log."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from controlplane.cluster.kubernetes.api import Api, RefusedError
from controlplane.cluster.kubernetes.connection import find
from controlplane.manifests import system, teams
from controlplane.manifests.site import TeamSpace
from controlplane.manifests.system import RBAC
from controlplane.testbed.kubernetes import TestCluster, test_cluster
from tests.audited import EVERYTHING, Heard, faults, hear
from tests.controlplane.kubernetes.auditing import ACCOUNTS

pytestmark = pytest.mark.kubernetes

WEB = "weft-web"  # it asks the API server for nothing
MAPS = "/api/v1/namespaces/{}/configmaps"


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestCluster]:
    """A cluster with the rights of the manifests, and for each account two more."""
    with test_cluster(tmp_path_factory.mktemp("planted"), tier="api", audit=True) as cluster:
        cluster.apply([*system.system(EVERYTHING), *teams.team(EVERYTHING, TeamSpace("nlp"))])
        cluster.apply([one for account in ACCOUNTS for one in more(account)])
        yield cluster


def more(account: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A role that no manifest has, by which the account may list ConfigMaps and make some."""
    name, of = f"{account}-planted", {"apiVersion": f"{RBAC}/v1"}
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "create"]}]
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": EVERYTHING.namespace}]
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    role = {**of, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}
    binding = {**of, "kind": "ClusterRoleBinding", "metadata": {"name": name}, "subjects": subjects}
    return role, {**binding, "roleRef": reference}


@pytest.mark.parametrize("account", [one for one in ACCOUNTS if one != WEB])
def test_an_unused_right_a_denial_and_a_foreign_write_are_found(planted: TestCluster, account: str) -> None:
    heard, roles = Heard(read=planted.layout.audit.stat().st_size), more(account)[:1]

    def found() -> set[str]:
        hear(planted, heard=heard)
        return set(faults([heard], is_whole=True, also=roles))

    def wait_until_found(one: str) -> None:
        planted.wait_for(lambda: one in found(), one)

    def others() -> list[str]:
        return sorted(one for one in found() if not one.startswith("unused: "))

    with closing(Api(find(str(planted.kubeconfig(f"weft/{account}"))))) as api:

        def ask(method: str, path: str, body: Any = None) -> None:
            api.call(api.request(method, path, body))

        listed, created = (f"unused: {account} {verb} configmaps" for verb in ("list", "create"))
        assert {listed, created} <= found()
        ask("GET", MAPS.format("weft-nlp"))
        planted.wait_for(lambda: listed not in found(), "the use of a right")
        ask("POST", MAPS.format("weft-nlp"), {"metadata": {"name": account}})
        planted.wait_for(lambda: created not in found(), "the use of the other right")
        assert others() == []

        ask("POST", MAPS.format("default"), {"metadata": {"name": account}})
        strange = f"strange: create {MAPS.format('default')}"
        wait_until_found(strange)
        with pytest.raises(RefusedError):
            ask("GET", "/api/v1/secrets")
        denied = f"denied: {EVERYTHING.user(account)} list /api/v1/secrets"
        wait_until_found(denied)
        assert others() == [denied, strange]
