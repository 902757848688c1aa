"""Every story on the simulated cluster and on a real API server: the same events in the same order, nothing broken."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import pytest
from django.core.management import call_command
from django.test import override_settings

from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.api import Api
from controlplane.cluster.kubernetes.binder import Binder
from controlplane.cluster.kubernetes.connection import find
from controlplane.cluster.port import Note
from controlplane.testbed.kubernetes import TestCluster
from scheduler.model.workload import Kind
from tests.contract import story
from tests.contract.drive import Drive, pod, run
from tests.contract.real import KubernetesDrive
from tests.contract.stage import Stage
from tests.controlplane.kubernetes.auditing import denied, granted, strange_writes, used

pytestmark = pytest.mark.django_db(transaction=True)

ACCOUNT = "weft-scheduler"
WINDOW = 15.0  # story seconds
# No story has custom resources, of which the rights are in another API group; test_rights.py uses them all.
NO_STORY: set[tuple[str, str]] = set()
Log = list[Mapping[str, Any]]
_logs: dict[str, Log] = {}  # the API server's audit log of each story that was played on it


@pytest.fixture
def is_fenced() -> bool:
    return True


@contextmanager
def logged(name: str, server: TestCluster) -> Iterator[None]:
    """Keep what the API server notes meanwhile."""
    since = server.layout.audit.stat().st_size
    yield
    _logs[name] = list(server.audit(since))


def play(drive: Drive, name: str) -> Stage:
    with override_settings(TRAINING_WINDOW_SECONDS=drive.seconds(WINDOW)):
        stage = Stage(drive, story.load(name))
        stage.play()
    return stage


@pytest.mark.parametrize("name", story.names())
def test_what_happens_is_what_the_story_tells(drive: Drive, name: str) -> None:
    if isinstance(drive, KubernetesDrive):
        with logged(name, drive.server):
            assert play(drive, name).audits > 0
    else:
        assert play(drive, name).audits > 0


def test_the_stories_need_all_our_rights_and_no_others_and_write_only_what_is_ours(kubernetes: TestCluster) -> None:
    for name in [name for name in story.names() if name not in _logs]:  # where this test runs by itself
        call_command("flush", interactive=False, verbosity=0)
        kubernetes.empty()
        with closing(KubernetesDrive(kubernetes, is_fenced=True)) as drive, logged(name, kubernetes):
            play(drive, name)
    with logged("the late worker", kubernetes):
        a_worker_that_is_late_says_and_does_once_more_what_another_did(kubernetes)
    entries = [entry for log in _logs.values() for entry in log]
    labelled = kubernetes.request("GET", f"/api/v1/namespaces?labelSelector={names.TEAM}")["items"]
    assert denied(entries) == []
    assert granted(ACCOUNT, [""]) - used(entries, ACCOUNT) == NO_STORY
    ours = {*(one["metadata"]["name"] for one in labelled), names.PLACEHOLDER_NAMESPACE}
    assert strange_writes(entries, ours) == []


def a_worker_that_is_late_says_and_does_once_more_what_another_did(server: TestCluster) -> None:
    """Two processes at once are in no story: the one that was paused knows nothing of what the other has done."""
    with closing(KubernetesDrive(server, is_fenced=True)) as drive:
        file = drive.job_file(Kind.TRAINING)
        one = pod(drive, uid=str(uuid.uuid4()), spec=file)
        run(drive, [one])
        note = Note(one.workload, one.namespace, "Queued", "It waits.")
        for _ in range(2):
            drive.cluster.publish([note])
        with closing(Api(find(str(drive.kubeconfig)))) as api:
            api.call(Binder(api, lambda name: None, "weft-").start([one]))
        told = drive.told(one.workload, 1, 0)
        assert told == [("Queued", "It waits.", False)]
