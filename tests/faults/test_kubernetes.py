"""Faults F2 to F9 of docs/promises.md, between the adapter and a real API server."""

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest

from controlplane.benchmarks.harness import rights
from controlplane.benchmarks.reliability.faults import Fault, Faults, Matches, proxy
from controlplane.cluster.kubernetes import names, reflector
from controlplane.cluster.kubernetes.adapter import UNWANTED_SECONDS, KubernetesCluster
from controlplane.cluster.kubernetes.connection import Access
from controlplane.cluster.port import ClusterUnreachable, PodPhase, PodSpec
from controlplane.testbed.kubernetes import TestCluster
from controlplane.testbed.processes import wait_until
from scheduler.model.workload import Kind
from tests.contract.drive import gang, pod, seen
from tests.contract.real import KubernetesDrive

PODS = "/api/v1/namespaces/weft-nlp/pods"


@dataclass
class Rig:
    """The adapter behind the proxy; `drive` looks at the same server past it."""

    cluster: KubernetesCluster
    faults: Faults
    access: Access
    server: TestCluster
    drive: KubernetesDrive

    def phase(self, name: str, cursor: str) -> PodPhase | None:
        found = seen(self.cluster.observe(cursor)).get(name)
        return found.phase if found else None

    def there(self) -> dict[str, str]:
        """The pods on the server, and their nodes."""
        items = self.server.request("GET", PODS)["items"]
        return {item["metadata"]["name"]: item["spec"].get("nodeName", "") for item in items}

    def pods(self, size: int = 2) -> list[PodSpec]:
        return gang(self.drive, size, spec=self.drive.job_file(Kind.TRAINING) | {"workers": {"count": size}})


@pytest.fixture
def rig(kubernetes: TestCluster) -> Iterator[Rig]:
    with (
        closing(KubernetesDrive(kubernetes)) as drive,
        proxy(kubernetes, kubernetes.token(rights.ACCOUNT)) as between,
        closing(KubernetesCluster(between.access(), lost_after=1.0)) as cluster,
    ):
        yield Rig(cluster, between.faults, between.access(), kubernetes, drive)


def writes(method: str, part: str) -> Matches:
    return lambda m, path: m == method and path.endswith(part)


def test_a_bind_that_was_done_and_answered_504_is_not_done_twice(rig: Rig) -> None:
    rig.cluster.observe(None)
    rig.faults.requests = [Fault(writes("POST", "/binding"), 2, 504)]
    rig.cluster.start(rig.pods())
    assert rig.faults.hits == 2
    assert rig.there() == {"w-1-0": "a", "w-1-1": "a"}


def test_a_create_whose_connection_is_cut_makes_one_pod(rig: Rig) -> None:
    rig.cluster.observe(None)
    rig.faults.requests = [Fault(writes("POST", "/pods"), 2)]
    rig.cluster.start(rig.pods())
    assert rig.faults.hits == 2
    assert rig.there() == {"w-1-0": "a", "w-1-1": "a"}


def test_a_server_that_says_later_is_asked_again(rig: Rig) -> None:
    rig.cluster.observe(None)
    rig.faults.requests = [Fault(writes("POST", "/binding"), 2, 429, is_done=False, retry_after=1)]
    rig.cluster.start(rig.pods())
    assert set(rig.there().values()) == {"a"}


def test_a_server_that_only_fails_is_unreachable_and_the_next_start_goes_on(rig: Rig) -> None:
    rig.cluster.observe(None)
    rig.faults.requests = [Fault(writes("POST", "/w-1-1/binding"), 99, 503, is_done=False)]
    with pytest.raises(ClusterUnreachable):
        rig.cluster.start(rig.pods())
    assert rig.there() == {"w-1-0": "a", "w-1-1": ""}
    rig.faults.requests = []
    rig.cluster.start(rig.pods())
    assert rig.there() == {"w-1-0": "a", "w-1-1": "a"}


def test_a_gang_with_a_worker_that_is_refused_is_taken_away_whole(rig: Rig) -> None:
    rig.cluster.observe(None)
    rig.faults.requests = [Fault(writes("POST", "/w-1-1/binding"), 9, 403, is_done=False)]
    with pytest.raises(Exception, match="a fault"):
        rig.cluster.start(rig.pods())
    rig.server.wait_for(lambda: rig.there() == {}, "the end of the gang")


def test_a_server_that_just_started_and_does_not_know_our_rights_yet_is_asked_again(rig: Rig) -> None:
    rig.cluster.observe(None)
    rig.faults.requests = [
        Fault(writes("POST", "/pods"), 2, 403, is_done=False),
        Fault(writes("GET", "/readyz"), 1, 500, is_done=False),
    ]
    rig.cluster.start(rig.pods())
    assert rig.faults.hits == 3
    assert rig.there() == {"w-1-0": "a", "w-1-1": "a"}


def test_a_server_that_does_not_get_ready_is_unreachable_and_has_refused_nothing(rig: Rig) -> None:
    rig.cluster.observe(None)
    rig.faults.requests = [
        Fault(writes("POST", "/w-1-1/binding"), 99, 403, is_done=False),
        Fault(writes("GET", "/readyz"), 99, 500, is_done=False),
    ]
    with pytest.raises(ClusterUnreachable):
        rig.cluster.start(rig.pods())
    assert rig.there() == {"w-1-0": "a", "w-1-1": ""}


def test_a_stop_that_was_done_and_answered_500_is_done(rig: Rig) -> None:
    rig.cluster.start(rig.pods())
    rig.faults.requests = [Fault(writes("DELETE", "/w-1-0"), 1, 500)]
    rig.cluster.stop("w", 1, [0, 1], 5.0)
    rig.server.wait_for(lambda: rig.there() == {}, "the end of the pods")


def test_a_pod_that_the_watch_never_told_of_is_found_by_the_next_full_observation(rig: Rig) -> None:
    cursor = rig.cluster.observe(None).cursor
    rig.faults.drop_lines = lambda event: event["type"] != "BOOKMARK"
    rig.drive.cluster.start(rig.pods())
    assert rig.phase("w-1-0", cursor) is None
    assert set(seen(rig.cluster.observe(None))) == {"w-1-0", "w-1-1"}


def test_a_pod_whose_end_the_watch_never_told_of_is_gone_with_the_next_full_observation(rig: Rig) -> None:
    rig.cluster.start(rig.pods(1))
    wait_until(lambda: rig.phase("w-1-0", "") == PodPhase.RUNNING, "the pod")
    rig.faults.drop_lines = lambda event: event["type"] == "DELETED"
    rig.server.delete(f"{PODS}/w-1-0")
    assert rig.phase("w-1-0", "") == PodPhase.GONE


def test_made_and_deleted_between_two_lists_leaves_nothing_behind(rig: Rig) -> None:
    cursor = rig.cluster.observe(None).cursor
    rig.faults.drop_lines = lambda event: True
    rig.drive.cluster.start(rig.pods(1))
    rig.server.delete(f"{PODS}/w-1-0")
    rig.faults.gone, rig.faults.drop_lines = 2, lambda event: False
    rig.cluster.start([pod(rig.drive, "next", node="b")])
    wait_until(lambda: rig.phase("next-1-0", cursor) == PodPhase.RUNNING, "the next pod")
    assert rig.phase("w-1-0", cursor) is None


def test_lines_told_twice_change_nothing(rig: Rig) -> None:
    rig.faults.repeat_lines = True
    cursor = rig.cluster.observe(None).cursor
    rig.cluster.start(rig.pods())
    wait_until(lambda: rig.phase("w-1-1", cursor) == PodPhase.RUNNING, "the pod")
    after = rig.cluster.observe(None)
    assert len(after.pods) == 2
    assert rig.cluster.observe(after.cursor).pods == ()


def test_410_in_a_watch_leads_to_a_new_list_and_cursors_stay_good(rig: Rig) -> None:
    cursor = rig.cluster.observe(None).cursor
    rig.faults.gone = 2
    wait_until(lambda: rig.faults.gone == 0, "the end of both watches")
    rig.drive.cluster.start(rig.pods(1))
    wait_until(lambda: rig.phase("w-1-0", cursor) == PodPhase.RUNNING, "the pod")
    assert not rig.cluster.observe(cursor).is_full


def test_a_list_in_parts_is_whole_and_begun_anew_when_its_rest_is_forgotten(rig: Rig) -> None:
    rig.drive.cluster.start(rig.pods(5))
    parts: list[str] = []

    def is_second_part(method: str, path: str) -> bool:
        parts.extend([path] if path == "/api/v1/pods" else [])
        return len(parts) == 2

    rig.faults.requests = [Fault(is_second_part, 1, 410, is_done=False)]
    with closing(KubernetesCluster(rig.access, page=2)) as fresh:
        assert len(seen(fresh.observe(None))) == 5
    assert rig.faults.hits == 1


def test_a_watch_that_is_open_and_silent_is_begun_again(rig: Rig) -> None:
    cursor = rig.cluster.observe(None).cursor
    wait_until(lambda: rig.faults.watches >= 2, "both watches")
    rig.faults.half_open = rig.faults.watches
    rig.drive.cluster.start(rig.pods(1))
    wait_until(lambda: rig.phase("w-1-0", cursor) == PodPhase.RUNNING, "the pod", reflector.STALE_SECONDS)


def test_commands_to_a_silent_server_end_as_unreachable_and_a_silent_watch_is_begun_again(rig: Rig) -> None:
    cursor = rig.cluster.observe(None).cursor
    watches = rig.faults.watches
    rig.faults.is_silent = True
    began = time.monotonic()
    with pytest.raises(ClusterUnreachable):
        rig.cluster.cordon("a", True)
    assert time.monotonic() - began < 30.0
    rig.faults.is_silent = False
    rig.drive.cluster.start(rig.pods(1))
    wait_until(lambda: rig.phase("w-1-0", cursor) == PodPhase.RUNNING, "the pod", reflector.STALE_SECONDS)
    assert rig.faults.watches >= watches


def test_a_server_that_is_killed_and_comes_back_is_followed_from_where_it_was(rig: Rig) -> None:
    rig.cluster.start(rig.pods(1))
    wait_until(lambda: rig.phase("w-1-0", "") == PodPhase.RUNNING, "the pod")
    cursor = rig.cluster.observe(None).cursor
    rig.server.kill("apiserver")
    with pytest.raises(ClusterUnreachable):
        rig.cluster.observe(None)
    assert rig.cluster.observe(cursor).pods == ()  # an outage ends nothing
    rig.server.start("apiserver")
    rig.cluster.stop("w", 1, [0], 5.0)
    wait_until(lambda: rig.phase("w-1-0", cursor) == PodPhase.GONE, "the end of the pod")


def test_a_slow_server_is_only_slow(rig: Rig) -> None:
    rig.cluster.observe(None)
    rig.faults.delay = 1.0
    rig.cluster.start(rig.pods())
    rig.faults.delay = 0.0
    assert set(rig.there().values()) == {"a"}


def test_writes_of_others_between_ours_do_no_harm(rig: Rig) -> None:
    rig.cluster.prepare(rig.pods())
    for number in range(5):  # the versions that we know are old now
        for name in rig.there():
            rig.server.patch(f"{PODS}/{name}", {"metadata": {"annotations": {"other": str(number)}}})
    rig.cluster.start(rig.pods())
    assert rig.there() == {"w-1-0": "a", "w-1-1": "a"}


def test_a_prepared_pod_that_somebody_deleted_is_made_again(rig: Rig) -> None:
    rig.cluster.prepare(rig.pods())
    rig.faults.drop_lines = lambda event: event["type"] == "DELETED"
    rig.server.delete(f"{PODS}/w-1-1")
    rig.cluster.start(rig.pods())
    assert rig.there() == {"w-1-0": "a", "w-1-1": "a"}


def test_a_prepared_pod_goes_a_minute_after_it_was_last_wanted_unless_its_workload_has_a_place(rig: Rig) -> None:
    now = [time.time()]
    with closing(KubernetesCluster(rig.access, clock=lambda: now[0])) as cluster:

        def left() -> set[str]:
            cluster.prepare([], starting={"w"})
            return set(rig.there())

        gang = rig.pods()
        cluster.prepare([*gang, pod(rig.drive, "other")])
        wait_until(lambda: len(rig.there()) == 3, "the pods")
        mine = rig.server.request("GET", f"{PODS}/w-1-0")["metadata"]["uid"]
        now[0] += 3600.0  # all were wanted until now
        left()
        now[0] += UNWANTED_SECONDS - 1
        assert left() == {"w-1-0", "w-1-1", "other-1-0"}
        now[0] += 1
        wait_until(lambda: "other-1-0" not in left(), "the end of what nobody asks for", 30)
        cluster.start(gang)
        assert rig.server.request("GET", f"{PODS}/w-1-0")["metadata"]["uid"] == mine


def test_a_prepared_pod_of_an_older_job_file_is_made_anew(rig: Rig) -> None:
    rig.cluster.prepare(rig.pods(1))
    old = rig.server.request("GET", f"{PODS}/w-1-0")["metadata"]["uid"]
    file = rig.drive.job_file(Kind.TRAINING) | {"image": "registry.example/work:2"}
    rig.cluster.start([pod(rig.drive, spec=file)])
    found = rig.server.request("GET", f"{PODS}/w-1-0")
    assert found["metadata"]["uid"] != old
    assert (found["spec"]["containers"][0]["image"], found["spec"]["nodeName"]) == ("registry.example/work:2", "a")


def test_pods_of_others_count_as_used(rig: Rig) -> None:
    cursor = rig.cluster.observe(None).cursor
    amounts = {"cpu": "4", "memory": "8Gi", names.GPU_RESOURCE: "2"}
    container = {"name": "x", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
    body = {"metadata": {"name": "foreign"}, "spec": {"nodeName": "b", "containers": [container]}}
    rig.server.request("POST", "/api/v1/namespaces/default/pods", {"apiVersion": "v1", "kind": "Pod"} | body)

    def is_counted() -> bool:
        return any(n.name == "b" and n.lost == (6, 7) for n in rig.cluster.observe(cursor).nodes)

    wait_until(is_counted, "the foreign pod")
    node = next(n for n in rig.cluster.observe(None).nodes if n.name == "b")
    whole = next(n for n in rig.cluster.observe(None).nodes if n.name == "a")
    assert (whole.cpu_milli - node.cpu_milli, whole.memory - node.memory) == (4000, 8192)
