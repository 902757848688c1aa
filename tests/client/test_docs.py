"""docs/cli.md names every command, and what docs/sdk.md shows runs. Shown commands are run by tests/documents."""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache

from controlplane.models import NodePool, Quota, Team, Workload
from tests.client.conftest import Weft
from tests.controlplane.api.conftest import People, caller, people
from weft import Client, cli

DOCS = Path(__file__).resolve().parents[2] / "docs"
TEXT, SDK = ((DOCS / name).read_text() for name in ("cli.md", "sdk.md"))


def shown(text: str, kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)


def test_every_command_is_documented() -> None:
    table = TEXT.split("## Commands")[1].split("###")[0]
    names = {one.name or one.callback.__name__ for one in cli.app.registered_commands if one.callback}
    names |= {str(one.name) for one in cli.app.registered_groups}
    assert {name for name in names if not re.search(rf"`(\w+`, `)*{name}\b", table)} == set()


def rows() -> list[str]:
    """The first column of the table of commands: how each is called, one after the other."""
    table = TEXT.split("## Commands")[1].split("###")[0]
    cells = re.findall(r"^\| (`.*?`) \| [^|]", table.replace("\\|", "/"), re.MULTILINE)
    return [span for cell in cells for span in re.findall(r"`([^`]+)`", cell)]


@pytest.mark.parametrize("row", rows())
def test_a_row_of_the_table_names_a_command_and_options_that_there_are(weft: Weft, row: str) -> None:
    command = re.findall(r"^[a-z]+(?: [a-z]+)*", row)[0].split()
    ran = weft(*command, "--help")
    assert ran.code == 0, ran.err
    options = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", row.partition("[-- ")[0]))
    assert [one for one in options if not re.search(rf"(?<![\w-]){one}\b", ran.out)] == []


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
