"""Two activators before real replicas, killed under load one after the other: traffic goes on, in the end direct.

The test plays kube-proxy: each request opens a connection to whatever the routes say then. The routes come from the
switch's own rule and from what the activators' processes answer it.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from controlplane.activator.routing import Routes, decide
from controlplane.activator.switch import PERIOD_SECONDS, ask_all
from tests import servers

ADDRESSES = ("127.0.0.1", "127.0.0.2")
THREADS = 6


@dataclass
class Proxy:
    """Where a new connection goes, looked up by a thread as often as the switch does."""

    admin: int
    port: int
    replica: int
    routes: Routes = field(default_factory=Routes)
    stop: threading.Event = field(default_factory=threading.Event)
    left: dict[str, float] = field(default_factory=dict)  # when nothing went to an address any more, the last time

    def target(self) -> tuple[str, int]:
        address = self.routes.through.get("u-1")
        return (address, self.port) if address else ("127.0.0.1", self.replica)

    def run(self) -> None:
        while not self.stop.wait(PERIOD_SECONDS):
            said = asyncio.run(ask_all(ADDRESSES, self.admin))
            before, self.routes = self.routes, decide(self.routes, time.monotonic(), said, {"u-1": 1})
            if before.through and before.through != self.routes.through:
                self.left[before.through["u-1"]] = time.monotonic()


@dataclass
class Asked:
    """A request: when it began and ended, where it went, and whether it was answered."""

    began: float
    ended: float
    host: str
    port: int
    is_good: bool


@contextlib.contextmanager
def activator(folder: Path, address: str, proxy: Proxy) -> Iterator["subprocess.Popen[bytes]"]:
    services = folder / "services.yaml"
    row = {"workload": "u-1", "port": proxy.port, "slots": 8, "replicas": [f"127.0.0.1:{proxy.replica}"]}
    services.write_text(json.dumps({"services": [row]}))
    process = subprocess.Popen(
        [
            sys.executable, "manage.py", "activator", f"--services={services}", f"--host={address}",
            f"--ports={proxy.port}", f"--admin-host={address}", f"--admin-port={proxy.admin}",
        ],
        cwd=servers.ROOT,
    )  # fmt: skip
    try:
        servers.wait_until(lambda: servers.answers(f"http://{address}:{proxy.admin}/readyz"), address, 60)
        yield process
    finally:
        servers.end(process)


def kill(process: "subprocess.Popen[bytes]") -> float:
    """Keeper and child at once, as when a machine is lost."""
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    at = time.monotonic()
    for pid in (process.pid, *map(int, found)):
        os.kill(pid, signal.SIGKILL)
    process.wait(10)
    return at


def ask(proxy: Proxy, rows: list[Asked]) -> None:
    while not proxy.stop.is_set():
        began = time.monotonic()
        host, port = proxy.target()
        connection = HTTPConnection(host, port, timeout=20)
        try:
            connection.request("POST", "/0.03")
            is_good = connection.getresponse().status == 200
        except (OSError, HTTPException):
            is_good = False
        finally:
            connection.close()
        rows.append(Asked(began, time.monotonic(), host, port, is_good))


def test_killed_activators_cost_what_was_in_flight_until_it_is_seen_and_then_all_goes_direct(tmp_path: Path) -> None:
    proxy, rows = Proxy(servers.free_port(), servers.free_port(), servers.free_port()), list[Asked]()

    def served(count: int, where: Callable[[Asked], bool]) -> None:
        before = sum(one.is_good and where(one) for one in rows)
        servers.wait_until(lambda: sum(one.is_good and where(one) for one in rows) >= before + count, "answers", 30)

    with contextlib.ExitStack() as stack:
        model = subprocess.Popen([sys.executable, "-m", "tests.activator.models", str(proxy.replica)], cwd=servers.ROOT)
        stack.callback(servers.end, model)
        running = {one: stack.enter_context(activator(tmp_path, one, proxy)) for one in ADDRESSES}
        threads = [threading.Thread(target=proxy.run)]
        threads += [threading.Thread(target=ask, args=(proxy, rows)) for _ in range(THREADS)]
        threads[0].start()
        servers.wait_until(lambda: proxy.routes.through, "a route", 10)
        for thread in threads[1:]:
            thread.start()
        try:
            served(50, lambda one: one.port == proxy.port)
            # On a busy machine one may be given up that only answers late: the first is the one that has it now.
            servers.wait_until(lambda: proxy.routes.through, "a route", 10)
            first = proxy.routes.through["u-1"]
            (second,) = set(ADDRESSES) - {first}
            deaths = {first: kill(running[first])}
            served(50, lambda one: (one.host, one.port) == (second, proxy.port))
            deaths[second] = kill(running[second])
            served(50, lambda one: one.port == proxy.replica)
        finally:
            proxy.stop.set()
            for thread in threads:
                thread.join(30)
    failed = [one for one in rows if not one.is_good]
    assert failed, "nothing was in flight"
    assert all(one.is_good for one in rows if one.port == proxy.replica)  # direct, nothing fails
    # A request to an activator fails only if it ended after the death, and began before that was seen.
    assert all(deaths[one.host] <= one.ended and one.began <= proxy.left[one.host] for one in failed)
