"""What a service has while its measurements fail (F23): a real Prometheus, the loop that scales, and one fault at once.

A program tells of a load that stays as it is, and Prometheus scrapes it. Whatever fails in between, no replica is taken
away that the load needs, and none is added because nothing is known. That a fall would be seen, is seen at the end: the
load goes, and the service gets smaller within as many looks.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from controlplane.cluster.port import PodPhase
from controlplane.cluster.prometheus.connection import Limits
from controlplane.cluster.prometheus.metrics import PrometheusMetrics, Settings
from controlplane.loops import scale, schedule
from controlplane.models import Workload
from tests import servers
from tests.controlplane.state import World
from tests.metricspage import page
from tests.prometheus import Prometheus

pytestmark = pytest.mark.django_db

WINDOW = 1.2  # s: six scrapes
# Of a request; requests a second: 3.75 replicas, so that a scrape that a busy machine makes late does not show.
SECONDS, RATE = 0.1, 130.0
LEAST, MOST = 1, 9
LOOK = 50.0  # s between two looks, on the cluster's clock: a fall waits for four, a service after a gap for six
LOOKS = 10  # with a fault
AFTER = 8  # when it is gone
RESTART = 3  # looks from one restart of the program to the next
SETTLED = 6  # looks that agree


class Program:
    """The queue in front of a service: what it counts on its page, at a steady rate, and what is wrong with that."""

    def __init__(self) -> None:
        self.uid, self.rate, self.fault = "", RATE, ""
        self._begun, self._counted, self._changed = time.monotonic(), 0.0, time.monotonic()

    def page(self) -> str | None:
        """The page as it is now; None: the program does not answer."""
        if self.fault == "the program is gone":
            return None
        now = time.monotonic()
        self._counted += (now - self._changed) * self.rate
        self._changed = now
        if self.fault == "counters begin anew":
            self._counted, self.fault = 0.0, "counters began anew"
        count = int(self._counted)
        busy = round(self.rate * SECONDS)
        value = "NaN" if self.fault == "no numbers" else str(count)
        lines = [
            f'weft_gateway_arrivals_total{{workload="{self.uid}"}} {value}',
            *(
                f'weft_gateway_service_seconds_bucket{{workload="{self.uid}",le="{bound}"}} {value if full else 0}'
                for bound, full in (("0.05", False), ("0.128", True), ("+Inf", True))
            ),
            f'weft_gateway_service_seconds_sum{{workload="{self.uid}"}} {value if value == "NaN" else count * SECONDS}',
            f'weft_gateway_waiting{{workload="{self.uid}"}} {"NaN" if value == "NaN" else 0}',
            f'weft_gateway_running{{workload="{self.uid}"}} {"NaN" if value == "NaN" else busy}',
            f'weft_gateway_widest{{workload="{self.uid}"}} {"NaN" if value == "NaN" else min(4, busy)}',
        ]
        times = 2 if self.fault == "each told twice" else 1
        return "\n".join(lines * times) + "\n"


class Line:
    """A line to Prometheus that can be cut, or hold what it is given."""

    def __init__(self, port: int) -> None:
        self.state, self._target = "", port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def set(self, state: str) -> None:
        """Cut, hold or mend it; connections of before end."""
        self.state = state
        while self._open:
            self._end(self._open.pop())

    def close(self) -> None:
        self._end(self._listener)
        self.set("cut")

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.state == "cut":
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self._target))
            self._open += [client, server]
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while part := one.recv(65_536):
                if self.state != "held":
                    other.sendall(part)
        except OSError:
            pass

    @staticmethod
    def _end(one: socket.socket) -> None:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


class Rig:
    """A service that runs, its program, and a loop that scales it by what Prometheus says."""

    def __init__(self, prometheus: Prometheus, program: Program, line: Line) -> None:
        self.prometheus, self.program, self.line = prometheus, program, line
        limits = Limits(connect=0.5, silence=0.3, whole=0.5, rest=0.0)
        self.world = World(metrics=PrometheusMetrics(Settings(line.url, window_seconds=WINDOW, limits=limits)))
        self.world.metrics._now = self.world.cluster.now  # noqa: SLF001 - one clock for both
        self.service = self.world.submit(
            "chat", kind="inference", gpus=1, replicas={"min": LEAST, "max": MOST}, gateway={"slots": 4},
            objective={"p95_latency": "1s"},
        )  # fmt: skip
        program.uid = str(self.service.pk)

    def looks(self, count: int, before: Callable[[int], None] = lambda _: None) -> list[int]:
        """So many looks, with new scrapes between any two: the replicas wanted after each. before: is told which."""
        found = []
        for look in range(count):
            before(look)
            self._later()
            self.world.cluster.at += LOOK
            assert not scale.run_once(self.world.wiring).skipped
            schedule.run_once(self.world.wiring)
            self.world.actuate()
            self.world.cluster.set(self.service, PodPhase.RUNNING)
            self.world.observe()
            found.append(Workload.objects.get(pk=self.service.pk).workers)
        return found

    def settle(self) -> int:
        """The replicas of the load, once they stay the same."""
        found: list[int] = []
        while len(found) < SETTLED or len(set(found[-SETTLED:])) > 1:
            found += self.looks(1)
            assert len(found) < 60, found
        return found[-1]

    def _later(self) -> None:
        """Another scrape."""
        begun = time.monotonic()
        servers.wait_until(lambda: time.monotonic() - begun >= WINDOW / 4, "the next scrapes")


@pytest.fixture
def rig(prometheus: Prometheus) -> Iterator[Rig]:
    program, line = Program(), Line(int(prometheus.url.rsplit(":", 1)[1]))
    servers.wait_until(lambda: prometheus.has_forgotten(WINDOW), "an empty Prometheus")
    with page(program.page, prometheus.port):
        try:
            yield Rig(prometheus, program, line)
        finally:
            line.close()


def test_no_fault_of_measurements_takes_a_replica_away_or_adds_one(rig: Rig) -> None:
    usual = rig.settle()
    assert LEAST + 1 < usual < MOST - 1
    found: dict[str, list[int]] = {}
    for fault in ("no numbers", "each told twice", "the program is gone"):
        rig.program.fault = fault
        found[fault] = rig.looks(LOOKS)
        rig.program.fault = ""
        found[f"after: {fault}"] = rig.looks(AFTER)

    def restart(look: int) -> None:
        if look % RESTART == 0:
            rig.program.fault = "counters begin anew"

    found["the program restarts"] = rig.looks(LOOKS, restart)
    for state in ("cut", "held"):
        rig.line.set(state)
        found[f"the line is {state}"] = rig.looks(LOOKS)
        rig.line.set("")
        found[f"after: the line is {state}"] = rig.looks(AFTER)
    unsafe = {fault: counts for fault, counts in found.items() if min(counts) < usual}
    assert not unsafe, f"a load that needs {usual}: {unsafe}"
    risen = {fault: counts for fault, counts in found.items() if max(counts) > usual + 1}
    assert not risen, f"a load that needs {usual}: {risen}"
    rig.program.rate = 1.0
    assert min(rig.looks(AFTER)) < usual, "a load that goes is seen within as many looks"
