"""The file that a process touches while it makes progress, and the health check that reads it."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from controlplane.runtime import liveness
from tests import servers


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEFT_ALIVE", str(tmp_path))
    return tmp_path


def grow_old(seconds: float) -> None:
    at = time.time() - seconds
    os.utime(liveness.path("worker"), (at, at))


def test_a_process_that_never_made_progress_is_not_healthy(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert liveness.age_seconds("worker") is None
    assert liveness.main("worker", "60") == 1
    assert f"no progress yet ({folder / 'weft-worker.alive'})" in capsys.readouterr().out


def test_a_touch_is_healthy_for_as_long_as_the_check_allows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    liveness.touch("worker")
    grow_old(50)
    assert liveness.main("worker", "60") == 0
    grow_old(61)
    assert liveness.main("worker", "60") == 1
    assert "worker: progress 61 s ago, at most 60 s are allowed" in capsys.readouterr().out
    liveness.touch("worker")
    assert liveness.main("worker", "60") == 0


def test_each_part_has_its_own_file(folder: Path) -> None:
    liveness.touch("worker")
    assert liveness.main("beat", "60") == 1


def test_a_clock_that_was_set_back_makes_no_negative_age(folder: Path) -> None:
    liveness.touch("worker")
    grow_old(-100)
    assert liveness.age_seconds("worker") == 0.0


def test_without_a_folder_it_is_the_machines_for_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_ALIVE", raising=False)
    assert liveness.path("beat") == Path(tempfile.gettempdir()) / "weft-beat.alive"


def test_the_command_of_the_container_ends_with_the_answer(folder: Path) -> None:
    command = [sys.executable, "-m", "controlplane.runtime.liveness", "worker", "60"]
    assert subprocess.run(command, cwd=servers.ROOT, capture_output=True, check=False).returncode == 1
    liveness.touch("worker")
    assert subprocess.run(command, cwd=servers.ROOT, capture_output=True, check=False).returncode == 0
