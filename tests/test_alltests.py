"""What `make test` prints: how far the tests are, what fails at once, and at the end who lacked what."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from scripts.alltests import ROOT, Part, run
from tests.progress import show, tally
from tests.servers import wait_until

SUITE = """
import pytest

def test_good():
    pass

def test_bad():
    print("what it printed")
    assert 1 + 1 == 3

def test_lacking(record_property):
    record_property("missing", "Chromium")
    pytest.skip("Chromium is missing: get it")

@pytest.mark.skip(reason="for a reason")
def test_skipped():
    pass

@pytest.fixture
def ends_badly():
    yield
    raise RuntimeError("at its end")

def test_teardown(ends_badly):
    pass
"""
# The second process of a part that is stopped: it says that its fixture came to its end.
SLEEPER = """
import pathlib, time, pytest

@pytest.fixture
def server():
    pathlib.Path("{folder}/began").touch()
    yield
    pathlib.Path("{folder}/ended").touch()

def test_long(server):
    time.sleep(600)
"""
PLAIN = ("-p", "no:cacheprovider", "-p", "no:django", "-p", "no:schemathesis")  # a suite of its own needs none of them


def suite(folder: Path, name: str, text: str) -> Part:
    file = folder / f"test_{name}.py"
    file.write_text(text)
    return Part(f"the {name} ones", (str(file), *PLAIN))


@pytest.fixture
def printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[list[str]]:
    parts = [suite(tmp_path, "many", SUITE), suite(tmp_path, "broken", "import nothing_of_this_name")]
    status = run(parts, (), at_once=2)
    assert status == 1
    yield capfd.readouterr().out.splitlines()


def test_failures_are_told_with_their_traceback_and_the_end_counts_and_names_all(printed: list[str]) -> None:
    text = "\n".join(printed)
    told = text.index("::test_bad (the many ones)\n")
    assert told < text.index("assert (1 + 1) == 3") < text.index("the slowest:")
    assert "--- Captured stdout call ---\nwhat it printed" in text
    assert "No module named 'nothing_of_this_name'" in text
    assert "at its end" in text
    assert "skipped for want of Chromium: 1" in printed
    assert "skipped: 1: for a reason" in printed
    failed = [line.partition("::")[2] for line in printed if line.startswith("failed: ")]
    assert failed == ["test_bad (the many ones)", "test_teardown (the many ones)", ""]
    assert "  assert (1 + 1) == 3" in printed  # beside the name: CI keeps the end of the log only
    assert printed[-1] == "1 passed, 3 failed, 2 skipped"


def test_options_reach_each_part_and_one_without_tests_is_no_failure(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    parts = [suite(tmp_path, "many", SUITE), suite(tmp_path, "few", "def test_other(): pass")]
    assert run(parts, ("-k", "good"), at_once=1) == 0
    assert capfd.readouterr().out.splitlines()[-1] == "1 passed, 0 failed, 0 skipped"
    assert run(parts[:1], ("-k", "nothing"), at_once=1) == 1
    assert run(parts[:1], ("--no-such-option",), at_once=1) == 1
    assert "unrecognized arguments: --no-such-option" in capfd.readouterr().out


def test_a_part_that_is_alone_begins_when_all_others_have_ended(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    last = suite(tmp_path, "last", f"import pathlib\ndef test_last(): assert pathlib.Path({str(mark)!r}).exists()")
    first = suite(tmp_path, "first", f"import pathlib\ndef test_first(): pathlib.Path({str(mark)!r}).touch()")
    assert run([replace(last, is_alone=True), first], (), at_once=1) == 0


def test_ctrl_c_ends_the_parts_and_their_fixtures(tmp_path: Path) -> None:
    (tmp_path / "test_long.py").write_text(SLEEPER.format(folder=tmp_path))
    two = f"[Part(str(n), ({str(tmp_path / 'test_long.py')!r}, *{PLAIN!r})) for n in range(2)]"
    script = f"from scripts.alltests import Part, run; raise SystemExit(run({two}, (), at_once=1))"
    process = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    wait_until((tmp_path / "began").exists, "the test to run")

    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)

    assert process.returncode == 1
    assert (tmp_path / "ended").exists()
    assert said.splitlines()[-1].startswith("0 passed, ")
    assert not any(str(tmp_path) in command for command in _commands())


def _commands() -> Iterator[str]:
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            yield Path(f"/proc/{number}/cmdline").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile


@pytest.fixture
def parts() -> list[tally.Part]:
    one, other = tally.Part("the one"), tally.Part("the other")
    one.hear({"event": "collected", "tests": 1200}, 0.0)
    one.hear({"event": "began", "test": "tests/x.py::test_y"}, 100.0)
    other.hear({"event": "collected", "tests": 1}, 0.0)
    ended = {"event": "ended", "test": "tests/x.py::test_z", "outcome": "failed", "seconds": 2.0, "missing": ""}
    other.hear(ended, 110.0)
    return [one, other]


def test_a_line_says_how_many_of_how_many_are_done_and_what_runs(parts: list[tally.Part]) -> None:
    said = tally.line(parts, now=140.0, began=20.0)
    assert said == "2 min: 1 of 1,201 done, 1 failed, 0 skipped; now tests/x.py::test_y (40 s)"


def test_of_a_failure_the_summary_has_what_was_raised_last() -> None:
    part = tally.Part("the one")
    text = f"E   TimeoutError: not in 60 s\n\n{tally.CAUSED}\n\nE   AssertionError: Running after Placed\nE   more"
    part.hear({"event": "failed", "test": "tests/x.py::test_z", "text": text}, 1.0)
    part.hear({"event": "ended", "test": "tests/x.py::test_z", "outcome": "failed", "seconds": 2.0, "missing": ""}, 1.0)
    assert "  AssertionError: Running after Placed" in tally.summary([part])


def test_a_terminal_shows_a_bar_for_each_part(parts: list[tally.Part]) -> None:
    console = Console(width=120, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(show._bars(parts, 0.0))
    text = console.export_text()
    assert "0/1,200" in text
    assert "x.py::test_y" in text
    assert "1 failed" in text


def test_without_a_terminal_a_line_comes_from_time_to_time(
    parts: list[tally.Part], capfd: pytest.CaptureFixture[str]
) -> None:
    told = ""

    def is_told() -> bool:
        nonlocal told
        told += capfd.readouterr().out
        return "1 of 1,201 done" in told

    with show.shown(parts, 0.0, every=0.01):
        wait_until(is_told, "a line")


def test_processes_of_the_tests_do_not_compile_again_what_they_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "prefix"
    text = f"""
import importlib.util, os, pathlib, subprocess, sys

def test_bytecode():
    subprocess.run([sys.executable, "-c", "import scripts.alltests"], check=True)
    kept = pathlib.Path(importlib.util.cache_from_source({str(ROOT / "scripts/alltests.py")!r}))
    assert kept.exists()
    pathlib.Path({str(told)!r}).write_text(str(kept))
"""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert run([suite(tmp_path, "bytecode", text)], (), at_once=1) == 0
    assert not Path(told.read_text()).exists()
    assert not told.read_text().startswith(str(ROOT))
