"""What docs/cli.md, ci.md and sdk.md show is understood, and does what they say."""

import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.cache import cache

from controlplane.client import cli
from controlplane.models import NodePool, Quota, Team, Workload
from tests.client.conftest import Weft
from tests.client.scripted import Scripted
from tests.controlplane.api.conftest import People, caller, people
from weft import Client

DOCS = Path(__file__).resolve().parents[2] / "docs"
TEXT, CI, SDK = ((DOCS / name).read_text() for name in ("cli.md", "ci.md", "sdk.md"))
SNIPPETS = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", CI, re.DOTALL)]
JOB = """\
type: training
name: fit
team: nlp
image: example/fit:1
resources: {gpus: 1}
"""
SERVICE = JOB.replace("training", "inference").replace("fit", "chat")


def shown(text: str, kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)


def ci_jobs() -> dict[str, list[str]]:
    """The lines of each job of the CI snippets."""
    github, gitlab = SNIPPETS
    steps = {f"github {name}": job["steps"] for name, job in github["jobs"].items()}
    lines = {name: [step["run"] for step in found if "run" in step] for name, found in steps.items()}
    return lines | {f"gitlab {name}": job["script"] for name, job in gitlab.items()}


def commands() -> list[str]:
    """Every `weft ...` line of the shell blocks and the CI snippets."""
    lines = [line for text in shown(TEXT, "sh") for line in text.splitlines()]
    lines += [line for job in ci_jobs().values() for line in job]
    return [line for line in lines if line.startswith("weft ")]


def words(command: str) -> list[str]:
    plain = re.sub(r"\$\{\{[^}]*\}\}|\$\w+", "7", command).partition(" <")[0]
    return shlex.split(plain, comments=True)[1:]


@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_documentation_is_no_wrong_usage(signed_in: Scripted, weft: Weft, command: str) -> None:
    if "--token -" in command:
        command = command.replace("--token -", "--token weft_7")
    ran = weft(*words(command))
    if words(command)[0] == "config":
        assert ran.code in (0, 1), ran.err
        return
    assert ran.code == 1, ran.err  # the scripted server has no such thing, and there is no file
    assert ran.err.startswith("error: ")


def test_every_command_is_documented() -> None:
    table = TEXT.split("## Commands")[1].split("###")[0]
    names = {one.name or one.callback.__name__ for one in cli.app.registered_commands if one.callback}
    names |= {str(one.name) for one in cli.app.registered_groups}
    assert {name for name in names if not re.search(rf"`(\w+`, `)*{name}\b", table)} == set()


# --- against a live server --------------------------------------------------------------------


@pytest.fixture
def nlp(live_server: Any, shell: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> People:
    """The shell of a member of team nlp, which the documents speak of."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    cache.clear()
    crowd = people()
    team = Team.objects.create(name="nlp")
    Quota.objects.create(team=team, pool=NodePool.objects.get(name="main"), nominal=8000)
    crowd.member = caller("mel", "nlp", "member")
    monkeypatch.setenv("WEFT_URL", live_server.url)
    monkeypatch.setenv("WEFT_TOKEN", crowd.member.token)
    return crowd


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("job", ci_jobs())
def test_a_ci_job_of_the_documentation_runs(nlp: People, weft: Weft, shell: Path, job: str) -> None:
    (shell / "job.yaml").write_text(JOB)
    (shell / "service.yaml").write_text(SERVICE)
    for line in ci_jobs()[job]:
        if line.startswith("pip install"):
            continue
        assert line.startswith("weft "), line
        # Nothing runs here, so waiting ends by its time: the code that is told for that.
        ran = weft(*(re.sub(r"^\d+[mh]$", "1s", word) for word in words(line)))
        assert ran.code == (4 if "--wait" in line else 0), ran.err
    assert Workload.objects.filter(team__name="nlp").count() == 1


@pytest.fixture
def client(nlp: People, live_server: Any) -> Iterator[Client]:
    with Client(live_server.url, nlp.member.token) as opened:
        yield opened


@pytest.mark.django_db(transaction=True)
def test_the_samples_of_the_sdk_run_one_after_the_other(
    nlp: People, client: Client, live_server: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *others = shown(SDK, "python")
    known: dict[str, Any] = {"url": live_server.url, "token": nlp.member.token, "client": client}
    exec(compile(first, "docs/sdk.md", "exec"), known)  # its client is closed then
    known["client"] = client
    exec(compile(textwrap.dedent("\n".join(others)), "docs/sdk.md", "exec"), known)
    said = capsys.readouterr().out
    assert said.startswith("nlp/hello Queued")
    assert Workload.objects.get(name="second").priority_class.name == "high"
    assert "['nlp/hello'] [('second', 0.0)]" in said
    assert "('nlp', 'main', 8000)" in said
