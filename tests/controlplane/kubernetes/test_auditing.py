"""What counts as a strange write in an audit log, shown entries as the API server writes them."""

import subprocess
import sys
from typing import Any

import pytest

from scripts import alltests
from tests import servers
from tests.audited import UNJUDGED, WHOLE, Heard, faults
from tests.controlplane.kubernetes.auditing import SITE, denied, strange_writes, used

TEAMS = {"weft-nlp"}


def entry(
    verb: str, resource: str, *, account: str = "weft-scheduler", decision: str = "allow", **about: Any
) -> dict[str, Any]:
    body = {"requestObject": about.pop("body")} if "body" in about else {}
    return {
        "verb": verb,
        "user": {"username": SITE.user(account)},
        "requestURI": f"/{resource}",
        "objectRef": {"resource": resource, **about},
        "annotations": {"authorization.k8s.io/decision": decision},
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
    no = entry("list", "secrets", decision="forbid")
    log = [entry("get", "pods", subresource="log"), no, entry("get", "x", account="y")]
    assert used(log, "weft-scheduler") == {("get", "pods/log"), ("list", "secrets")}
    assert denied(log) == ["system:serviceaccount:weft:weft-scheduler list /secrets"]
    applied = entry("patch", "rolebindings", namespace="weft-nlp") | {"responseStatus": {"code": 201}}
    assert used([applied], "weft-scheduler") == {("patch", "rolebindings"), ("create", "rolebindings")}
    tried = entry("create", "namespaces", name="x") | {"requestURI": "/api/v1/namespaces?dryRun=All"}
    assert (strange_writes([tried], TEAMS), strange_writes([tried | {"requestURI": "/x"}], TEAMS)) == (
        [],
        ["create /x"],
    )
    by_fence = entry("create", "pods") | {"responseStatus": {"code": 403}}
    assert denied([by_fence]) == []


def test_each_fault_of_a_run_is_found() -> None:
    good = Heard([entry(verb, name, namespace="weft-nlp") for verb, name in (("create", "pods"), ("get", "pods"))])
    good.labelled = frozenset(TEAMS)
    bad = Heard([entry("delete", "clusterroles", name="admin"), entry("list", "secrets", decision="forbid")])
    assert faults([good], is_whole=False) == []
    unused = [one for one in faults([good], is_whole=True) if one.startswith("unused: weft-scheduler")]
    assert "unused: weft-scheduler create pods/binding" in unused
    assert "unused: weft-scheduler create pods" not in unused
    assert faults([good, bad], is_whole=False) == [
        "denied: system:serviceaccount:weft:weft-scheduler list /secrets",
        "strange: delete /clusterroles",
    ]


def test_the_part_that_ends_with_the_judgement_runs_every_file_that_it_judges_by() -> None:
    """Else no run of CI would ever look for unused rights."""
    _, *options = alltests.KUBERNETES.arguments  # all but the folder
    files = [f"tests/{name}" for name in WHOLE]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *options, *files]
    done = subprocess.run(command, cwd=servers.ROOT, capture_output=True, text=True, check=False, timeout=120)
    found = {line.partition("::")[0].removeprefix("tests/") for line in done.stdout.splitlines() if "::" in line}
    assert found == set(WHOLE), done.stderr
    assert not set(WHOLE) & set(UNJUDGED)
    assert all((servers.ROOT / "tests" / name).exists() for name in UNJUDGED)
