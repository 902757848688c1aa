"""The activator as a process, before model servers that are processes: it is ended, and killed, under load."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from autoscaler.observed import Signal
from controlplane.cluster.gateways import Activators
from tests import servers

SECONDS = 0.05  # a request takes


@dataclass
class Running:
    """An activator with a service, its replicas, and where they are."""

    process: "subprocess.Popen[bytes]"
    services: Path
    port: int
    admin: int
    replicas: list[int]

    def child(self) -> int:
        """The process that serves."""
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(found[0]) if found else 0

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}{path}", timeout=5) as answer:
            return bytes(answer.read())

    def is_ready(self) -> bool:
        return servers.answers(f"http://127.0.0.1:{self.admin}/readyz", 5)


@contextlib.contextmanager
def activator(folder: Path, *more: str) -> Iterator[Running]:
    ports = [servers.free_port() for _ in range(4)]
    with contextlib.ExitStack() as stack:
        for port in ports[2:]:
            command = [sys.executable, "-m", "tests.activator.models", str(port)]
            stack.callback(servers.end, subprocess.Popen(command, cwd=servers.ROOT))
        services = folder / "services.yaml"
        row = {"workload": "u-1", "port": ports[0], "slots": 8, "replicas": [f"127.0.0.1:{one}" for one in ports[2:]]}
        services.write_text(json.dumps({"services": [row]}))
        command = [
            sys.executable, "manage.py", "activator", "--services", str(services), "--ports", str(ports[0]),
            "--admin-port", str(ports[1]), *more,
        ]  # fmt: skip
        process = subprocess.Popen(command, cwd=servers.ROOT)
        stack.callback(servers.end, process)
        found = Running(process, services, ports[0], ports[1], ports[2:])
        servers.wait_until(found.is_ready, "the activator", 60)
        for port in found.replicas:
            servers.wait_until(lambda port=port: servers.answers(f"http://127.0.0.1:{port}/0"), "a replica", 30)
        yield found


@dataclass
class Load:
    """Requests one after the other in several threads: when each began, when it ended, and whether it was answered."""

    port: int
    rows: list[tuple[float, float, bool]] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> "Load":
        self.threads = [threading.Thread(target=self._run) for _ in range(8)]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join(30)

    def _run(self) -> None:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        while not self.stop.is_set():
            began = time.monotonic()
            try:
                connection.request("POST", f"/{SECONDS}")
                answer = connection.getresponse()
                is_good = answer.status == 200 and bool(answer.read())
            except (OSError, HTTPException):
                is_good = False
                connection.close()
            self.rows.append((began, time.monotonic(), is_good))

    def served(self, count: int) -> None:
        before = sum(good for _, __, good in self.rows)
        servers.wait_until(lambda: sum(good for _, __, good in self.rows) >= before + count, "answers", 30)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with activator(tmp_path) as found:
        yield found


def test_a_killed_serving_process_costs_only_what_was_in_flight(running: Running) -> None:
    with Load(running.port) as load:
        load.served(50)
        before = running.child()
        killed = time.monotonic()
        os.kill(before, signal.SIGKILL)
        servers.wait_until(lambda: running.child() not in (0, before), "another process", 10)
        load.served(100)
    failed = [(began, ended) for began, ended, good in load.rows if not good]
    assert 0 < len(failed) <= 8  # a request a thread
    assert all(began <= killed for began, _ in failed), "a request that came after the kill failed"


def test_an_orderly_end_costs_nothing(running: Running) -> None:
    with Load(running.port) as load:
        load.served(50)
        running.process.terminate()
        servers.wait_until(lambda: not running.is_ready(), "not ready", 10)
        load.served(20)  # until it has settled it still serves, and sends its clients away
        load.stop.set()
        for thread in load.threads:
            thread.join(30)
    assert all(good for _, __, good in load.rows)
    assert running.process.wait(60) == 0


def test_metrics_and_signal_say_what_was_served(running: Running) -> None:
    with Load(running.port) as load:
        load.served(40)
        signal_: dict[str, Any] = json.loads(running.get("/signal"))["workloads"]["u-1"]
        assert signal_["ready"] == 2 and signal_["running"] <= 16 and signal_["rate"] > 1
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(running.get("/metrics").decode())
        for sample in family.samples
    }
    of = (("workload", "u-1"),)
    count = len(load.rows)
    assert samples["weft_gateway_arrivals_total", of] == count
    assert samples["weft_gateway_requests_total", (("code", "200"), *of)] == count
    for name in ("waiting", "running", "widest"):
        assert samples[f"weft_gateway_{name}", of] == 0
    assert samples["weft_gateway_busy_seconds_total", of] == pytest.approx(
        samples["weft_gateway_service_seconds_sum", of], rel=0.01
    )
    for name in ("service", "request"):
        assert samples[f"weft_gateway_{name}_seconds_count", of] == count
        assert samples[f"weft_gateway_{name}_seconds_sum", of] >= count * SECONDS
        bounds = {
            float(dict(labels)["le"]): value
            for (full, labels), value in samples.items()
            if full == f"weft_gateway_{name}_seconds_bucket"
        }
        assert len(bounds) == 85 and bounds[0.001] == 0 and bounds[float("inf")] == count
        finite = sorted(bounds)[:-1]
        assert finite[-1] > 3600 and all(
            1.19 < after / before < 1.21 for before, after in zip(finite, finite[1:], strict=False)
        )


def test_the_loop_that_scales_hears_what_waits_and_goes_without_one_that_is_gone(running: Running) -> None:
    given = json.loads(running.services.read_text())
    given["services"][0] |= {"slots": 1, "replicas": given["services"][0]["replicas"][:1]}
    running.services.write_text(json.dumps(given))
    gateways = Activators((f"127.0.0.1:{running.admin}", f"127.0.0.1:{servers.free_port()}"))
    with Load(running.port):
        servers.wait_until(lambda: gateways.signals().get("u-1", Signal(0, 0.0)).waiting > 3, "requests that wait", 20)
        assert gateways.signals()["u-1"].rate > 1
    assert gateways.trouble
    running.process.kill()
    running.process.wait(10)
    servers.wait_until(lambda: not gateways.signals(), "nothing to be heard", 10)


def test_services_of_the_file_change_while_it_runs(running: Running) -> None:
    given = json.loads(running.services.read_text())
    given["services"][0]["replicas"] = given["services"][0]["replicas"][:1]
    running.services.write_text(json.dumps(given))
    servers.wait_until(lambda: json.loads(running.get("/signal"))["workloads"]["u-1"]["ready"] == 1, "one replica", 10)
    running.services.write_text("services: [{workload: u-1}]")  # bad: the last is kept
    with Load(running.port) as load:
        load.served(20)
    assert all(good for _, __, good in load.rows)


@pytest.mark.parametrize(
    ("options", "fix"),
    [
        (["--services", "/nowhere"], "Write the services there"),
        (["--ports", "20000-19999"], "the first one first"),
        (["--ports", "many"], "Write FIRST-LAST"),
        (["--trusted", "all"], "Write 10.0.0.0/8"),
    ],
)
def test_a_bad_option_ends_the_start_with_a_sentence(options: list[str], fix: str, tmp_path: Path) -> None:
    services = tmp_path / "services.yaml"
    services.write_text("services: []")
    command = [sys.executable, "manage.py", "activator", "--services", str(services), *options]
    done = subprocess.run(command, cwd=servers.ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1 and fix in done.stderr and "Traceback" not in done.stderr
