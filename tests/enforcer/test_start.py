"""What starts a program with the library, or does not start it and says why."""

import shutil
import subprocess
from pathlib import Path

import pytest

from controlplane.enforcer.build import LIBRARY, PROBE, START
from controlplane.testbed.fakecuda.rig import Rig

CANNOT, UNSERVED = 125, 124


@pytest.fixture
def folder(library: Path, tmp_path: Path) -> Path:
    """A copy of what is built, to break."""
    made = tmp_path / "library"
    made.mkdir()
    for name in (LIBRARY, START, PROBE):
        shutil.copy(library.parent / name, made)
    return made


def start(rig: Rig, folder: Path, *told: str, **more: str) -> "subprocess.CompletedProcess[str]":
    environment = {**rig.environment("a"), **more}
    del environment["LD_PRELOAD"]
    return subprocess.run([folder / START, *told], env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def served(rig: Rig) -> Rig:
    rig.share("a", guarantee=300, memory=1000)
    rig.serve()
    return rig


def test_a_program_is_started_with_the_library(served: Rig, folder: Path) -> None:
    done = start(served, folder, str(served.built.client), "reach", "1001")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "launch 0 free 1000 total 1000 device 1000 alloc 2\n"
    assert start(served, folder).returncode == 0


def test_a_library_that_cannot_be_loaded_keeps_the_program_from_starting(served: Rig, folder: Path) -> None:
    (folder / LIBRARY).write_bytes(b"not a library")
    done = start(served, folder, "echo", "started")
    assert (done.returncode, done.stdout) == (CANNOT, "")
    assert f"weft: not started: {folder / LIBRARY} cannot be loaded here: ERROR: ld.so: object" in done.stderr


def test_an_image_without_the_loader_keeps_the_program_from_starting(served: Rig, folder: Path) -> None:
    """A program whose loader is not there is not found, whatever its own file: that is how it is in such an image."""
    program = (folder / PROBE).read_bytes()
    loader = b"/lib64/ld-linux-x86-64.so.2"
    assert loader in program or b"/lib/ld-linux" in program
    (folder / PROBE).write_bytes(program.replace(b"/ld-linux", b"/no-linux"))
    done = start(served, folder, "echo", "started")
    assert (done.returncode, done.stdout) == (CANNOT, "")
    assert "No such file or directory (this image has no glibc)" in done.stderr


def test_where_no_daemon_answers_no_program_starts(served: Rig, folder: Path) -> None:
    served.kill_daemon()
    done = start(served, folder, "echo", "started")
    assert (done.returncode, done.stdout) == (UNSERVED, "")
    assert "the daemon of this node does not answer" in done.stderr


def test_where_there_is_no_share_no_program_starts(served: Rig, folder: Path) -> None:
    shutil.rmtree(served.shares / "a" / "container")
    done = start(served, folder, "echo", "started")
    assert (done.returncode, done.stdout) == (UNSERVED, "")
    assert "page: No such file or directory" in done.stderr


def test_it_waits_for_a_share_that_is_served_a_little_later(rig: Rig, folder: Path) -> None:
    rig.share("b", guarantee=300)
    rig.serve()
    environment = {**rig.environment("a"), "WEFT_GPU_ENFORCER_PATIENCE": "60"}
    with subprocess.Popen([folder / START], env=environment, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.poll() is None
        rig.share("a", guarantee=300)
        assert waiting.wait(60) == 0
    done = start(rig, folder, WEFT_GPU_ENFORCER=str(rig.shares / "c"), WEFT_GPU_ENFORCER_PATIENCE="1")
    assert done.returncode == UNSERVED


def test_a_program_that_is_not_there_is_named(served: Rig, folder: Path) -> None:
    done = start(served, folder, "no-such-program")
    assert done.returncode == CANNOT
    assert "no-such-program: No such file or directory" in done.stderr
