"""Each job file is refused by a field's name, or a real API server with every policy on runs all its pods."""

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest

from controlplane.benchmarks.harness import rights
from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.adapter import KubernetesCluster
from controlplane.cluster.kubernetes.api import RefusedError
from controlplane.cluster.kubernetes.connection import find
from controlplane.cluster.kubernetes.pods import has_share
from controlplane.cluster.port import PodSpec
from controlplane.jobspec.spec import SpecError, parse
from controlplane.manifests.site import BASELINE, RESTRICTED, Site, TeamSpace
from controlplane.models import Node, NodePool, PodSecurity, PriorityClass, Team, Workload
from controlplane.services.errors import Refused
from controlplane.services.workloads import submission
from controlplane.testbed.kubernetes import TestCluster
from scheduler.model.workload import Kind
from tests.controlplane.kubernetes import generated, values
from tests.controlplane.kubernetes.fences import in_force, out_of_force
from tests.controlplane.kubernetes.generated import File
from tests.controlplane.kubernetes.jobs import job, pod_of

SITE = Site(registries=("registry.example/", "quay.io/jupyter/"))
SPACES = (TeamSpace("nlp", RESTRICTED), TeamSpace("ops", BASELINE))
FILES, OF_EACH = 300, 20
NODES = ("a", "b", "c")
AT_ONCE = 8
FIRST_SHARED, SHARED = 32, 16  # devices that shares are on: whole GPUs begin at 0, as if all others were away


@pytest.fixture
def cluster(kubernetes: TestCluster) -> Iterator[KubernetesCluster]:
    """The adapter by the scheduler's account, where every fence that `manage.py manifests` prints is in force."""
    kubeconfig = rights.scheduler(kubernetes, SPACES, site=SITE)
    for space in SPACES:
        in_force(kubernetes, space, SITE)
    with closing(KubernetesCluster(find(str(kubeconfig)))) as adapter:
        yield adapter
    out_of_force(kubernetes)


@pytest.fixture
def platform(db: None, settings: Any) -> None:
    """Two teams, two classes, machines with room for each of the gangs, and what other workloads come after."""
    del db
    settings.REGISTRIES, settings.EXTRA_RESOURCES = SITE.registries, SITE.extra_resources
    PriorityClass.objects.create(name="normal", value=100, is_default=True)
    PriorityClass.objects.create(name="high", value=200)
    levels = {RESTRICTED: PodSecurity.RESTRICTED, BASELINE: PodSecurity.BASELINE}
    for space in SPACES:
        Team.objects.create(name=space.name, pod_security=levels[space.level])
        small = {"type": "training", "team": space.name, "image": "registry.example/x", "resources": {}}
        submission.submit_many(specs=[parse({**small, "name": name}) for name in values.BEFORE], user=None)
    pool = NodePool.objects.create(name="a100")
    machine = {"gpu_model": "A100", "gpu_count": 64, "gpu_memory": 81_920, "cpu_milli": 1_000_000, "memory": 2**23}
    Node.objects.bulk_create(Node(name=name, pool=pool, enforces_limits=True, **machine) for name in NODES)


def submitted(file: File) -> Workload:
    return submission.submit(spec=parse(file), user=None)


def fields_at_fault(file: File) -> list[str]:
    """What a refusal of the file names; empty if it is accepted."""
    try:
        submitted(file)
    except SpecError as error:
        return [one.field for one in error.errors]
    except Refused as error:
        return [error.field]
    return []


def pods_of(file: File, row: Workload, number: int) -> list[PodSpec]:
    """All members of the workload as it starts with the size it wants, on some node."""
    spec = parse(file)
    size = row.workers + sum(role.count for role in spec.roles)
    members = [pod_of(file, rank=rank, size=size, uid=str(row.pk)) for rank in range(size)]
    placed = [replace(pod, node=NODES[(number + pod.rank) % len(NODES)], spec=row.spec) for pod in members]
    return [replace(pod, gpus=(FIRST_SHARED + number % SHARED,)) if has_share(pod) else pod for pod in placed]


@pytest.mark.timeout(180)
def test_each_generated_job_file_is_refused_by_a_field_or_runs(
    platform: None, kubernetes: TestCluster, cluster: KubernetesCluster
) -> None:
    files = generated.files(FILES, OF_EACH)
    rows = [submitted(file) for file in files]
    stored = Workload.objects.in_bulk([row.pk for row in rows])
    gangs = [pods_of(file, stored[row.pk], at) for at, (file, row) in enumerate(zip(files, rows, strict=True))]

    def refusal(gang: Sequence[PodSpec]) -> str:
        try:
            cluster.start(gang)
        except Exception as error:  # of any kind: all are shown together
            return f"{gang[0].spec}: {error}"
        return ""

    with ThreadPoolExecutor(AT_ONCE) as pool:
        assert [text for text in pool.map(refusal, gangs) if text] == []
    wanted = {pod.name for gang in gangs for pod in gang}
    kubernetes.wait_for(lambda: not pods_that(kubernetes, "status.phase!=Running"), "all pods to run")
    assert pods_that(kubernetes, "status.phase=Running") == wanted
    assert len(files) >= FILES

    counts = {kind: Counter(name for f in files if f["type"] == kind for name in generated.given(f)) for kind in Kind}
    rare = {(kind, name): counts[kind][name] for kind in Kind for name in (*generated.optional(kind), "type")}
    assert {field: count for field, count in rare.items() if count < OF_EACH} == {}


def pods_that(kubernetes: TestCluster, selector: str) -> set[str]:
    found = kubernetes.request("GET", f"/api/v1/pods?{urlencode({'fieldSelector': selector})}")["items"]
    teams = (pod["metadata"] for pod in found if pod["metadata"]["namespace"] != names.PLACEHOLDER_NAMESPACE)
    return {meta["name"] for meta in teams}


def test_what_no_cluster_would_take_is_refused_at_submission_by_its_field(platform: None) -> None:
    del platform
    sound = {"type": "training", "name": "x", "team": "nlp", "image": "registry.example/x", "resources": {"gpus": 1}}
    named = [(field, fields_at_fault(file), file) for field, file in values.refused(sound)]
    assert [one for one in named if one[0] not in one[1]] == []
    assert fields_at_fault(sound) == []


def test_a_start_of_a_stored_job_file_that_no_job_file_may_be_is_refused_with_the_fix(kubernetes: TestCluster) -> None:
    pod = pod_of(job(volumes=[{"claim": "data", "path": "/data"}]))
    stored = replace(pod, spec={**pod.spec, "volumes": [{"claim": "data", "path": "/data/"}]})
    kubeconfig = rights.scheduler(kubernetes, ["nlp"], is_fenced=False)
    with (
        closing(KubernetesCluster(find(str(kubeconfig)))) as adapter,
        pytest.raises(RefusedError, match=r"A volume's path is '/data/'\. Write it as /data\."),
    ):
        adapter.start([stored])
    assert pods_that(kubernetes, "status.phase=Pending") == set()


def test_a_new_optional_field_is_counted_by_its_dotted_name() -> None:
    fields = generated.optional(Kind.TRAINING)
    assert {"roles.resources.gpu_share.limit", "workers.min", "volumes.read_only", "labels"} <= set(fields)
    assert generated.given({"type": "training", "roles": [{"name": "ps", "env": {}}]}) >= {"roles", "roles.env"}
