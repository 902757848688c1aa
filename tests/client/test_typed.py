"""The SDK is typed: mypy finds what is wrong in a user's program, and nothing in what is right."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = """\
from typing import assert_type

from weft import Client, Event, Workload

def last(client: Client, name: str) -> Workload:
    job = client.get(name, team="nlp")
    for event in client.watch(job.uid):
        seen: Event = event
        assert_type(seen.message, str)
    hours: float = client.cost(job.uid).allocated_gpu_hours
    print(hours, client.eta(job.uid).basis, client.diff({"type": "training"}).uid)
    return client.scale(job.uid, count=2)
"""
WRONG = """\
from weft import Client

def wrong(client: Client) -> int:
    client.scale("uid", count="two")
    return client.get("hello").phase
"""


def checked(folder: Path, text: str) -> str:
    (folder / "sample.py").write_text(text)
    env = {**os.environ, "MYPYPATH": str(ROOT)}
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "sample.py"]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=280, check=False)
    return done.stdout + done.stderr


@pytest.mark.slow
def test_a_program_with_the_sdk_is_checked_by_mypy(tmp_path: Path) -> None:
    said = checked(tmp_path, SAMPLE)
    assert "Success: no issues found" in said, said
    said = checked(tmp_path, WRONG)
    assert 'Argument "count" to "scale" of "Client"' in said, said
    assert 'expected "int"' in said, said


@pytest.mark.parametrize("package", ["weft", "controlplane"])
def test_a_package_says_that_it_is_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").exists()  # and pyproject.toml puts such files into the wheel
