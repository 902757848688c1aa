"""What counts as a strange write in an audit log, shown entries as the API server writes them."""

from typing import Any

import pytest

from tests.controlplane.kubernetes.auditing import SITE, strange_writes, used

TEAMS = {"weft-nlp"}


def entry(
    verb: str, resource: str, *, account: str = "weft-scheduler", code: int = 200, **about: Any
) -> dict[str, Any]:
    body = {"requestObject": about.pop("body")} if "body" in about else {}
    return {
        "verb": verb,
        "user": {"username": SITE.user(account)},
        "requestURI": f"/{resource}",
        "objectRef": {"resource": resource, **about},
        "responseStatus": {"code": code, "message": "no"},
        **body,
    }


@pytest.mark.parametrize(
    "one",
    [
        entry("create", "pods", namespace="weft-nlp"),
        entry("patch", "nodes", name="a", body={"spec": {"unschedulable": None}}),
        entry("patch", "clusterroles", name="weft-scheduler-team", account="weft-provisioner"),
        entry("list", "secrets", namespace="kube-system"),  # no write
        entry("create", "pods", namespace="kube-system") | {"user": {"username": "admin"}},  # not ours
    ],
)
def test_what_is_ours_is_not_strange(one: dict[str, Any]) -> None:
    assert strange_writes([one], TEAMS) == []


@pytest.mark.parametrize(
    "one",
    [
        entry("create", "pods", namespace="default"),
        entry("patch", "nodes", name="a", body={"spec": {"taints": []}}),
        entry("patch", "nodes", name="a", body={"spec": {"unschedulable": True}, "metadata": {"labels": {}}}),
        entry("delete", "clusterroles", name="admin"),
        entry("create", "namespaces", name="weft-other"),
    ],
)
def test_any_other_write_is(one: dict[str, Any]) -> None:
    assert len(strange_writes([one], TEAMS)) == 1


def test_what_was_denied_is_told_apart_from_what_was_done() -> None:
    log = [entry("get", "pods", subresource="log"), entry("list", "secrets", code=403), entry("get", "x", account="y")]
    rights, denied = used(log, "weft-scheduler")
    assert rights == {("get", "pods/log"), ("list", "secrets")}
    assert [line.endswith("no") for line in denied] == [True]
