"""diff, delete, scale, priority, quota, usage, open and watch against the real server."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.api import feed
from controlplane.cluster.port import PodPhase
from controlplane.models import Event as Stored
from controlplane.models import Workload
from controlplane.testbed.processes import wait_until
from tests.client.conftest import PIPELINE, Weft
from tests.controlplane.api.conftest import People, people
from tests.serving import serving
from weft import Client, Event

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def url(transactional_db: None, shell: Path) -> Iterator[str]:
    with serving() as address:
        yield address


def submit(weft: Weft, kind: str = "training", name: str = "hello", *flags: str) -> Workload:
    ran = weft("submit", kind, "--name", name, "--team", "red", "--image", "example/a:1", "--gpus", "1", *flags)
    assert ran.code == 0, ran.err
    return Workload.objects.get(name=name)


def test_a_diff_shows_what_apply_would_do_and_writes_nothing(mia: People, weft: Weft, shell: Path) -> None:
    file = shell / "p.yaml"
    file.write_text(PIPELINE)
    assert weft("diff", "-f", "p.yaml").out == "red/prepare would be created.\nred/fit would be created.\n"
    assert weft("diff", "-f", "p.yaml", "--exit-code").code == 1
    assert not Workload.objects.exists()
    assert weft("apply", "-f", "p.yaml").code == 0
    assert weft("diff", "-f", "p.yaml", "--exit-code").code == 0
    file.write_text(PIPELINE.replace("fit:1", "fit:2").replace("count: 2", "count: 3"))
    assert weft("diff", "-f", "p.yaml").out.splitlines() == [
        "red/prepare is unchanged.",
        "red/fit differs:",
        '  image: "example/fit:1" -> "example/fit:2"   (cannot be changed: submit a new workload)',
        '  workers: {"count": 2, "min": 2, "max": 2} -> {"count": 3, "min": 3, "max": 3}',
    ]
    told = json.loads(weft("diff", "-f", "p.yaml", "-o", "json").out)
    assert [one["field"] for one in told[1]["differences"]] == ["image", "workers"]
    assert Workload.objects.get(name="fit").workers == 2
    file.write_text(PIPELINE + "retries: -1\n")
    ran = weft("diff", "-f", "p.yaml")
    assert (ran.code, ran.err) == (1, "error: p.yaml:15: retries is -1. Set it to at least 0.\n")


def test_delete_ends_what_a_file_names_the_last_first(mia: People, weft: Weft, shell: Path) -> None:
    (shell / "p.yaml").write_text(PIPELINE)
    assert weft("apply", "-f", "p.yaml").code == 0
    assert weft("delete", "-f", "p.yaml").out == "red/fit is Stopped.\nred/prepare is Stopped.\n"
    assert weft("delete", "-f", "p.yaml").out.startswith("red/fit has already ended: Stopped.\n")
    (shell / "p.yaml").write_text(PIPELINE.replace("name: fit", "name: fitted"))
    assert weft("delete", "-f", "p.yaml").out.startswith("red/fitted does not exist.\n")
    submit(weft)
    assert weft("delete", "hello").out == "red/hello is Stopped.\n"
    assert weft("delete").code == 2
    assert weft("delete", "hello", "-f", "p.yaml").code == 2


def test_scale_and_priority_change_what_waits(mia: People, weft: Weft) -> None:
    submit(weft)
    assert weft("scale", "hello", "--workers", "3").out == "red/hello now asks for 3 workers (min 3, max 3).\n"
    assert weft("priority", "hello", "high").out == "red/hello has priority class high.\n"
    ran = weft("priority", "hello", "top")
    assert (ran.code, "There is no priority class top" in ran.err) == (1, True)
    submit(weft, "inference", "chat", "--min", "1", "--max", "2")
    assert weft("scale", "chat", "--replicas", "2").out == "red/chat now asks for 2 replicas (min 2, max 2).\n"
    assert "autoscaler's" in weft("scale", "chat", "--workers", "2").err
    assert weft("scale", "chat").code == 2
    assert weft("scale", "chat", "--replicas", "2", "--max", "3").code == 2
    assert weft("scale", "hello", "--workers", "2", "--token", mia.viewer.token).code == 5


OBJECT = """\
apiVersion: weft.dev/v1beta1
kind: Workload
metadata:
  name: prepare
  namespace: weft-red
spec:
  type: training
  image: example/prepare:1
  resources: {cpu: 1}
---
apiVersion: weft.dev/v1beta1
kind: Workload
metadata: {name: fit}
spec:
  type: training
  image: example/fit:1
  after: [prepare]
  resources:
    gpus: 1
"""


def test_the_objects_of_kubectl_are_submitted_compared_applied_and_deleted(
    mia: People, weft: Weft, shell: Path
) -> None:
    file = shell / "o.yaml"
    file.write_text(OBJECT)
    assert weft("submit", "-f", "o.yaml", "--dry-run=client").code == 0
    ran = weft("submit", "-f", "o.yaml", "--dry-run=server", "--team", "red")
    assert ran.out.startswith("weft-red/prepare: would start"), (ran.code, ran.out, ran.err)
    assert not Workload.objects.exists()
    ran = weft("submit", "-f", "o.yaml", "--team", "red", "-o", "name")
    assert (ran.code, ran.out) == (0, "red/prepare\nred/fit\n"), ran.err
    assert Workload.objects.get(name="fit").unmet == ["prepare"]
    assert weft("diff", "-f", "o.yaml", "--team", "red").out.splitlines()[0] == "weft-red/prepare is unchanged."
    file.write_text(OBJECT.replace("cpu: 1", "cpu: 2").replace("gpus: 1", "gpu_model: A100"))
    ran = weft("apply", "-f", "o.yaml", "--team", "red")
    assert ran.out == "red/prepare configured: resources\n"
    assert ran.err == (
        "error: o.yaml:19: spec.resources.gpu_model is not a field of a Workload. Did you mean gpuModel?\n"
    )
    file.write_text(OBJECT.replace("training", "trainign", 1))
    assert "spec.type is 'trainign'" in weft("submit", "-f", "o.yaml", "--dry-run=client").err
    file.write_text(OBJECT.replace("  type", "  suspend: true\n  type", 1))
    assert weft("delete", "-f", "o.yaml", "--team", "red", "--yes").code == 0
    assert not Workload.objects.exclude(phase="Stopped").exists()
    assert "weft-red/prepare does not exist." in weft("delete", "-f", "o.yaml", "--team", "red", "--yes").out


def test_quota_and_usage_tell_what_a_team_has(mia: People, weft: Weft) -> None:
    hello = submit(weft)
    mia.world.run(hello, "a")
    mia.world.later(3600)
    mia.world.observe()
    mia.world.account()
    head, row = weft("quota").out.splitlines()[:2]
    assert head.split()[:5] == ["TEAM", "POOL", "NOMINAL", "ENTITLED", "ALLOCATED"]
    assert row.split()[:5] == ["red", "main", "8", "1", "1"]
    assert "month" in weft("quota", "red").out
    assert weft("quota", "blue").code == 1
    told = json.loads(weft("quota", "-o", "json").out)
    assert told["quotas"][0]["nominal_milli"] == 8000
    rows = weft("usage", "--by", "team,workload").out.splitlines()
    assert rows[0].split()[:2] == ["TEAM", "WORKLOAD"]
    assert rows[1].split()[:3] == ["red", "hello", "1.00"]
    assert weft("usage", "--by", "colour").code == 1
    assert weft("usage", "--days", "0").code == 2


def test_open_prints_where_a_notebook_is(mia: People, weft: Weft) -> None:
    explore = submit(weft, "notebook", "explore")
    ran = weft("open", "explore", "--no-browser")
    assert (ran.code, ran.out) == (0, "http://explore.weft-red.svc:8888\n")
    assert "red/explore is Queued" in ran.err
    assert "kubectl -n weft-red port-forward service/explore 8888" in ran.err
    mia.world.run(explore, "a")
    assert "Queued" not in weft("open", "explore", "--wait").err
    submit(weft)
    ran = weft("open", "hello")
    assert (ran.code, "is a training, which has no address" in ran.err) == (1, True)


@pytest.mark.parametrize(
    ("end", "code", "word"),
    [({"exit_code": 0}, 0, "Succeeded"), ({"exit_code": 9}, 3, "Failed")],
    ids=["well", "badly"],
)
def test_watch_tells_each_event_and_ends_as_the_job_does(
    mia: People, weft: Weft, end: dict[str, Any], code: int, word: str
) -> None:
    hello = submit(weft)
    happens = threading.Thread(target=_happens, args=(mia, hello, PodPhase[word.upper()], end))
    happens.start()
    ran = weft("watch", "hello")
    happens.join(20)
    assert ran.code == code
    kinds = [line.split("  ")[2] for line in ran.out.splitlines()]
    assert kinds == ["Admitted", "Starting", "Running", word]
    assert ran.err.endswith(f"red/hello has ended: {word}.\n")
    assert weft("watch", "hello").code == code  # it has ended: nothing to wait for


def _happens(mia: People, workload: Workload, phase: PodPhase, end: dict[str, Any]) -> None:
    from django.db import connection

    try:
        wait_until(lambda: feed.FEED.inboxes, "the watch", 20)
        mia.world.place(workload, "a")
        mia.world.actuate()
        mia.world.pods(workload, PodPhase.PENDING)
        mia.world.pods(workload, PodPhase.RUNNING)
        mia.world.pods(workload, phase, **end)
    finally:
        connection.close()


def test_the_sdk_watches_through_a_restart_and_misses_nothing(
    transactional_db: None, shell: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd = people()
    told: list[Event] = []
    with serving() as address:
        port = int(address.rpartition(":")[2])
        client = Client(address, crowd.member.token)
        hello = client.submit(
            {"type": "training", "name": "hello", "team": "red", "image": "a", "resources": {"gpus": 1}}
        )
        follower = threading.Thread(target=lambda: [told.append(event) for event in client.watch(hello.uid)])
        follower.start()
        wait_until(lambda: feed.FEED.inboxes, "the watch", 20)
        row = Workload.objects.get(pk=hello.uid)
        crowd.world.place(row, "a")
        wait_until(lambda: told, "the first event", 20)
    crowd.world.actuate()  # while no server is there
    crowd.world.pods(row, PodPhase.RUNNING)
    with serving(port):
        crowd.world.pods(row, PodPhase.SUCCEEDED, exit_code=0)
        follower.join(30)
        assert not follower.is_alive()
    client.close()
    every = Stored.objects.filter(workload=hello.uid).order_by("id").values_list("id", flat=True)
    assert [event.id for event in told] == list(every)[1:]  # but for the submission, which was before
