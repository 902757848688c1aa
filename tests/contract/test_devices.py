"""Series of devices as a real Prometheus has them on bad days: late, missing, told twice, about to end."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from threading import Event

import pytest

from controlplane.cluster.port import GpuUse, PodPhase
from controlplane.cluster.prometheus.metrics import PrometheusMetrics, Settings
from controlplane.models import Gpu, Team, TeamSample, Usage, Workload
from scheduler.model.decision import Assignment, Place
from tests import servers
from tests.contract.test_prometheus import page
from tests.controlplane.state import World, phase
from tests.prometheus import Prometheus

WINDOW = 2.0  # s: ten scrapes
UTIL, USED = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED"
MIB = 2**20


def device(
    util: float, *, gpu: int = 0, pod: str = "", exporter: str = "one", uuid: str = "", at: float | None = None
) -> str:
    """A device of node a as an exporter tells it: so much per cent, and ten times as many MiB."""
    labels = f'gpu="{gpu}",UUID="{uuid or f"GPU-{gpu}"}",Hostname="a",instance="{exporter}",pod="{pod}"'
    moment = "" if at is None else f" {round(at * 1000)}"
    used = 0 if math.isnan(util) else 10 * util
    return f"{UTIL}{{{labels}}} {util}{moment}\n{USED}{{{labels}}} {used}{moment}\n"


def told(metrics: PrometheusMetrics) -> dict[int, float]:
    return {use.index: use.duty for use in metrics.gpus()}


@pytest.fixture
def metrics(prometheus: Prometheus) -> Iterator[PrometheusMetrics]:
    servers.wait_until(lambda: prometheus.has_forgotten(WINDOW), "an empty Prometheus")
    return PrometheusMetrics(Settings(prometheus.url, window_seconds=WINDOW))


@pytest.fixture
def seen(prometheus: Prometheus, metrics: PrometheusMetrics) -> Iterator[Callable[..., None]]:
    """Serve these lines, and wait until all of them were scraped."""
    text = {"now": ""}

    def serve(*lines: str) -> None:
        text["now"] = "".join(lines) + f"told {len(lines)}_{time.monotonic_ns()}\n".replace("_", ".")
        number = text["now"].split()[-1]
        servers.wait_until(lambda: bool(prometheus.ask(f"told == {number}")), "a scrape")

    with page(lambda: text["now"], prometheus.port):
        yield serve


# --- told twice -------------------------------------------------------------------------------


def test_a_device_of_which_two_exporters_tell_is_one_and_the_busier_counts(
    metrics: PrometheusMetrics, seen: Callable[..., None]
) -> None:
    seen(device(10, pod="w-1-0"), device(60, pod="w-1-0", exporter="two"))
    assert metrics.gpus() == (GpuUse("a", 0, 0.6, 600, ("w-1-0",)),)
    (pod,) = metrics.pods(["w"])
    assert pod.duty == 0.6


def test_a_device_that_is_told_twice_weighs_no_more_than_another_of_its_pod(
    metrics: PrometheusMetrics, seen: Callable[..., None]
) -> None:
    seen(*(device(0, pod="w-1-0", exporter=name) for name in ("one", "two")), device(90, gpu=1, pod="w-1-0"))
    (pod,) = metrics.pods(["w"])
    assert pod.duty == pytest.approx(0.45)


def test_two_devices_of_one_name_hide_each_other(metrics: PrometheusMetrics, seen: Callable[..., None]) -> None:
    seen(device(0), device(80, uuid="GPU-of-another-node", exporter="two"), device(30, gpu=1))
    assert told(metrics) == {1: 0.3}


def test_a_nan_is_no_number_where_no_other_exporter_says_one(
    metrics: PrometheusMetrics, seen: Callable[..., None]
) -> None:
    nan = math.nan
    seen(device(nan, pod="w-1-0"), device(nan, gpu=1), device(50, gpu=1, exporter="two"), device(0, gpu=2, pod="w-1-0"))
    assert told(metrics) == {1: 0.5, 2: 0.0}
    (pod,) = metrics.pods(["w"])
    assert pod.duty is None  # one of its two devices is not known, so neither is their mean


# --- late and missing -------------------------------------------------------------------------


def test_a_sample_of_too_long_ago_is_not_known(metrics: PrometheusMetrics, seen: Callable[..., None]) -> None:
    now = time.time()
    seen(device(70, at=now - 30), device(40, gpu=1))
    assert told(metrics) == {1: 0.4}
    assert metrics.gpus()[0].pods == ()


def test_while_an_exporter_answers_too_late_nothing_is_known_and_then_it_is_again(
    prometheus: Prometheus, metrics: PrometheusMetrics
) -> None:
    may_answer = Event()
    may_answer.set()

    def slowly() -> str:
        may_answer.wait(30)
        return device(50)

    with page(slowly, prometheus.port):
        servers.wait_until(lambda: told(metrics) == {0: 0.5}, "a scrape")
        may_answer.clear()
        servers.wait_until(lambda: told(metrics) == {}, "a scrape that fails")
        may_answer.set()
        servers.wait_until(lambda: told(metrics) == {0: 0.5}, "a scrape in time")


def test_a_device_that_another_pod_gets_is_never_said_to_be_both_of_theirs(
    metrics: PrometheusMetrics, seen: Callable[..., None]
) -> None:
    seen(device(70, pod="old-1-0"))
    assert [use.pods for use in metrics.gpus()] == [("old-1-0",)]
    seen(device(20, pod="new-1-0"))
    assert [(use.duty, use.pods) for use in metrics.gpus()] == [(0.2, ("new-1-0",))]
    assert [use.workload for use in metrics.pods(["old", "new"])] == ["new"]


# --- what the product makes of it -------------------------------------------------------------


def give(world: World, workload: Workload, *gpus: int) -> str:
    """Run it on these GPUs of node a; its pod's name."""
    workload.refresh_from_db()
    made = world.decide(Place(str(workload.pk), workload.version, (Assignment(0, "a", gpus),), ()))
    assert not made.stale
    world.actuate()
    world.cluster.set(workload, PodPhase.RUNNING)
    world.observe()
    assert phase(workload) == "Running"
    return f"{workload.pk}-1-0"


def computing(world: World) -> Sequence[int]:
    """What of their GPUs the teams red and blue keep busy."""
    world.later(60)
    world.observe()
    world.account()
    teams = [Team.objects.get(name=name) for name in ("red", "blue")]
    return [TeamSample.objects.filter(team=team).latest("at").computing for team in teams]


@pytest.mark.django_db
def test_each_team_is_told_what_its_own_pods_compute_whatever_the_devices_numbers(
    metrics: PrometheusMetrics, seen: Callable[..., None]
) -> None:
    world = World(metrics=metrics)
    busy = give(world, world.submit("busy", team="red"), 0)
    lazy = give(world, world.submit("lazy", team="blue", gpus=2), 1, 2)

    seen(device(0), device(10, gpu=1, pod=lazy), device(0, gpu=2, pod=lazy), device(90, gpu=3, pod=busy))
    assert computing(world) == [900, 100]
    assert dict(Gpu.objects.values_list("index", "duty")) == {0: 0.9, 1: 0.1, 2: 0.0, 3: 0.0}
    used = {row.name: row.computed / row.held for row in Usage.objects.all()}
    assert used == {"busy": pytest.approx(0.9, abs=0.02), "lazy": pytest.approx(0.05, abs=0.02)}

    seen(device(0), device(10, gpu=1, pod=lazy), device(0, gpu=2), device(90, gpu=3))  # it names busy's pod no more
    assert computing(world) == [0, 100]
    assert dict(Gpu.objects.values_list("index", "duty")) == {0: None, 1: 0.1, 2: None, 3: 0.9}


@pytest.mark.django_db
def test_a_notebook_is_parked_only_while_its_own_device_is_said_to_be_idle(
    metrics: PrometheusMetrics, seen: Callable[..., None]
) -> None:
    world = World(metrics=metrics)
    pod = give(world, world.submit("left", kind="notebook", idle={"park_after": "10m"}), 0)
    quiet = f'container_cpu_usage_seconds_total{{pod="{pod}",container="main"}} 5\n'

    def is_watched_for(minutes: int) -> bool:
        """Whether it still runs then."""
        for _ in range(minutes):
            world.later(60)
            world.observe()
            world.account()
        return phase(left) == "Running"

    left = Workload.objects.get()
    for series in (
        (),  # nothing at all
        (quiet,),  # no device
        (quiet, device(0)),  # a device of which it is not known whose it is
        (quiet, device(math.nan, pod=pod)),
        (quiet, device(0, pod=pod, at=time.time() - 30)),
        (quiet, device(0, pod=pod), device(60, pod=pod, exporter="two")),
        (quiet, device(0, pod=pod), device(60, pod=pod, gpu=1)),
    ):
        seen(*series)
        assert is_watched_for(15), series
    seen(quiet, device(0, pod=pod), device(0, pod=pod, exporter="two"))
    assert not is_watched_for(15)
    left.refresh_from_db()
    assert (left.phase, left.reason) == ("Suspending", "Culled")
