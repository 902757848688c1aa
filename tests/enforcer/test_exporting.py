"""What the daemon tells Prometheus of real programs: whose it is, and never more of a GPU than its time."""

import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families as families

from controlplane.enforcer import shares
from controlplane.enforcer.exporting import AT_ONCE, NAME, ON_GPU, Busy, OnGpu, page
from controlplane.testbed.fakecuda.rig import Rig
from gpushare.gpu import Share
from tests.enforcer.test_cells import node
from tests.enforcer.test_time import BACKLOGGED, SECOND, busy, used

__all__ = ("node",)
A, B = "11111111-aaaa-4aaa-8aaa-111111111111-1-0", "22222222-bbbb-4bbb-8bbb-222222222222-3-0"


@dataclass(frozen=True)
class Told:
    """Seconds by (share, pod, GPU), asked for between two moments (s)."""

    before: float
    of: dict[tuple[str, str, str], float]
    after: float


def parsed(text: str) -> dict[tuple[str, str, str], float]:
    (family,) = families(text)
    assert (family.type, f"{family.name}_total") == ("counter", NAME)
    return {(s.labels["share"], s.labels["pod"], s.labels["gpu"]): s.value for s in family.samples}


def told(rig: Rig) -> Told:
    before = time.monotonic()
    answer = httpx.get(rig.metrics_url(), trust_env=False)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return Told(before, parsed(answer.text), time.monotonic())


def serve_two(rig: Rig) -> None:
    rig.share("a", guarantee=300, pod=A)
    rig.share("b", guarantee=700, pod=B)
    rig.serve()


def test_two_backlogged_shares_are_told_what_each_had_and_together_at_most_the_gpu(rig: Rig) -> None:
    serve_two(rig)
    assert told(rig).of == {("a", A, "0"): 0.0, ("b", B, "0"): 0.0}, "what has had nothing is measured too"
    programs = [busy(rig, "a"), busy(rig, "b")]
    first, sample = told(rig), rig.sample()
    rig.until(lambda: rig.sample().at >= sample.at + 2 * SECOND, "the GPU")
    later, last = rig.sample(), told(rig)
    had = {key: last.of[key] - first.of[key] for key in last.of}
    assert sum(had.values()) <= last.after - first.before
    whole = sum(had.values())
    assert 0.22 < had["a", A, "0"] / whole < 0.38
    for program, key in zip(programs, (("a", A, "0"), ("b", B, "0")), strict=True):
        ran = (later.of[program].used - sample.of[program].used) / (later.at - sample.at)
        assert had[key] / (last.after - first.before) == pytest.approx(ran, abs=0.12)


def test_a_share_with_pauses_is_told_about_what_its_kernels_took(rig: Rig) -> None:
    """20 ms of work and 80 ms of rest, of which the first 20 ms count too, as no other share wants the GPU."""
    rig.share("a", guarantee=300, pod=A)
    rig.serve()
    program = rig.start("a", "work", 1000, 20, 80_000, 60)
    rig.until(lambda: used(rig, program.pid) > 0, "the program")
    first = told(rig)
    rig.until(lambda: time.monotonic() > first.after + 2, "two seconds")
    last = told(rig)
    part = (last.of["a", A, "0"] - first.of["a", A, "0"]) / (last.after - first.before)
    assert 0.1 < part < 0.65


def test_a_killed_holder_has_nothing_from_then_on_and_a_share_that_is_gone_is_told_no_more(rig: Rig) -> None:
    serve_two(rig)
    killed = rig.start("a", "work", 1000, BACKLOGGED, -1, 60)
    rig.until(lambda: told(rig).of["a", A, "0"] > 0.2, "its time")
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    busy(rig, "b")
    first = told(rig)
    rig.until(lambda: told(rig).of["b", B, "0"] > 0.5, "the other one")
    assert told(rig).of["a", A, "0"] == first.of["a", A, "0"]
    shutil.rmtree(rig.shares / "a")
    rig.until(lambda: told(rig).of.keys() == {("b", B, "0")}, "the end of its series")
    rig.share("a", guarantee=300, pod=A)
    rig.until(lambda: told(rig).of.get(("a", A, "0")) == 0, "one that came again, and has had nothing")


def test_a_daemon_that_is_started_again_counts_from_0_as_counters_do(rig: Rig) -> None:
    serve_two(rig)
    busy(rig, "a")
    rig.until(lambda: told(rig).of["a", A, "0"] > 1, "a second")
    rig.kill_daemon()
    before = time.monotonic()
    rig.serve()
    rig.until(lambda: told(rig).of["a", A, "0"] > 0, "its return")
    again = told(rig)
    assert again.of["a", A, "0"] <= again.after - before


def test_each_gpu_is_counted_for_itself(rig: Rig) -> None:
    rig.share("a", guarantee=500, gpu="GPU-a", pod=A)
    rig.share("b", guarantee=500, gpu="GPU-b", pod=B)
    rig.serve()
    busy(rig, "a")
    busy(rig, "b")
    first = told(rig)
    rig.until(lambda: time.monotonic() > first.after + 1, "a second")
    last = told(rig)
    for key in (("a", A, "GPU-a"), ("b", B, "GPU-b")):
        had = last.of[key] - first.of[key]
        assert had / (last.before - first.after) > 0.7, "both have a token at the same time"
        assert had <= last.after - first.before


def test_a_notebook_that_moves_is_told_of_the_gpu_that_it_computes_on(node: Rig) -> None:
    busy(node, "a")
    busy(node, "b")
    node.until(lambda: told(node).of.get(("b", "", "GPU-b"), 0) > 0.1, "its time on the other GPU")
    assert told(node).of.keys() == {("a", "", "GPU-a"), ("b", "", "GPU-b")}


def test_the_pod_is_what_the_nodes_side_says_whatever_a_container_writes(rig: Rig) -> None:
    serve_two(rig)
    (rig.shares / "a" / "container" / "share.json").write_text(json.dumps({"pod": B}))
    rig.share("c", guarantee=300, pod=f'{A}",pod="{B}')
    rig.serves("c")
    rig.start("a", "work", 1000, 5, 0, 1, WEFT_POD=B)
    rig.until(lambda: told(rig).of["a", A, "0"] > 0, "its time")
    assert told(rig).of["b", B, "0"] == 0
    assert {key[:2] for key in told(rig).of} == {("a", A), ("b", B), ("c", f'{A}",pod="{B}')}
    rig.share("c", guarantee=300, pod="another-1-0")
    rig.until(lambda: ("c", "another-1-0", "0") in told(rig).of, "what its file says now")


def test_only_metrics_are_served_and_one_that_asks_for_nothing_costs_nothing(rig: Rig) -> None:
    serve_two(rig)
    url = rig.metrics_url()
    assert urlsplit(url).hostname == "127.0.0.1"
    assert httpx.get(url.replace("/metrics", "/"), trust_env=False).status_code == 404
    assert httpx.post(url, trust_env=False).status_code == 405
    assert httpx.head(url, trust_env=False).content == b""
    where = ("127.0.0.1", urlsplit(url).port or 0)
    with socket.create_connection(where) as long:
        long.sendall(b"GET /" + b"x" * 100_000)
        assert long.recv(100) == b""
    idle = [socket.create_connection(where) for _ in range(AT_ONCE)]
    with socket.create_connection(where) as more:
        assert more.recv(100) == b"", "there are enough"
        with pytest.raises(BlockingIOError):
            idle[0].recv(1, socket.MSG_DONTWAIT)
    for one in idle:
        one.close()
    rig.until(lambda: httpx.get(url, trust_env=False).status_code == 200, "room for another")
    assert "Traceback" not in (rig.folder / "daemon.log").read_text()


def test_a_port_that_is_taken_is_said_and_nothing_is_served(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "controlplane.enforcer", "--folder", str(tmp_path), "--metrics-port", port]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"Nothing can be told at 127.0.0.1:{port}: ")


def test_a_share_that_is_written_with_its_pod_is_read_with_it(tmp_path: Path) -> None:
    placed = shares.Placed("GPU-1", Share(300, 1000, 1000), pod=A)
    shares.write(tmp_path, placed)
    assert shares.read(tmp_path) == placed


def test_what_is_told_is_prometheus_text_whatever_the_names_are() -> None:
    rows = [Busy('a"}\n\\n', "p{", "G,=", 1_500_001), Busy("b", "", "0", 0)]
    assert parsed(page(rows)) == {('a"}\n\\n', "p{", "G,="): 1.500001, ("b", "", "0"): 0.0}


def test_where_a_notebook_on_demand_is_is_a_series_of_its_own() -> None:
    counter, gauge = families(page([Busy("a", A, "GPU-x", 5)], [OnGpu("a", A, 1), OnGpu("b", "", -1)]))
    assert (counter.name + "_total", gauge.name) == (NAME, ON_GPU)
    assert {(one.labels["share"], one.labels["pod"]): one.value for one in gauge.samples} == {
        ("a", A): 1,
        ("b", ""): -1,
    }
