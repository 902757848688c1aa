"""The loops over a real Prometheus: what it measured is accounted, scaled by, and parks notebooks."""

from pathlib import Path

import pytest

from controlplane.cluster.port import PodPhase
from controlplane.cluster.prometheus.metrics import PrometheusMetrics, Settings
from controlplane.loops import scale
from controlplane.models import ServiceWindow, Usage, Workload
from controlplane.simulator.worlds.profiles import PROFILES
from tests import servers
from tests.contract.drive import NODES, SimulatedDrive
from tests.contract.drive import phase as pod_phase
from tests.contract.measured import AtOnce, Timed, scraped
from tests.controlplane.state import World, phase
from tests.prometheus import Prometheus

pytestmark = pytest.mark.django_db

# Two looks are enough when both find a measurement; on a busy machine Prometheus may miss a second's scrapes, and what
# is not known counts as in use.
MAX_LOOKS = 12


class Live(World):
    """A small world on a cluster that has a life of its own."""

    def later(self, seconds: float = 1.0) -> None:
        self.cluster.advance(self.cluster.now() + seconds)

    def up(self, drive: SimulatedDrive, workload: Workload, *nodes: str) -> None:
        self.place(workload, *nodes)
        self.actuate()
        names = [f"{workload.pk}-1-{rank}" for rank in range(len(nodes))]
        drive.until(lambda: all(pod_phase(drive, name) == PodPhase.RUNNING for name in names))
        self.observe()
        assert phase(workload) == "Running"


def test_what_prometheus_measured_is_accounted_scaled_by_and_parks(prometheus: Prometheus, tmp_path: Path) -> None:
    with scraped(tmp_path, prometheus) as drive:
        world = Live(cluster=drive.cluster, metrics=drive.metrics)
        job = world.submit("job", expected_duration="24h")
        busy = {"rate": {"base": 400.0, "amplitude": 0.0, "burst_part": 0.0}}
        chat = world.submit("chat", kind="inference", replicas={"min": 1, "max": 4}, simulated=busy)
        left = world.submit("left", kind="notebook", idle={"park_after": "1m"})
        world.up(drive, job, "a")
        world.up(drive, chat, "b")
        world.up(drive, left, "c")
        for _ in range(2):
            drive.wait(60)
            world.observe()
            world.account()
        window = ServiceWindow.objects.filter(workload=chat.pk).latest("start")
        assert window.requests > 0
        assert window.p95_seconds > 0
        used = Usage.objects.filter(workload=job.pk)
        assert sum(row.computed for row in used) > 0
        assert sum(row.computed for row in used) < sum(row.held for row in used)
        report = scale.run_once(world.wiring)
        assert not report.skipped
        chat.refresh_from_db()
        assert chat.workers > 1  # far more requests than one replica can answer

        def is_still() -> bool:
            """Its time runs faster than Prometheus': only while it stands still are small rates small."""
            (use,) = drive.metrics.pods([str(left.pk)])
            return (use.duty, use.cpu_milli) == (0.0, 0)

        world.later(20 * 3600)  # the notebook's person has gone, and does not come back
        for _ in range(MAX_LOOKS):
            servers.wait_until(is_still, "a quiet notebook")
            world.observe()
            world.account()
            if phase(left) != "Running":
                break
            world.later(120)
        assert phase(left) == "Suspending"
        assert Workload.objects.get(name="left").reason == "Culled"


def test_while_prometheus_is_down_nothing_moves() -> None:
    drive = AtOnce(Timed(NODES, profiles=PROFILES))
    world = Live(cluster=drive.cluster, metrics=PrometheusMetrics(Settings("http://127.0.0.1:9")))
    chat = world.submit("chat", kind="inference", replicas={"min": 1, "max": 4})
    left = world.submit("left", kind="notebook", idle={"park_after": "1m"})
    world.up(drive, chat, "b")
    world.up(drive, left, "c")
    for _ in range(4):
        world.later(60)
        world.account()
        assert not scale.run_once(world.wiring).skipped
    chat.refresh_from_db()
    assert (phase(left), chat.workers) == ("Running", 1)
    assert not ServiceWindow.objects.exists()
    assert all(row.held > 0 and row.computed == 0 for row in Usage.objects.all())
