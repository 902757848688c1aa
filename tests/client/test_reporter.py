"""`weft.report`: counts steps, serves or appends them, and never harms the training."""

import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from tests.documents.reading import blocks
from tests.servers import ROOT
from weft import reporter

Series = dict[tuple[str, str], float]


def series(text: str) -> Series:
    """Each sample by its name and local rank, read by Prometheus' own parser."""
    return {
        (sample.name, sample.labels["local_rank"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def alone(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A training of its own."""
    told = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    return subprocess.run(
        [sys.executable, "-c", code], env=told, capture_output=True, text=True, check=False, timeout=60
    )


READ = """
def read(process=""):
    import urllib.request
    port = weft.reporter._counts.server.server_address[1]
    return urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
"""


def test_the_reporter_loads_neither_the_client_nor_a_package_of_others() -> None:
    code = "from weft import report; report(step_time=1.0); import sys; print(*sys.modules)"
    modules = set(alone(code).stdout.split())
    ours = {name for name in modules if name.split(".")[0] in ("weft", "controlplane", "scheduler", "autoscaler")}
    assert ours == {"weft", "weft.reporter"}
    assert not {name.split(".")[0] for name in modules} & {"httpx", "yaml", "rich", "typer", "numpy"}


def test_the_reporter_is_one_file_that_runs_without_the_rest(tmp_path: Path) -> None:
    (tmp_path / "reporter.py").write_text((ROOT / "weft" / "reporter.py").read_text())
    done = alone("import reporter; reporter.report(step_time=1.0); print(reporter.text())", PYTHONPATH=str(tmp_path))
    assert series(done.stdout)["weft_training_steps_total", "0"] == 1


def test_steps_are_summed_and_what_was_not_given_is_absent() -> None:
    code = """
import weft
weft.report(step_time=0.5, data_wait=0.1)
weft.report(step_time=0.25, data_wait=0.0, gradient_noise=900)
print(weft.reporter.text())"""
    assert series(alone(code, LOCAL_RANK="3").stdout) == {
        ("weft_training_steps_total", "3"): 2,
        ("weft_training_refused_reports_total", "3"): 0,
        ("weft_training_step_seconds_total", "3"): 0.75,
        ("weft_training_data_wait_seconds_total", "3"): 0.1,
        ("weft_training_gradient_noise_samples", "3"): 900,
    }


def test_counts_are_served_at_loopback_and_nothing_else_is() -> None:
    code = f"""{READ}
import urllib.error, weft
weft.report(step_time=0.5)
print(read())
server = weft.reporter._counts.server
assert server.server_address[0] == "127.0.0.1", server.server_address
try:
    urllib.request.urlopen(f"http://127.0.0.1:{{server.server_address[1]}}/etc/passwd")
except urllib.error.HTTPError as error:
    assert error.code == 404
else:
    raise AssertionError("it was answered")
"""
    done = alone("import urllib.request\n" + code, WEFT_REPORT_PORT="0")
    assert done.returncode == 0, done.stderr
    assert series(done.stdout)["weft_training_step_seconds_total", "0"] == 0.5


WRONG: Mapping[str, str] = {
    "no step": "weft.report(data_wait=1.0)",
    "not a number": "weft.report(step_time='soon')",
    "negative": "weft.report(step_time=-1.0)",
    "nan": "weft.report(step_time=float('nan'))",
    "endless": "weft.report(step_time=float('inf'))",
    "beyond a float": "weft.report(step_time=10 ** 400)",
    "a wait that is no time": "weft.report(step_time=1.0, data_wait=-0.1)",
    "an object that fails": "weft.report(step_time=type('T', (), {'__float__': lambda self: 1 / 0})())",
}


@pytest.mark.parametrize("what", WRONG)
def test_a_report_that_is_wrong_is_left_out_and_the_training_goes_on(what: str) -> None:
    done = alone(f"import weft\n{WRONG[what]}\n{WRONG[what]}\nprint(weft.reporter.text())")
    assert done.returncode == 0
    assert series(done.stdout)["weft_training_steps_total", "0"] == 0
    assert done.stderr.count("a report was left out") == 1  # said once


def test_an_argument_that_is_unknown_is_named_and_the_step_counts() -> None:
    done = alone("import weft\nweft.report(step_time=1.0, sync=0.2)\nprint(weft.reporter.text())")
    assert series(done.stdout)["weft_training_steps_total", "0"] == 1
    assert "report() knows no sync; it takes step_time, data_wait" in done.stderr


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"WEFT_REPORT_PORT": "99999"}, "a report was left out"),
        ({"WEFT_REPORT_PORT": "web"}, "WEFT_REPORT_PORT is 'web', and has to be a number"),
        ({"WEFT_REPORT_FILE": "/nowhere/at/all"}, "No such file"),
        ({"WEFT_REPORT_PORT": "0", "WEFT_REPORT_ADDRESS": "203.0.113.9"}, "assign requested address"),
    ],
)
def test_where_the_counts_cannot_go_is_said_once_and_the_training_goes_on(env: dict[str, str], said: str) -> None:
    done = alone("import weft\nfor _ in range(3): weft.report(step_time=1.0)\nprint(weft.reporter.text())", **env)
    assert done.returncode == 0
    assert series(done.stdout)["weft_training_steps_total", "0"] == 3
    assert said in done.stderr


def test_threads_lose_no_step() -> None:
    before = series(reporter.text()).get(("weft_training_steps_total", "0"), 0)

    def work() -> None:
        for _ in range(2000):
            reporter.report(step_time=0.5)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert series(reporter.text())["weft_training_steps_total", "0"] == before + 16_000


def test_a_forked_process_begins_anew_and_lets_go_of_the_port() -> None:
    code = f"""{READ}
import os, socket, sys, weft
weft.report(step_time=1.0)
port = weft.reporter._counts.server.server_address[1]
child = os.fork()
if child == 0:
    weft.reporter._counts.lock.acquire(timeout=1) or os._exit(3)
    weft.reporter._counts.lock.release()
    os.environ["WEFT_REPORT_PORT"] = ""
    weft.report(step_time=1.0)
    held = [one for one in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{{one}}")
            and os.readlink(f"/proc/self/fd/{{one}}").startswith("socket")]
    os._exit(0 if "steps_total{{local_rank=\\"0\\"}} 1" in weft.reporter.text() and not held else 4)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
weft.report(step_time=1.0)
print(read())"""
    done = alone("import urllib.request\n" + code, WEFT_REPORT_PORT="0")
    assert done.returncode == 0, done.stderr
    assert series(done.stdout)["weft_training_steps_total", "0"] == 2


def test_lines_of_several_processes_stay_whole_and_the_newest_counts(tmp_path: Path) -> None:
    file = tmp_path / "steps"
    code = """
import weft
for _ in range(50):
    weft.report(step_time=0.5)
    weft.reporter._append(weft.reporter._counts)"""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "WEFT_REPORT_FILE": str(file)}
    ranks = [subprocess.Popen([sys.executable, "-c", code], env={**env, "LOCAL_RANK": str(n)}) for n in range(3)]
    assert [one.wait(60) for one in ranks] == [0, 0, 0]
    assert {json.loads(line)["local_rank"] for line in file.read_text().splitlines()} == {0, 1, 2}
    found = series(reporter.render(reporter.read(str(file))))
    assert [found["weft_training_steps_total", str(n)] for n in range(3)] == [50, 50, 50]


def test_a_file_of_reports_does_not_grow_for_ever(tmp_path: Path) -> None:
    file = tmp_path / "steps"
    file.write_bytes(b"x" * reporter.MAX_FILE_BYTES)
    code = "import weft\nweft.report(step_time=0.5)"
    assert alone(code, WEFT_REPORT_FILE=str(file)).returncode == 0
    assert file.stat().st_size < 200
    assert reporter.read(str(file))[0]["steps"] == 1


@given(st.text(max_size=200))
def test_a_line_that_is_none_of_ours_is_left_out(tmp_path_factory: pytest.TempPathFactory, line: str) -> None:
    file = tmp_path_factory.mktemp("reports") / "steps"
    file.write_text(line + '\n{"local_rank":1,"steps":7,"refused":0,"evil\\n":1,"step_time":"x"}\n', errors="replace")
    assert reporter.read(str(file))[-1] == {"local_rank": 1, "steps": 7, "refused": 0}


@pytest.fixture
def sidecar(tmp_path: Path) -> Iterator[str]:
    """The exporter of a file, and where it is."""
    command = [sys.executable, str(ROOT / "weft" / "reporter.py"), str(tmp_path / "steps"), "0", "127.0.0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield process.stdout.readline().split()[-1]
        process.terminate()


def test_the_sidecar_exports_what_the_training_appends(sidecar: str, tmp_path: Path) -> None:
    assert urllib.request.urlopen(sidecar).read().strip() == b""  # before the training begins
    alone("import weft\nweft.report(step_time=0.5, sync_time=0.25)", WEFT_REPORT_FILE=str(tmp_path / "steps"))
    found = series(urllib.request.urlopen(sidecar).read().decode())
    assert found["weft_training_sync_seconds_total", "0"] == 0.25


def test_the_sidecar_says_how_it_is_called() -> None:
    command = [sys.executable, str(ROOT / "weft" / "reporter.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "usage: python -m weft.reporter FILE [PORT [ADDRESS]]\n")


TORCH = """
class Loss:
    def backward(self): pass
    def item(self): return 0.1
class Optimizer:
    def zero_grad(self): pass
    def step(self): pass
train([[1, 2], [3, 4]], lambda batch: batch, lambda out: Loss(), Optimizer())
"""


@pytest.mark.parametrize(("number", "steps"), [(0, 1), (1, 3), (2, 2), (3, 1)])
def test_what_the_document_shows_runs(number: int, steps: int) -> None:
    shown = blocks((ROOT / "docs" / "reporter.md").read_text(), "python")
    code = shown[number] + (TORCH if number == 2 else "") + "\nfrom weft import reporter\nprint(reporter.text())"
    found = series(alone(code).stdout)
    assert found["weft_training_steps_total", "0"] == steps
    assert len(shown) == 4


def test_the_series_are_those_that_weft_reads() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text() + (ROOT / "docs" / "reporter.md").read_text()
    names = [metric for metric, _ in (reporter.STEPS, reporter.REFUSED, reporter.NOISE, *reporter.SUMS.values())]
    assert [name for name in names if f"`{name}`" not in page] == []
