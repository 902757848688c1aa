"""From the token of a fake GPU through a real Prometheus to what a training that harvests is charged."""

from collections.abc import Iterator

import pytest
from django.db.models import Sum

from controlplane.cluster.port import PodUse, pod_name
from controlplane.cluster.prometheus.metrics import PrometheusMetrics, Settings
from controlplane.lifecycle.harvested import Tenant, parts
from controlplane.models import Placement, Usage, Workload
from controlplane.testbed.fakecuda.rig import Rig
from gpushare.gpu import WHOLE
from tests import servers
from tests.controlplane.harvesting import harvested
from tests.controlplane.state import World
from tests.enforcer.test_time import busy, used
from tests.prometheus import Prometheus

WINDOW = 3.0  # s: fifteen scrapes of a machine that is busy elsewhere


@pytest.fixture
def metrics(rig: Rig, prometheus: Prometheus) -> Iterator[PrometheusMetrics]:
    """Of a Prometheus that scrapes the daemon, once it is there."""
    servers.wait_until(lambda: prometheus.has_forgotten(WINDOW), "an empty Prometheus")
    rig.metrics_port = prometheus.port
    yield PrometheusMetrics(Settings(prometheus.url, window_seconds=WINDOW))


def own(metrics: PrometheusMetrics, uid: str) -> float:
    """The duty that is told of the workload's only pod; -1: nothing is."""
    uses = metrics.pods([uid])
    assert len(uses) <= 1
    return -1.0 if not uses or uses[0].own_duty is None else uses[0].own_duty


def test_prometheus_tells_what_each_pod_had_of_the_gpu_while_a_daemon_counts(
    rig: Rig, metrics: PrometheusMetrics
) -> None:
    rig.share("a", guarantee=300, pod="one-1-0")
    rig.share("b", guarantee=700, pod="two-4-2")
    rig.share("c", guarantee=100)
    rig.serve()
    busy(rig, "a")
    busy(rig, "b")
    rig.until(lambda: own(metrics, "one") > 0.2 and own(metrics, "two") > 0.5, "both shares' parts")
    one, two = metrics.pods(["one", "two"])
    assert (two.workload, two.attempt, two.rank) == ("two", 4, 2)
    assert 0.15 < (one.own_duty or 0) < 0.45
    assert 0.4 < (two.own_duty or 0) < 0.85
    rig.kill_daemon()
    rig.until(lambda: metrics.pods(["one", "two"]) == (), "nothing is known without a daemon")
    rig.serve()
    rig.until(lambda: own(metrics, "two") > 0.5, "what a daemon counts that came after it")


@pytest.fixture
def world(db: None, metrics: PrometheusMetrics) -> World:
    """A share of a quarter, and beside it a training that harvests; both run."""
    return harvested(metrics)


def pod(name: str) -> str:
    workload = Workload.objects.get(name=name)
    return pod_name(str(workload.pk), 1, 0)


def test_a_training_that_harvests_is_charged_what_the_daemon_counted(
    rig: Rig, world: World, metrics: PrometheusMetrics
) -> None:
    """The share has kernels for a fifth of the time; the training takes what that leaves."""
    rig.share("share", guarantee=250, pod=pod("share"))
    rig.share("gang", guarantee=1, pod=pod("gang"))
    rig.serve()
    cell = rig.start("share", "work", 1000, 20, 80_000, 120)
    busy(rig, "gang")
    rig.until(lambda: used(rig, cell.pid) > 0, "the cell")
    uids = {name: str(Workload.objects.get(name=name).pk) for name in ("share", "gang")}
    rig.until(lambda: own(metrics, uids["gang"]) > 0.5 and own(metrics, uids["share"]) > 0.05, "both are measured")
    before = Placement.objects.get(workload__name="gang").accounted_to or 0.0
    world.later(100)
    world.observe()
    world.account()
    placed, cells = (Placement.objects.get(workload__name=name) for name in ("gang", "share"))
    seconds = int((placed.accounted_to or 0.0) - before)
    assert 0.4 < (placed.own_duty or 0) < 0.95
    _, part = parts([Tenant(250, cells.own_duty), Tenant(0, placed.own_duty)])
    charged = Usage.objects.filter(name="gang").aggregate(h=Sum("held"), c=Sum("computed"))
    share = Usage.objects.filter(name="share").aggregate(h=Sum("held"), c=Sum("computed"))
    assert seconds > 0
    assert (charged["h"], charged["c"]) == (part.charged * seconds, part.computed * seconds)
    assert 400 * seconds < charged["h"] <= 750 * seconds
    assert share["h"] == 250 * seconds
    assert share["c"] > 0
    assert charged["c"] + share["c"] <= WHOLE * seconds


def test_without_a_daemon_nothing_is_charged(world: World, metrics: PrometheusMetrics) -> None:
    assert metrics.pods([str(one.pk) for one in Workload.objects.all()]) == tuple[PodUse, ...]()
    world.later(100)
    world.observe()
    world.account()
    assert not Usage.objects.filter(name="gang", held__gt=0).exists()
