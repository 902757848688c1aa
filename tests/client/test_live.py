"""The command line and the SDK against the real server: REST, services, loops and a database."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.cluster.port import PodPhase
from controlplane.models import User, Workload
from tests.client.conftest import PIPELINE, Weft
from tests.controlplane.api.conftest import People
from weft import Client, NotSignedIn, WeftError

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).resolve().parents[2]
FLAGS = ("training", "--name", "hello", "--team", "red", "--image", "example/train:1", "--gpus", "1")


@pytest.fixture
def url(live_server: Any) -> str:
    return str(live_server.url)


@pytest.fixture
def client(crowd: People, url: str) -> Iterator[Client]:
    with Client(url, crowd.member.token) as opened:
        yield opened


def job(name: str) -> dict[str, Any]:
    return {"type": "training", "name": name, "team": "red", "image": "example/a:1", "resources": {"gpus": 1}}


# --- signing in ------------------------------------------------------------------------------


def test_a_password_becomes_a_token_that_logout_ends(
    crowd: People, url: str, weft: Weft, shell: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mia = User.objects.get(username="mia")
    mia.set_password("correct horse battery")
    mia.save()
    (shell / "password").write_text("correct horse battery\n")
    with (shell / "password").open() as typed:
        monkeypatch.setattr(sys, "stdin", typed)
        ran = weft("login", url, "--username", "mia", "--password-stdin")
    assert ran.out == f"Signed in to {url} as mia (member of red).\n"
    token = json.loads((shell / "config" / "weft" / "config.json").read_text())["contexts"]["default"]["token"]
    assert weft("whoami", "-o", "name").out == "mia\n"
    assert weft("logout").code == 0
    with Client(url, token) as client, pytest.raises(NotSignedIn):
        client.whoami()


def test_a_wrong_password_is_one_clear_line(crowd: People, url: str) -> None:
    with Client(url) as client, pytest.raises(NotSignedIn) as caught:
        client.login("mia", "wrong password")
    assert str(caught.value) == "The user name or the password is wrong."


def test_an_unknown_token_says_how_to_sign_in(mia: People, weft: Weft) -> None:
    ran = weft("get", "--token", "weft_unknown")
    assert ran.code == 1
    assert ran.err.endswith("Sign in with `weft login URL`, or set WEFT_TOKEN.\n")


# --- submitting ------------------------------------------------------------------------------


def test_what_is_submitted_is_listed_explained_and_stopped(mia: People, weft: Weft) -> None:
    ran = weft("submit", *FLAGS, "-e", "A=1", "--", "python", "train.py")
    assert ran.code == 0
    uid = ran.out.split("(")[1].rstrip(")\n")
    shown = json.loads(weft("get", "hello", "-o", "json").out)
    assert (shown["uid"], shown["created_by"], shown["spec"]["command"]) == (uid, "mia", ["python", "train.py"])
    assert weft("get").out.splitlines()[1].split()[:4] == ["red", "hello", "training", "Queued"]
    assert weft("get", "-o", "name", "--phase", "Running").out == ""
    why = weft("why", "red/hello").out
    assert why.startswith("red/hello is Queued")
    assert "✓ Quota" in why
    assert "Starts in the next round" in why
    assert weft("queue", "-o", "name").out == "red/hello\n"
    assert weft("stop", uid).out == "red/hello is Stopped.\n"
    assert weft("stop", uid).out == "red/hello has already ended: Stopped.\n"
    ran = weft("suspend", "hello")
    assert (ran.code, ran.err) == (1, "error: hello is Stopped; it cannot be suspended.\n")


def test_a_dry_run_says_where_it_would_start_and_writes_nothing(mia: People, weft: Weft) -> None:
    assert weft("submit", *FLAGS, "--dry-run", "server").out == "red/hello: would start now on a GPU 0.\n"
    assert not Workload.objects.exists()


def test_a_pipeline_is_previewed_and_submitted_as_one(mia: People, weft: Weft, shell: Path) -> None:
    (shell / "p.yaml").write_text(PIPELINE)
    said = weft("submit", "-f", "p.yaml", "--dry-run", "server").out.splitlines()
    assert said[1].startswith("red/fit: after prepare, would start now")
    assert weft("submit", "-f", "p.yaml", "-o", "name").out == "red/prepare\nred/fit\n"
    assert "Starts after:  prepare (not met: prepare)" in weft("describe", "fit").out


def test_a_pipeline_with_a_fault_submits_nothing_and_names_its_line(mia: People, weft: Weft, shell: Path) -> None:
    (shell / "p.yaml").write_text(PIPELINE + "colour: red\n")
    ran = weft("submit", "-f", "p.yaml")
    assert ran.code == 1
    assert ran.err.startswith("error: p.yaml:15: ")
    assert "colour" in ran.err
    assert not Workload.objects.exists()


def test_a_file_is_created_configured_or_unchanged(mia: People, weft: Weft, shell: Path) -> None:
    file = shell / "p.yaml"
    file.write_text(PIPELINE)
    assert weft("apply", "-f", "p.yaml").out == "red/prepare created\nred/fit created\n"
    assert weft("apply", "-f", "p.yaml").out == "red/prepare unchanged\nred/fit unchanged\n"
    file.write_text(PIPELINE.replace("count: 2", "count: 4"))
    assert weft("apply", "-f", "p.yaml").out == "red/prepare unchanged\nred/fit configured: workers\n"
    assert weft("apply", "-f", "p.yaml", "-o", "name").out == "red/prepare\nred/fit\n"
    assert [one["outcome"] for one in json.loads(weft("apply", "-f", "p.yaml", "-o", "json").out)] == ["unchanged"] * 2
    file.write_text(PIPELINE.replace("example/fit:1", "example/fit:2"))
    ran = weft("apply", "-f", "p.yaml")
    assert (ran.code, ran.out) == (1, "red/prepare unchanged\n")
    assert ran.err == "error: p.yaml:10: image cannot change after the submission. Submit a new workload.\n"
    assert weft("apply", "-f", "p.yaml", "--token", mia.viewer.token).code == 5
    assert weft("apply").code == 2
    assert Workload.objects.get(name="fit").workers == 4


def test_what_no_machine_can_run_is_refused_with_5(mia: People, weft: Weft) -> None:
    ran = weft("submit", *FLAGS[:-1], "99")
    assert ran.code == 5
    assert ran.err.startswith("error: resources.gpus: One worker asks for 99 GPUs, but no node has more than 8.")


def test_a_viewer_may_not_submit(mia: People, weft: Weft) -> None:
    assert weft("submit", *FLAGS, "--token", mia.viewer.token).code == 5


def test_the_same_key_submits_once(mia: People, weft: Weft) -> None:
    first, again = (weft("submit", *FLAGS, "--idempotency-key", "ci-run-7") for _ in range(2))
    assert first.out == again.out
    assert Workload.objects.count() == 1


def test_another_teams_work_is_not_there(mia: People, weft: Weft) -> None:
    mia.world.submit("secret", team="blue")
    for command in ("get", "why", "describe", "logs", "stop"):
        ran = weft(command, "blue/secret")
        assert ran.code == 1
        assert "There is no workload blue/secret that you may see." in ran.err


def test_every_list_is_shown(mia: People, weft: Weft) -> None:
    mia.world.run(mia.world.submit("hello"), "a")
    expected = {
        ("top",): "red",
        ("top", "nodes"): "A100",
        ("get", "nodes", "a"): "main",
        ("get", "node-pools"): "main",
        ("get", "teams"): "red",
        ("get", "quotas"): "red",
        ("get", "shares"): "red",
        ("get", "budgets"): "month",
        ("get", "priority-classes"): "normal (default)",
        ("describe", "hello"): "Placement:",
    }
    for command, text in expected.items():
        ran = weft(*command)
        assert (ran.code, ran.err) == (0, ""), command
        assert text in ran.out, command
    assert weft("get", "usage").code == 0


# --- waiting ---------------------------------------------------------------------------------


def ends(world: Any, workload: Workload, phase: PodPhase, **columns: Any) -> None:
    world.run(workload, "a")
    world.pods(workload, phase, **columns)


def stopped(world: Any, workload: Workload) -> None:
    with Client(os.environ["WEFT_URL"], os.environ["WEFT_TOKEN"]) as client:
        client.stop(str(workload.pk))


@pytest.mark.parametrize(
    ("happens", "code", "last"),
    [
        (lambda world, it: ends(world, it, PodPhase.SUCCEEDED, exit_code=0), 0, "red/hello is Succeeded"),
        (lambda world, it: ends(world, it, PodPhase.FAILED, exit_code=9), 3, "red/hello is Failed (exit code 9)"),
        (stopped, 6, "red/hello is Stopped"),
    ],
    ids=["succeeded", "failed", "stopped"],
)
def test_submit_and_wait_exits_as_the_job_ended(
    mia: People, happens: Callable[[Any, Workload], None], code: int, last: str
) -> None:
    command = [sys.executable, "-c", "from weft.cli import main; main()", "submit", *FLAGS, "--wait"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline().endswith("red/hello is Queued\n")
    happens(mia.world, Workload.objects.get(name="hello"))
    _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert last in err.splitlines()[-1]


# --- the SDK ---------------------------------------------------------------------------------


def test_long_lists_come_whole(client: Client) -> None:
    for first in range(0, 210, 70):
        client.submit_all([job(f"w{number}") for number in range(first, first + 70)])
    assert [one.name for one in client.list()] == [f"w{number}" for number in reversed(range(210))]
    assert len(list(client.queue())) == 210
    assert len({event.id for event in client.events(client.find("w7").uid)}) == 1


def test_a_change_of_an_old_version_is_refused(client: Client) -> None:
    before = client.submit(job("hello"))
    after = client.patch(before.uid, {"priority_class": "high"}, version=before.version)
    assert (after.priority_class, after.version > before.version) == ("high", True)
    with pytest.raises(WeftError) as caught:
        client.patch(before.uid, {"priority_class": "normal"}, version=before.version)
    assert caught.value.status == 412


def test_a_workload_is_suspended_resumed_and_requeued(crowd: People, client: Client) -> None:
    hello = client.submit(job("hello"))
    assert client.suspend(hello.uid).phase == "Held"  # it had no place yet
    assert client.wait(hello.uid, until="Held", timeout=5).phase == "Held"
    assert client.resume(hello.uid).phase == "Queued"
    crowd.world.run(Workload.objects.get(pk=hello.uid), "a")
    assert client.wait(hello.uid, until="running", timeout=5).is_up
    assert client.placement(hello.uid)["workers"][0]["node"] == "a"
    assert client.requeue(hello.uid).phase == "Suspending"


def test_several_are_acted_on_each_by_itself(client: Client) -> None:
    ended, waits = client.submit(job("ended")), client.submit(job("waits"))
    client.stop(ended.uid)
    refused, done = client.act("suspend", [ended.uid, waits.uid])
    assert (done.is_done, done.workload and done.workload["phase"]) == (True, "Held")
    assert refused.refusal == {
        "status": 409, "code": "WrongPhase", "field": "phase",
        "message": "ended is Stopped; it cannot be suspended.",
    }  # fmt: skip
    assert [one.is_done for one in client.act("priority", [waits.uid], priority_class="high")] == [True]
    assert client.read(waits.uid).priority_class == "high"


def test_a_preview_is_typed(client: Client) -> None:
    preview = client.preview(job("hello"))
    assert (preview.will_start, preview.phase, preview.placement[0]["node"]) == (True, "Admitted", "a")
    assert preview.workload["name"] == "hello"
