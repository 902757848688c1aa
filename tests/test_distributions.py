"""Two distributions from one tree: `weft` for clients, `weft-server` without what needs a checkout."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from controlplane.testbed import programs
from tests.servers import ROOT

MAX_CLIENT_BYTES = 300_000
SERVER = {"gpushare", "scheduler", "autoscaler", "controlplane", "frontend"}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both wheels, built from a copy of what git knows: setuptools leaves files in the tree that it builds."""
    folder = tmp_path_factory.mktemp("distributions")
    tree = folder / "tree"
    command = [programs.find("git"), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tree / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "-w", str(folder), ".", "./weft"], cwd=tree, capture_output=True, check=True)
    return {path.name.partition("-")[0]: path for path in folder.glob("*.whl")}


def packages(wheel: Path) -> set[str]:
    names = (name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist())
    return {name for name in names if not name.endswith(".dist-info")}


def test_the_client_has_nothing_of_the_server_and_is_small(wheels: dict[str, Path]) -> None:
    assert packages(wheels["weft"]) == {"weft"}
    assert {"weft/cli.py", "weft/commands/submit.py", "weft/py.typed"} <= set(
        zipfile.ZipFile(wheels["weft"]).namelist()
    )
    assert wheels["weft"].stat().st_size <= MAX_CLIENT_BYTES


def test_the_client_runs_from_its_wheel_alone(wheels: dict[str, Path], tmp_path: Path) -> None:
    zipfile.ZipFile(wheels["weft"]).extractall(tmp_path)
    code = "import weft; from weft.cli import run; print(weft.__file__); raise SystemExit(run(['--help']))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=alone(tmp_path), capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(str(tmp_path / "weft"))
    assert "submit" in done.stdout


def test_the_server_has_no_client_no_benchmarks_and_no_test_servers(wheels: dict[str, Path]) -> None:
    names = zipfile.ZipFile(wheels["weft_server"]).namelist()
    assert packages(wheels["weft_server"]) == SERVER
    assert {name.split("/")[1] for name in names if name.startswith("controlplane/")} >= {"services", "security"}
    assert not [name for name in names if name.startswith(("controlplane/benchmarks", "controlplane/testbed"))]
    assert "controlplane/security/authorization.txt" in names


@pytest.mark.parametrize("command", [["benchmark", "start"], ["test_cluster"], ["figures"]])
def test_an_installed_server_says_what_needs_a_checkout(
    wheels: dict[str, Path], tmp_path: Path, command: list[str]
) -> None:
    zipfile.ZipFile(wheels["weft_server"]).extractall(tmp_path)
    shutil.copyfile(ROOT / "manage.py", tmp_path / "manage.py")
    done = subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=tmp_path,
        env={**alone(tmp_path), "WEFT_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"manage.py {command[0]} needs a checkout of Weft's repository")
    assert len(done.stderr.splitlines()) == 1


def alone(folder: Path) -> dict[str, str]:
    """An environment in which a process finds the unpacked wheel before this tree."""
    return {**os.environ, "PYTHONPATH": str(folder)}
