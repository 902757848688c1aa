"""What `up` and `reset` refuse, each in one sentence with the fix."""

import socket
import subprocess
import sys
from pathlib import Path

from tests.flows.processes import up
from tests.servers import ROOT, environment, free_port


def run(home: Path, *arguments: str) -> tuple[int, str]:
    """Run a `manage.py` command to its end: its exit code and what it said."""
    command = [sys.executable, str(ROOT / "manage.py"), *arguments]
    done = subprocess.run(command, env=environment(home), capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def test_up_refuses_what_cannot_work_with_one_sentence_and_the_fix(tmp_path: Path) -> None:
    home, port = tmp_path / "home", free_port()
    a_file = tmp_path / "a-file"
    a_file.write_text("")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused = {
            "choose another one": run(home, "up", "--port", str(taken.getsockname()[1])),
            "Mend its permissions": run(a_file / "below", "up", "--port", str(port)),
            "There is no file": run(home, "up", "--port", str(port), "--trace", str(tmp_path / "absent.csv")),
            "Use a number above 0": run(home, "up", "--port", str(port), "--speed", "-1"),
            "LOAD is": run(home, "up", "--port", str(port), "--load", "0"),
        }

    for fix, (code, said) in refused.items():
        last = said.strip().splitlines()[-1]
        assert code == 2, said
        assert fix in last, said
        assert "Traceback" not in said


def test_a_running_weft_is_not_started_twice_reset_or_given_another_world(home: Path) -> None:
    with up(home):
        code, said = run(home, "up", "--port", str(free_port()))
        assert (code, "already runs" in said) == (2, True)
        code, said = run(home, "reset")
        assert (code, "already runs" in said) == (2, True)
    code, said = run(home, "up", "--port", str(free_port()), "--seed", "5")
    assert (code, "make reset" in said) == (2, True)


def test_reset_deletes_the_world_and_nothing_else(home: Path) -> None:
    with up(home) as weft:  # which has had a week before its first minute
        ended = weft.http.get("/api/v1/workloads", params={"phase": "Succeeded", "ordering": "seq", "page_size": 1})
        assert ended.json()["results"][0]["ended_at"].startswith("2026-01-01")
    (home / "figures").mkdir()
    key = (home / "secret_key").read_text()

    code, said = run(home, "reset")

    assert (code, "starts afresh" in said) == (0, True)
    left = {path.name for path in home.iterdir()}
    assert {"figures", "secret_key"} <= left
    assert not [name for name in left if "sqlite3" in name or name == "password"]
    assert (home / "secret_key").read_text() == key
    assert run(home, "reset")[1].startswith("There was nothing to delete")
