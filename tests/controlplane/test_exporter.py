"""What the simulated cluster's exporters say."""

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from controlplane.cluster.simulated import SimulatedCluster
from controlplane.simulator.exporter import MILLISECONDS, Exporter
from controlplane.simulator.worlds.profiles import PROFILES
from scheduler.model.workload import Kind
from tests import servers
from tests.contract.drive import NODES, SimulatedDrive, gang, pod, run


@pytest.fixture
def drive() -> SimulatedDrive:
    return SimulatedDrive(SimulatedCluster(NODES, profiles=PROFILES))


def registry(drive: SimulatedDrive) -> CollectorRegistry:
    out = CollectorRegistry()
    out.register(Exporter(drive.cluster))
    list(out.collect())  # counters begin now
    return out


def test_counters_grow_by_the_clusters_clock(drive: SimulatedDrive) -> None:
    run(drive, [*gang(drive, 2), pod(drive, "s", node="b", spec=drive.job_file(Kind.INFERENCE))])
    page = registry(drive)
    job = {"workload": "w", "attempt": "1", "rank": "1"}
    for minutes in (1, 2):
        drive.wait(60)
        list(page.collect())  # another scrape changes nothing
        assert page.get_sample_value("weft_training_step_seconds_total", job) == 60 * minutes
        cpu = page.get_sample_value("container_cpu_cfs_periods_total", {"pod": "w-1-0", "container": "main"})
        assert cpu == 600 * minutes
    (use,) = drive.cluster.training(["w"])
    steps = page.get_sample_value("weft_training_steps_total", job)
    assert steps == pytest.approx(120 / use.step_seconds, rel=0.2)
    assert page.get_sample_value("weft_training_step", job) == use.step


def test_buckets_end_in_all_requests_that_were_answered(drive: SimulatedDrive) -> None:
    run(drive, [pod(drive, "s", node="b", spec=drive.job_file(Kind.INFERENCE))])
    page = registry(drive)
    drive.wait(60)
    labels = {"reporter": "destination", "workload": "s", "response_code": "200"}
    samples = {
        sample.labels["le"]: sample.value
        for family in page.collect()
        for sample in family.samples
        if sample.name == "istio_request_duration_milliseconds_bucket"
    }
    total = samples.pop("+Inf")
    assert [float(le) for le in samples] == list(MILLISECONDS)
    assert list(samples.values()) == sorted(samples.values())
    assert page.get_sample_value("istio_requests_total", labels) == total
    (use,) = drive.cluster.services({"s": None})
    assert total <= use.requests + 1


def test_a_gateway_tells_of_all_that_came_and_of_the_time_that_replicas_took(drive: SimulatedDrive) -> None:
    run(drive, [pod(drive, "s", node="b", spec=drive.job_file(Kind.INFERENCE))])
    page = registry(drive)
    drive.wait(60)
    families = {family.name: family for family in page.collect()}
    answered = page.get_sample_value("weft_gateway_service_seconds_count", {"workload": "s"})
    came = page.get_sample_value("weft_gateway_arrivals_total", {"workload": "s"})
    scrape = drive.cluster.scrapes(["s"])["s"]
    assert answered
    assert came is not None
    assert came >= answered + (scrape.running or 0) + (scrape.waiting or 0)
    assert page.get_sample_value("weft_gateway_service_seconds_sum", {"workload": "s"}) > 0
    assert {"weft_gateway_waiting", "weft_gateway_running", "weft_gateway_widest"} <= families.keys()


NODES_SAY = {"node_network_speed_bytes", "node_disk_io_time_seconds_total", "node_network_transmit_bytes_total"}


def test_what_no_longer_runs_is_no_longer_told(drive: SimulatedDrive) -> None:
    run(drive, gang(drive, 2))
    page = registry(drive)
    drive.cluster.stop("w", 1, [0, 1], 5.0)
    drive.wait(60)
    names = {sample.name for family in page.collect() for sample in family.samples}
    assert names == {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", *NODES_SAY}


def test_a_device_names_the_pod_that_has_all_of_it(drive: SimulatedDrive) -> None:
    share = pod(drive, "share", node="b", milli=500, gpu_memory=8_192, spec=drive.job_file(Kind.NOTEBOOK))
    run(drive, [*gang(drive, 1), share])
    named = {
        (sample.labels["Hostname"], sample.labels["gpu"]): sample.labels["pod"]
        for family in registry(drive).collect()
        for sample in family.samples
        if sample.name == "DCGM_FI_DEV_GPU_UTIL"
    }
    assert {key: name for key, name in named.items() if name} == {("a", "0"): "w-1-0"}


def test_the_command_serves_the_cluster_in_the_file(tmp_path: Path) -> None:
    env = servers.environment(tmp_path)
    servers.manage("migrate", "--verbosity=0", env=env)
    command = [sys.executable, "manage.py", "export", "--port", "0"]
    process = subprocess.Popen(command, cwd=servers.ROOT, env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        with urllib.request.urlopen(address, timeout=20) as answer:
            families = {family.name for family in text_string_to_metric_families(answer.read().decode())}
        assert {"DCGM_FI_DEV_GPU_UTIL", "container_cpu_usage_seconds", "istio_requests"} <= families
    finally:
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(10) == 0
