"""Every command of README.md and docs/ does what it says, or stands in rules.NOT_RUN with the reason.

A new command in a document is run from then on. If it cannot be, its failure names file and line.
"""

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import httpx
import pytest

from controlplane.benchmarks.harness.registry import BENCHMARKS
from controlplane.testbed import binaries, programs
from controlplane.testbed.kubernetes import TestCluster
from tests import traces
from tests.documents import rules, session
from tests.documents.reading import Command, blocks, commands, documents
from tests.documents.session import Weft
from tests.servers import ROOT, environment, free_port, wait_until

JOB = """\
type: training
name: {name}
team: nlp
image: example/fit:1
resources: {{gpus: 1}}
expected_duration: 1m
"""
SERVICE = """\
type: inference
name: answers
team: nlp
image: example/chat:1
resources: {gpus: 1}
replicas: {min: 1, max: 2}
"""
FILES = {
    "job.yaml": JOB.format(name="fit"),
    "service.yaml": SERVICE,
    "pipeline.yaml": JOB.format(name="prepare") + "---\n" + JOB.format(name="train") + "after: [prepare]\n",
    "my.csv": "submit_s,duration_s,num_gpus,vc\n" + "".join(f"{60 * n},600,1,a\n" for n in range(50)),
}
# A training that cannot start: its team owns 24 GPUs of one kind and 16 of the other, and may borrow none. Fewer
# workers are a suggestion as long as one of its team's trainings may be preempted: no node has to be free for one GPU.
WAITING = {
    "type": "training",
    "name": "waits",
    "team": "vision",
    "image": "example/train:1",
    "resources": {"gpus": 1},
    "workers": {"count": 25},
    "priority_class": "high",
}


def shown_files() -> dict[str, str]:
    """The files that documents show: of several in one block of docs/policies.md each begins with its name."""
    settings, others = blocks((ROOT / "docs/policies.md").read_text(), "yaml")
    named = re.findall(r"^# (\w+\.yaml)\b.*\n((?:[^#\n].*\n)+)", others, re.MULTILINE)
    workload = blocks((ROOT / "docs/kubernetes-objects.md").read_text(), "yaml")[0]
    experiment = blocks((ROOT / "docs/simulate.md").read_text(), "yaml")[0]
    return {"settings.yaml": settings, "workload.yaml": workload, "experiment.yaml": experiment, **dict(named)}


@cache
def found(file: str) -> list[Command]:
    return commands(file)


def steps_of(file: str) -> list[rules.Step]:
    """What the shell of a document runs: no servers, nothing of rules.NOT_RUN.

    A `manage.py` command takes seconds and does the same in each shell, so the first document that has it runs it.
    """
    before = [one for other in documents()[: documents().index(file)] for one in found(other)]
    steps: list[rules.Step] = []
    for one in found(file):
        text = rules.plain(one)
        is_again = "manage.py" in text and text in map(rules.plain, [*before, *(step.command for step in steps)])
        if not is_again and not rules.not_run(one) and not rules.server(one):
            steps.append(rules.step(one))
    return steps


EVERY = [command for file in documents() for command in found(file)]
SERVERS = {rules.plain(one): ready for one in EVERY if (ready := rules.server(one))}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the documents' commands run: with the files they speak of."""
    folder = tmp_path_factory.mktemp("documents") / "work"
    folder.mkdir()
    for name, text in {**FILES, **shown_files()}.items():
        (folder / name).write_text(text)
    for name in (".venv", "manage.py"):
        (folder / name).symlink_to(ROOT / name)
    return folder


@pytest.fixture(scope="module")
def weft(folder: Path) -> Iterator[Weft]:
    """The Weft of the README's first command."""
    home, port = folder.with_name("weft"), str(free_port())
    # A quiet cluster, so that what is submitted starts at once, and a clock that ends a job of a minute in a second:
    # a quicker one costs as much processor time as all of the commands.
    env = environment(home, PORT=port, SPEED="60", LOAD="0.1")
    with session.serving(rules.FIRST, SERVERS[rules.FIRST], folder.with_name("up.log"), env):
        yield Weft(f"http://127.0.0.1:{port}", home, env)


@pytest.fixture
def kubeconfig(kubernetes: TestCluster) -> str:
    """Of the admin of a real Kubernetes."""
    return str(kubernetes.kubeconfig())


@pytest.fixture(scope="module")
def environ(weft: Weft, folder: Path) -> dict[str, str]:
    """The shell's variables: where Weft is, and what stands for the placeholders."""
    with httpx.Client(
        timeout=60, base_url=f"{weft.url}/api/v1", headers={"Authorization": f"Bearer {weft.token('admin')}"}
    ) as http:
        for pool in ("a100", "l40s"):
            http.patch(f"/teams/vision/quotas/{pool}", json={"borrowing_limit_milli": 0}).raise_for_status()
        answer = http.post("/workloads", json=WAITING)
        answer.raise_for_status()
        at = f"/workloads/{answer.json()['uid']}/explanation"
        # What would start it depends on what else waits in the demo just then.
        found: list[str] = []

        def is_told() -> bool:
            found.extend(one["kind"] for one in http.get(at).json()["suggestions"])
            return bool(found)

        wait_until(is_told, "a suggestion for what waits", 60)
    (folder / "token-file").write_text(weft.token("mel"))
    head = weft.rows("select number, digest from controlplane_auditentry order by number desc limit 1")
    cycle = weft.rows("select max(id) from controlplane_cycle where loop = 'schedule'")
    return {
        **weft.env,
        "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}",
        "SHELL": "/bin/bash",
        "ADDRESS": weft.url,
        "FILES": str(folder),
        "SPARE": str(folder.with_name("spare")),
        "CI_JOB_ID": "7",
        "WAITING": "vision/waits",
        "KIND": found[0],
        "CYCLE": str(cycle[0][0]),
        "HEAD": ":".join(map(str, head[0])) if head else "",
    }


def needs_weft(text: str) -> bool:
    """Whether a server is about the Weft that runs; it comes last, as that one takes a quarter of a core."""
    return text.startswith("manage.py export")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("text", sorted((text for text in SERVERS if text != rules.FIRST), key=needs_weft))
def test_a_server_of_the_documents_runs_until_ctrl_c(
    text: str, folder: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    env = environment(tmp_path, PORT=str(free_port()), FILES=str(folder))
    if text.startswith("make test-cluster"):
        binaries.find()
    elif needs_weft(text):
        weft: Weft = request.getfixturevalue("weft")
        env["WEFT_HOME"] = str(weft.home)

    with session.serving(rules.fill(text), SERVERS[text], tmp_path / "log", env):
        pass


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("file", [file for file in documents() if steps_of(file)])
def test_the_commands_of_a_document_run(file: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    steps = steps_of(file)
    for name in ("curl", "openssl", "bash"):  # before Weft is started; bash runs them all
        if name == "bash" or any(re.search(rf"\b{name} ", step.text) for step in steps):
            programs.find(name)
    if any("derive_models" in step.text for step in steps):  # reads the trace files, which Weft does not ship
        for name in ("philly", "openb"):
            traces.needed(name)
    weft: Weft = request.getfixturevalue("weft")
    folder: Path = request.getfixturevalue("folder")
    environ: dict[str, str] = request.getfixturevalue("environ")
    home, told = tmp_path / "home", tmp_path / "told"
    home.mkdir()
    told.mkdir()
    env = {**environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    if file not in rules.SIGN_IN:
        user = "admin" if file in rules.ADMINS else "mel"
        env |= {"WEFT_URL": weft.url, "WEFT_TOKEN": weft.token(user)}
    if any("provisioner" in one.text for one in found(file)):
        env["KUBECONFIG"] = request.getfixturevalue("kubeconfig")
        env["PATH"] = f"{binaries.find()['kubectl'].parent}:{env['PATH']}"

    done = session.run(steps, folder, told, env, weft.password)

    failed = [str(one) for one in done if one.code != 0]
    assert not failed, f"{len(failed)} of {len(done)} commands failed:\n" + "\n".join(failed)


def test_only_a_few_commands_are_not_run_each_with_its_reason() -> None:
    assert len(rules.NOT_RUN) <= rules.MAX_NOT_RUN
    used = {pattern for pattern in rules.NOT_RUN for one in EVERY if re.fullmatch(pattern, rules.plain(one))}
    assert used == set(rules.NOT_RUN), "no document has these any more"


def test_every_benchmark_that_a_document_names_is_there() -> None:
    named = {
        (name, one.where)
        for one in EVERY
        for names in re.findall(r"NAME=(\S+)|manage\.py benchmark ([a-z-]+)", rules.plain(one))
        for name in names
        if name
    }
    assert named
    assert [one for one in named if one[0] not in BENCHMARKS] == []
