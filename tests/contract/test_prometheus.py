"""What a real Prometheus makes of the simulated cluster is what the cluster says of itself, number by number."""

import math
import time
from pathlib import Path
from urllib.error import HTTPError

import pytest

from autoscaler.latency import Within
from controlplane.cluster.prometheus import histogram
from controlplane.cluster.prometheus.metrics import PrometheusMetrics, Settings
from controlplane.cluster.prometheus.queries import TABLE, text
from scheduler.model.workload import Kind
from tests import servers
from tests.contract.drive import gang, pod, run
from tests.contract.measured import Scraped, scraped
from tests.metricspage import page
from tests.prometheus import Prometheus

SPEED = 20  # simulated seconds in one of Prometheus'
SECONDS = 4  # of Prometheus': what rates are taken over, twenty scrapes


def at_speed(drive: Scraped, seconds: float) -> None:
    """Let the clock run exactly so much faster than Prometheus' own."""
    began, start = time.monotonic(), drive.cluster.now()

    def is_over() -> bool:
        passed = time.monotonic() - began
        drive.cluster.advance(start + passed * SPEED)  # type: ignore[attr-defined]
        return passed >= seconds

    servers.wait_until(is_over, "the clock", 10 * seconds)


@pytest.mark.slow
def test_rates_and_latencies_are_the_clusters_own(prometheus: Prometheus, tmp_path: Path) -> None:
    with scraped(tmp_path, prometheus) as drive:
        run(drive, gang(drive, 2, "job"))
        file = drive.job_file(Kind.INFERENCE)
        run(drive, [pod(drive, "service", node="b", rank=rank, size=2, spec=file) for rank in range(2)])
        at_speed(drive, SECONDS + 1.0)
        metrics = PrometheusMetrics(Settings(prometheus.url, window_seconds=SECONDS), now=drive.cluster.now)
        objective = {"service": Within(0.25)}
        (service,), (truth,) = metrics.services(objective), drive.cluster.services(objective)  # type: ignore[attr-defined]
        (job,), (real,) = metrics.training(["job"]), drive.cluster.training(["job"])  # type: ignore[attr-defined]

    def close(measured: float | None, expected: float | None) -> bool:
        assert measured is not None
        assert expected is not None
        return math.isclose(measured, expected, rel_tol=0.15, abs_tol=1e-3)

    assert close(service.requests_per_second, SPEED * truth.requests_per_second)
    assert close(service.requests, SPEED * SECONDS * truth.requests_per_second)
    assert (service.queue, service.over_objective) == (truth.queue, 0)
    # Istio's bounds are coarse: the truth lies in the same bucket.
    bounds = [0.0, 0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5]
    assert sum(b < service.p95_seconds for b in bounds) == sum(b < truth.p95_seconds for b in bounds)
    assert job.attempt == 1
    assert close(job.step, real.step)
    assert close(job.step_seconds, real.step_seconds)
    assert close(job.samples_per_second, SPEED * real.samples_per_second)
    assert close(job.data_wait_ratio, real.data_wait_ratio)
    assert close(job.sync_ratio, real.sync_ratio)


def test_prometheus_takes_every_query_of_the_table(prometheus: Prometheus) -> None:
    refused = []
    for query in TABLE:
        asked = text(query, [f"id-{number}" for number in range(200)], 60.0)
        try:
            prometheus.ask(asked)
        except HTTPError as error:
            refused.append((asked[:200], error.code, error.read()))
    assert refused == []


BUCKETS = [
    {"100": 3.0, "250": 40.0, "+Inf": 50.0},
    {"0.5": 0.0, "1": 0.0, "5": 7.0, "10": 7.0, "25": 19.0, "+Inf": 19.0},
    {"100": 0.0, "+Inf": 5.0},
    {"100": 5.0, "+Inf": 5.0},
    {"100": 0.0, "+Inf": 0.0},
    {"10": 5.0, "20": 4.0, "30": 9.0, "+Inf": 9.0},  # scraped apart
]


def test_quantiles_are_prometheus_own(prometheus: Prometheus) -> None:
    lines = [
        f'latency_bucket{{case="{case}",le="{le}"}} {count}'
        for case, buckets in enumerate(BUCKETS)
        for le, count in buckets.items()
    ]
    with page("# TYPE latency gauge\n" + "\n".join(lines) + "\n", prometheus.port):
        servers.wait_until(lambda: bool(prometheus.ask("latency_bucket")), "a scrape")
        for part in (0.05, 0.5, 0.95, 0.99):
            rows = prometheus.ask(f"histogram_quantile({part}, latency_bucket)")
            said = {int(row["metric"]["case"]): float(row["value"][1]) for row in rows}
            for case, buckets in enumerate(BUCKETS):
                ours = histogram.quantile(
                    histogram.cumulative({float(le): count for le, count in buckets.items()}), part
                )
                expected = said[case]
                assert ours == (None if math.isnan(expected) else pytest.approx(expected)), (case, part)


def test_series_that_are_no_longer_scraped_are_not_known(prometheus: Prometheus) -> None:
    series = 'DCGM_FI_DEV_GPU_UTIL{Hostname="gone",gpu="0"} 50\nDCGM_FI_DEV_FB_USED{Hostname="gone",gpu="0"} 5\n'
    metrics = PrometheusMetrics(Settings(prometheus.url))
    with page(series, prometheus.port):
        servers.wait_until(lambda: [use.node for use in metrics.gpus()] == ["gone"], "a scrape")
    servers.wait_until(lambda: metrics.gpus() == (), "a failed scrape")


def test_a_counter_that_begins_again_makes_no_negative_rate(prometheus: Prometheus) -> None:
    metrics = PrometheusMetrics(Settings(prometheus.url, window_seconds=5.0))
    counts = iter(range(0, 100_000, 10))

    def lines() -> str:
        value = next(counts) % 70
        labels = 'reporter="destination",workload="reset",response_code="200"'
        return f"istio_requests_total{{{labels}}} {value}\n"

    with page(lines, prometheus.port):
        enough = 'count_over_time(istio_requests_total{workload="reset"}[5s]) >= 15'
        servers.wait_until(lambda: bool(prometheus.ask(enough)), "scrapes")
        (use,) = metrics.services({"reset": None})
    assert use.requests is not None
    assert 100 <= use.requests <= 300  # ten a scrape, six of seven times; 15 to 25 scrapes
