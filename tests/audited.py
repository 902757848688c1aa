"""What the API servers of a test run have noted of our accounts: gathered from each cluster, judged once, at the end.

A cluster that is noted keeps an audit log. What tests themselves ask for under a name of ours (is it refused?) is none
of Weft's doing: it is known by the agent that the testbed names. Nor is what follows where a test takes rights away.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from controlplane.cluster.kubernetes import names
from controlplane.testbed.api import AGENT
from controlplane.testbed.kubernetes import TestCluster
from tests.controlplane.kubernetes.auditing import ACCOUNTS, SITE, Entry, Right, denied, granted, strange_writes, used

# Files whose tests, all together, use every right that we have.
WHOLE = (
    "activator/test_kubernetes.py", "adopted/test_deployments.py", "adopted/test_job_sets.py", "adopted/test_jobs.py",
    "adopted/test_kubeflow.py", "adopted/test_cron_jobs.py", "adopted/test_native.py", "contract/test_stories.py",
    "backends/test_contract.py", "controlplane/kubernetes/test_fences.py", "controlplane/kubernetes/test_rights.py",
)  # fmt: skip
# Files that are not judged, and why.
AFTER_A_KILL = "its API server is killed, and then denies everything until it has read the roles again"
UNJUDGED: Mapping[str, str] = {"contract/test_errors.py": AFTER_A_KILL, "faults/test_kubernetes.py": AFTER_A_KILL}
EVERYTHING = replace(
    SITE, has_admission=True, has_external_metrics=True, has_dra=True, activator_image="registry.example/weft:1"
)
# To bind is no request of its own: it is asked about when a RoleBinding is written.
NO_REQUEST: frozenset[Right] = frozenset({("bind", "clusterroles")})


@dataclass
class Heard:
    """What one cluster has noted of our accounts. labelled: the namespaces that are, or were, Weft's to write in."""

    entries: list[Entry] = field(default_factory=list)
    labelled: frozenset[str] = frozenset()
    read: int = 0  # bytes of the log
    unjudged: list[tuple[int, int]] = field(default_factory=list)  # from and to which byte


CLUSTERS: dict[TestCluster, Heard] = {}


def uses_rights(file: str) -> bool:
    """Whether it is one of those that together use every right. file: from the root of the tree."""
    return file.removeprefix("tests/") in WHOLE


def is_judged(file: str) -> bool:
    """Whether what the tests of a file make our accounts do is judged. file: from the root of the tree."""
    return file.removeprefix("tests/") not in UNJUDGED


MISSING = pytest.StashKey[bool]()  # whether a test of WHOLE was skipped, as this machine lacks a program


@contextmanager
def noted(cluster: TestCluster, also: Collection[str] = ()) -> Iterator[TestCluster]:
    """Have what this cluster notes judged. also: namespaces that were a team's in between."""
    CLUSTERS[cluster] = Heard()
    yield cluster
    hear(cluster, also)


def hear(cluster: TestCluster, also: Collection[str] = (), heard: Heard | None = None) -> None:
    """Take over what a cluster has noted up to now; heard: not for the judgement of the run."""
    heard = CLUSTERS[cluster] if heard is None else heard
    size = cluster.layout.audit.stat().st_size
    for begins, ends in [*heard.unjudged, (size, size)]:
        heard.entries += [one for one in cluster.audit(heard.read, begins) if _is_ours(one)]
        heard.read = ends
    heard.unjudged.clear()
    found = [
        one["metadata"]["name"]
        for label in (names.TEAM, names.PLACEHOLDER)
        for one in cluster.request("GET", f"/api/v1/namespaces?labelSelector={label}")["items"]
    ]
    heard.labelled = heard.labelled | frozenset((*found, *also))


@contextmanager
def without_rights(cluster: TestCluster) -> Iterator[None]:
    """What our accounts have no right to in here, they have no right to on purpose."""
    begins = cluster.layout.audit.stat().st_size
    yield
    CLUSTERS[cluster].unjudged.append((begins, cluster.layout.audit.stat().st_size))


def faults(clusters: Iterable[Heard], *, is_whole: bool, also: Iterable[Any] = ()) -> list[str]:
    """All that is wrong by these logs. is_whole: every test that uses a right has run, so none may be unused.

    also: ClusterRoles that our accounts have beside those of the manifests.
    """
    found, entries = [], []
    for heard in clusters:
        entries += heard.entries
        found += [f"denied: {one}" for one in denied(heard.entries)]
        found += [f"strange: {one}" for one in strange_writes(heard.entries, heard.labelled, EVERYTHING)]
    for account in ACCOUNTS if is_whole else ():
        unused = granted(account, site=EVERYTHING, also=also) - used(entries, account) - NO_REQUEST
        found += [f"unused: {account} {verb} {resource}" for verb, resource in sorted(unused)]
    return found


def _is_ours(entry: Entry) -> bool:
    is_tests_own = str(entry.get("userAgent", "")).startswith(AGENT)
    return entry["user"]["username"] in {SITE.user(account) for account in ACCOUNTS} and not is_tests_own
