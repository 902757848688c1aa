"""The web form, REST, the CLI and a job file are one: the same job is made, and the same fault is the same sentence."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.test import Client

from controlplane.models import Workload
from frontend import forms
from tests.client.conftest import Weft, shell, weft
from tests.controlplane.api.conftest import People, people

__all__ = ["shell", "weft"]
pytestmark = pytest.mark.django_db(transaction=True)


def job(**fields: Any) -> dict[str, Any]:
    """A training that could be submitted, but for these fields; dotted names are inside others, None takes away."""
    made: dict[str, Any] = {"type": "training", "name": "hello", "team": "red", "image": "example/app:1"}
    made |= {"resources": {"gpus": 1}}
    for path, value in fields.items():
        *parents, name = path.split("__")
        place = made
        for parent in parents:
            place = place.setdefault(parent, {})
        if value is None:
            place.pop(name)
        else:
            place[name] = value
    return made


def typed(part: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """What a person types into the form for a job file."""
    for name, value in part.items():
        path = f"{prefix}{name}"
        if path == "env":
            yield path, "\n".join(f"{key}={one}" for key, one in value.items())
        elif isinstance(value, dict):
            yield from typed(value, f"{path}.")
        elif isinstance(value, list):
            yield path, shlex.join(value) if path == "command" else ", ".join(value)
        else:
            yield path, str(value)


# What is wrong -> the job file, and the flags of `weft submit training` where they can say the same.
CORPUS: dict[str, tuple[dict[str, Any], dict[str, str] | None]] = {
    "a name in capitals": (job(name="Hello"), {"name": "Hello"}),
    "a name of the platform": (job(name="weft-x"), {"name": "weft-x"}),
    "no name": (job(name=None), {"name": ""}),
    "no image": (job(image=None), {"image": ""}),
    "an image with a blank": (job(image="a b"), {"image": "a b"}),
    "a team not mine": (job(team="blue"), {"team": "blue"}),
    "an unknown team": (job(team="green"), {"team": "green"}),
    "an unknown class": (job(priority_class="urgent"), {"priority-class": "urgent"}),
    "GPUs below zero": (job(resources__gpus=-1), {"gpus": "-1"}),
    "GPUs that no node has": (job(resources__gpus=9), {"gpus": "9"}),
    "a GPU that is not there": (job(resources__gpu_model=["H900"]), {"gpu-model": "H900"}),
    "memory in apples": (job(resources__memory="5 apples"), {"memory": "5 apples"}),
    "more memory than there is": (job(resources__memory="1000Gi"), {"memory": "1000Gi"}),
    "no workers": (job(workers__count=0), {"workers": "0"}),
    "least above count": (job(workers__count=2, workers__min=3), {"workers": "2", "min": "3"}),
    "more workers than fit": (job(workers__count=17), {"workers": "17"}),
    "retries below zero": (job(retries=-1), {"retries": "-1"}),
    "a time without unit": (job(max_duration="10"), {"max-duration": "10"}),
    "longer than it may run": (
        job(max_duration="1h", expected_duration="2h"),
        {"max-duration": "1h", "expected-duration": "2h"},
    ),
    "a reserved variable": (job(env={"WEFT_RANK": "0"}), {"env": "WEFT_RANK=0"}),
    "after itself": (job(after=["hello"]), {"after": "hello"}),
    "after nobody": (job(after=["nobody"]), {"after": "nobody"}),
    "a rack on the moon": (job(topology__require="moon"), None),
    "a deadline in the past": (job(deadline="2020-01-01T00:00:00Z"), None),
    "a folder that is relative": (job(working_dir="src"), None),
    "two faults at once": (job(name="Hello", retries=-1), {"name": "Hello", "retries": "-1"}),
}
FLAGS = {"name": "hello", "team": "red", "image": "example/app:1", "gpus": "1"}


@dataclass
class Doors:
    """The four ways in, as one person."""

    api: People
    weft: Weft
    folder: Path
    browser: Client

    def rest(self, body: dict[str, Any]) -> list[str]:
        answer = json.loads(self.api.member.post("/workloads", body).content)
        return [one["message"] for one in answer.get("errors", ())]

    def form(self, body: dict[str, Any]) -> str:
        """The page that comes back."""
        return unescape(self.browser.post("/submit/", dict(typed(body))).content.decode())

    def file(self, body: dict[str, Any]) -> str:
        """What the CLI says to a job file."""
        (self.folder / "job.yaml").write_text(yaml.safe_dump(body))
        return self.weft("submit", "-f", "job.yaml").err

    def flags(self, flags: dict[str, str]) -> str:
        """What the CLI says to flags."""
        given = [f"--{name}={value}" for name, value in {**FLAGS, **flags}.items() if value]
        return self.weft("submit", "training", *given).err


@pytest.fixture
def doors(live_server: Any, weft: Weft, shell: Path, monkeypatch: pytest.MonkeyPatch) -> Doors:
    api = people()
    assert api.member.user is not None
    monkeypatch.setenv("WEFT_URL", live_server.url)
    monkeypatch.setenv("WEFT_TOKEN", api.member.token)
    browser = Client()
    browser.force_login(api.member.user)
    return Doors(api, weft, shell, browser)


def test_the_same_fault_is_the_same_sentence_everywhere(doors: Doors) -> None:
    for what, (body, flags) in CORPUS.items():
        sentences = doors.rest(body)
        assert sentences, what
        said = {"form": doors.form(body), "file": doors.file(body)}
        if flags is not None:
            said["flags"] = doors.flags(flags)
        for door, text in said.items():
            for sentence in sentences:
                assert sentence in text, (what, door, sentence, text[-2000:])
    assert not Workload.objects.exists()


def made(name: str) -> dict[str, Any]:
    """All columns of a workload that its job file decides."""
    row = Workload.objects.filter(name=name).values().get()
    row["spec"] = {key: value for key, value in row["spec"].items() if key != "name"}
    own = ("uid", "seq", "name", "submitted_at", "queued_at")
    return {key: value for key, value in row.items() if key not in own}


def test_the_same_job_is_made_everywhere(doors: Doors) -> None:
    body = job(
        resources__gpus=2, resources__memory="64Gi", resources__cpu=8, resources__gpu_model=["A100"], retries=2,
        workers__count=2, workers__min=1, workers__max=2, env={"EPOCHS": "3", "B": "b=c"}, max_duration="12h",
        command=["torchrun", "train me.py"], priority_class="high", expected_duration="6h", after=["base"],
        checkpoint__interval="10m",
    )  # fmt: skip
    doors.rest(job(name="base"))
    assert doors.rest({**body, "name": "by-rest"}) == []
    doors.form({**body, "name": "by-form"})
    assert doors.file({**body, "name": "by-file"}) == ""
    flags = ["--gpus=2", "--memory=64Gi", "--cpu=8", "--gpu-model=A100", "--retries=2", "--workers=2", "--min=1"]
    flags += ["--max=2", "-e", "EPOCHS=3", "-e", "B=b=c", "--max-duration=12h", "--priority-class=high"]
    flags += ["--expected-duration=6h", "--after=base", "--checkpoint-interval=10m", "--team=red"]
    command = ("--", "torchrun", "train me.py")
    ran = doors.weft("submit", "training", "--name=by-flags", "--image=example/app:1", *flags, *command)
    assert ran.err == ""
    for door in ("by-form", "by-file", "by-flags"):
        assert made(door) == made("by-rest"), door
    (_, _, text), *_ = forms.copies({**body, "name": "by-copy"}, "http://127.0.0.1:1")
    (doors.folder / "copy.yaml").write_text(text)
    assert doors.weft("submit", "-f", "copy.yaml").err == ""
    assert made("by-copy") == made("by-rest")
