import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from controlplane.management.commands.test_cluster import Command
from controlplane.testbed.kubernetes import TestCluster
from tests.servers import ROOT, environment, running, wait_until


@pytest.fixture
def home(tmp_path: Path, kubernetes_server: TestCluster) -> Path:
    """A folder for the command, where the programs are not missing."""
    assert kubernetes_server.is_ready()
    return tmp_path


def command(*arguments: str) -> list[str]:
    return [sys.executable, str(ROOT / "manage.py"), "test_cluster", *arguments]


def printed(said: str, name: str) -> str:
    """What the greeting has beside this name."""
    (line,) = [line for line in said.splitlines() if line.startswith(f"  {name} ")]
    return line.removeprefix(f"  {name} ").strip()


def on_a_bare_machine(said: str, line: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a line as the greeting says, in a shell that finds no program but by what the greeting adds."""
    line = line.replace(".venv/bin/python", shlex.quote(sys.executable))
    return subprocess.run(
        ["/bin/sh", "-c", f"{printed(said, 'shell')}\n{line}"],
        cwd=ROOT,
        env={**env, "PATH": "/nowhere"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_it_says_how_to_use_the_cluster_and_takes_it_away_at_the_end(home: Path) -> None:
    env = environment(home)
    log = home / "log"
    with running(command("--nodes", "2"), log=log, env=env, stop=signal.SIGINT) as process:
        wait_until(lambda: "logs  " in log.read_text() or process.poll() is not None, "the cluster")
        said = log.read_text()
        config = Path(said.partition("CLUSTER=kubernetes KUBECONFIG=")[2].split()[0])
        nodes = on_a_bare_machine(said, "kubectl get nodes --output=name", env)
        # On a folder where nothing was set up: that is refused in words, and the printed line before sets it up.
        early = on_a_bare_machine(said, printed(said, "permissions"), env)
        installed = on_a_bare_machine(said, printed(said, "database").partition("   (")[0], env)
        applied = on_a_bare_machine(said, printed(said, "permissions"), env)
        address = json.loads(config.read_text())["clusters"][0]["cluster"]["server"]
        second = subprocess.run(command(), env=env, capture_output=True, text=True, timeout=60)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0

    assert "2 nodes, 16 GPUs" in said
    assert address in said
    assert len(nodes.stdout.split()) == 2, nodes.stderr
    assert "The database has no tables yet. Run" in early.stderr
    assert "Traceback" not in early.stderr
    assert installed.returncode == 0, installed.stderr
    assert "serverside-applied" in applied.stdout, applied.stderr
    assert second.returncode == 2
    assert "A test cluster runs already" in second.stderr
    assert not config.parent.exists()


def test_a_wrong_number_of_nodes_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        Command().run_from_argv(["manage.py", "test_cluster", "--nodes", "many"])

    assert ended.value.code == 2
    assert "NODES is many. Set it to a number up to 5000, or to openb." in capsys.readouterr().err
