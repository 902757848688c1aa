"""What exporters on a simulated cluster's nodes would say: DCGM, cAdvisor, Istio and the programs themselves.

One page for all of them, in Prometheus' own format and with the labels of docs/metrics.md. Counters grow with the
simulated clock: a rate is per second of that clock only where it runs at speed 1. Those of requests begin with their
service, the others with the exporter.
"""

import itertools
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from autoscaler.latency import Within
from autoscaler.observed import BUCKETS, Scrape
from controlplane.cluster.port import PodPhase, PodSeen, PodUse, RevisionUse, TrainingUse, WorkerUse
from controlplane.cluster.serving.outcomes import BOUNDS, Totals
from controlplane.cluster.simulated import SimulatedCluster

MILLISECONDS = tuple(round(1000 * bound, 1) for bound in BOUNDS)
PERIODS = 10.0  # per second: in which the kernel gives out CPU time
MIB = 1_048_576
LINE_BYTES = 1.25e9  # per second: 10 Gbit/s

Labels = tuple[str, ...]
_POD, _SERVICE = ("pod", "container"), ("reporter", "workload", "response_code")
_WORKER, _DEVICE = ("workload", "attempt", "rank"), ("node", "device")


class Exporter:
    """Collects for a prometheus_client registry. One instance belongs to one thread, as the cluster does."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._at = cluster.now()
        self._counts: dict[str, dict[Labels, float]] = defaultdict(lambda: defaultdict(float))

    def collect(self) -> Iterator[Metric]:
        """Every series at the cluster's time."""
        now = self._cluster.now()
        since, self._at = self._at, now
        running = [pod for pod in self._cluster.observe(None).pods if pod.phase == PodPhase.RUNNING]
        uids = sorted({pod.workload for pod in running})
        pods = {(use.workload, use.attempt, use.rank): use for use in self._cluster.pods(uids)}
        yield from self._devices([pod for pod in running if _has_whole_devices(pods, pod)])
        yield from self._containers(pods.values(), now - since)
        yield self._parts(pods.values())
        yield self._places(pods.values())
        live = {(pod.workload, pod.attempt) for pod in running}
        jobs = [use for use in self._cluster.training(uids) if (use.workload, use.attempt) in live]
        yield from self._programs(jobs, self._cluster.workers(uids), now - since)
        yield from self._nodes(now - since)
        yield from self._checkpoints({(use.workload, use.attempt) for use in jobs}, running)
        yield from self._services({pod.workload for pod in running})

    def _devices(self, alone: Iterable[PodSeen]) -> Iterator[Metric]:
        """As the DCGM exporter: one series a device, with the name of the pod that has the whole of it."""
        whole = {(pod.node, index): pod.name for pod in alone for index in pod.gpus}
        names = ("Hostname", "gpu", "UUID", "pod")
        duty = GaugeMetricFamily("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", labels=names)
        memory = GaugeMetricFamily("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", labels=names)
        for use in self._cluster.gpus():
            labels = (use.node, str(use.index), f"GPU-{use.node}-{use.index}", whole.get((use.node, use.index), ""))
            duty.add_metric(labels, 100 * use.duty)
            memory.add_metric(labels, use.memory)
        yield from (duty, memory)

    def _parts(self, pods: Iterable[PodUse]) -> Metric:
        """As what holds shares to their parts, where it tells."""
        told = GaugeMetricFamily("weft_gpu_share_duty", "Of a shared GPU, by the pod's own kernels.", labels=("pod",))
        for use in pods:
            if use.own_duty is not None:
                told.add_metric((f"{use.workload}-{use.attempt}-{use.rank}",), use.own_duty)
        return told

    def _places(self, pods: Iterable[PodUse]) -> Metric:
        """As our own back-end, of notebooks on demand."""
        told = GaugeMetricFamily("weft_gpu_share_on_gpu", "The GPU of a notebook on demand.", labels=("pod",))
        for use in pods:
            if use.on_gpu is not None:
                told.add_metric((f"{use.workload}-{use.attempt}-{use.rank}",), use.on_gpu)
        return told

    def _containers(self, pods: Iterable[PodUse], seconds: float) -> Iterator[Metric]:
        """As cAdvisor."""
        memory = GaugeMetricFamily("container_memory_working_set_bytes", "Current working set.", labels=_POD)
        live: list[Labels] = []
        for use in pods:
            labels = (f"{use.workload}-{use.attempt}-{use.rank}", "main")
            live.append(labels)
            memory.add_metric(labels, MIB * (use.memory or 0))
            self._add("container_cpu_usage_seconds", labels, seconds * (use.cpu_milli or 0) / 1000)
            self._add("container_cpu_cfs_periods", labels, seconds * PERIODS)
            self._add("container_cpu_cfs_throttled_periods", labels, seconds * PERIODS * (use.throttled_ratio or 0))
        yield memory
        yield self._counter("container_cpu_usage_seconds", "CPU time consumed.", _POD, live)
        yield self._counter("container_cpu_cfs_periods", "Elapsed enforcement periods.", _POD, live)
        yield self._counter("container_cpu_cfs_throttled_periods", "Throttled periods.", _POD, live)

    def _programs(self, jobs: Iterable[TrainingUse], workers: Iterable[WorkerUse], seconds: float) -> Iterator[Metric]:
        """As training programs whose ranks each count their own steps."""
        step = GaugeMetricFamily("weft_training_step", "Number of the last step.", labels=_WORKER)
        by_job: dict[tuple[str, int], list[WorkerUse]] = defaultdict(list)
        for worker in workers:
            by_job[worker.workload, worker.attempt].append(worker)
        live: list[Labels] = []
        for use in jobs:
            mine = by_job[use.workload, use.attempt]
            for worker in mine:
                if use.step is None or not worker.step_seconds:
                    continue
                labels = (use.workload, str(use.attempt), str(worker.rank))
                live.append(labels)
                step.add_metric(labels, use.step)
                self._add("weft_training_steps", labels, seconds / worker.step_seconds)
                self._add("weft_training_step_seconds", labels, seconds)
                self._add("weft_training_samples", labels, seconds * (use.samples_per_second or 0) / len(mine))
                self._add("weft_training_data_wait_seconds", labels, seconds * (worker.data_wait_ratio or 0))
                self._add("weft_training_sync_seconds", labels, seconds * (worker.sync_ratio or 0))
        yield step
        yield self._counter("weft_training_steps", "Steps done.", _WORKER, live)
        yield self._counter("weft_training_step_seconds", "Time of those steps.", _WORKER, live)
        yield self._counter("weft_training_samples", "Samples of those steps.", _WORKER, live)
        yield self._counter("weft_training_data_wait_seconds", "Of it, time without input.", _WORKER, live)
        yield self._counter("weft_training_sync_seconds", "Of it, time to exchange gradients.", _WORKER, live)

    def _nodes(self, seconds: float) -> Iterator[Metric]:
        """As the node exporter: one disk and one interface a node."""
        speed = GaugeMetricFamily("node_network_speed_bytes", "Rate of the interface, bytes/s.", labels=_DEVICE)
        disks: list[Labels] = []
        lines: list[Labels] = []
        for use in self._cluster.nodes():
            disk, line = (use.node, "nvme0n1"), (use.node, "eth0")
            disks.append(disk)
            lines.append(line)
            speed.add_metric(line, LINE_BYTES)
            self._add("node_disk_io_time_seconds", disk, seconds * (use.disk_ratio or 0))
            self._add("node_network_transmit_bytes", line, seconds * LINE_BYTES * (use.line_ratio or 0))
        yield speed
        yield self._counter("node_disk_io_time_seconds", "Time in which the disk was busy.", _DEVICE, disks)
        yield self._counter("node_network_transmit_bytes", "Bytes sent.", _DEVICE, lines)

    def _checkpoints(self, jobs: Container[tuple[str, int]], running: Iterable[PodSeen]) -> Iterator[Metric]:
        """As training programs that say what they have saved, each worker for itself."""
        name = "weft_training_last_checkpoint"
        at = GaugeMetricFamily(f"{name}_timestamp_seconds", "When the last checkpoint was safe.", labels=_WORKER)
        part = GaugeMetricFamily(f"{name}_part", "Part of the work that is in it.", labels=_WORKER)
        for pod in running:
            labels = (pod.workload, str(pod.attempt), str(pod.rank))
            if (pod.workload, pod.attempt) in jobs and pod.checkpointed_at is not None:
                at.add_metric(labels, pod.checkpointed_at)
                part.add_metric(labels, pod.progress or 0.0)
        yield from (at, part)

    def _services(self, live: set[str]) -> Iterator[Metric]:
        """As Istio's proxies at the replicas, and a gateway before them; refused requests reach no replica.

        Proxies count from their own start on, so these counters do not begin with the exporter.
        """
        took = HistogramMetricFamily("istio_request_duration_milliseconds", "Request durations.", labels=_SERVICE)
        requests = CounterMetricFamily("istio_requests", "Requests.", labels=_SERVICE)
        answered = self._cluster.answered(live)
        for uid in sorted(answered):
            totals, labels = answered[uid], ("destination", uid, "200")
            requests.add_metric(labels, totals.answered)
            requests.add_metric(("destination", uid, "0"), totals.failed)
            buckets = [(str(float(bound)), count) for bound, count in zip(MILLISECONDS, totals.within, strict=True)]
            took.add_metric(labels, [*buckets, ("+Inf", totals.answered)], sum_value=None)
        yield from (requests, took)
        yield from _gateway(answered, self._cluster.scrapes(list(live)))
        yield _revisions(self._cluster.revisions(dict.fromkeys(live, (0.0, Within(0.0)))))

    def _add(self, name: str, labels: Labels, more: float) -> None:
        self._counts[name][labels] += more

    def _counter(self, name: str, what: str, names: Labels, live: Iterable[Labels]) -> Metric:
        """A counter's series of what still runs; the others are forgotten."""
        counts: Mapping[Labels, float] = self._counts[name]
        family = CounterMetricFamily(name, what, labels=names)
        kept = defaultdict(float, {labels: counts[labels] for labels in live})
        self._counts[name] = kept
        for labels, value in kept.items():
            family.add_metric(labels, value)
        return family


def _gateway(answered: Mapping[str, Totals], scrapes: Mapping[str, Scrape]) -> Iterator[Metric]:
    """As our activator tells of the requests that go through it."""
    labels = ("workload",)
    came = CounterMetricFamily("weft_gateway_arrivals", "Requests that came.", labels=labels)
    served = HistogramMetricFamily(
        "weft_gateway_service_seconds", "From a replica's taking to the answer.", labels=labels
    )
    firsts = {
        name: HistogramMetricFamily(f"weft_gateway_{name}_seconds", what, labels=labels)
        for name, what in (
            ("first_byte", "From arrival to the answer's first byte."),
            ("first_byte_service", "From a replica's taking to the answer's first byte."),
        )
    }
    gauges = {
        name: GaugeMetricFamily(f"weft_gateway_{name}", what, labels=labels)
        for name, what in (
            ("waiting", "Requests that wait."),
            ("running", "Requests that replicas work on."),
            ("widest", "Requests that the busiest replica works on."),
        )
    }
    for uid in sorted(answered.keys() & scrapes.keys()):
        totals, scrape, label = answered[uid], scrapes[uid], (uid,)
        inside = (scrape.waiting or 0) + (scrape.running or 0)
        came.add_metric(label, totals.answered + totals.failed + totals.refused + inside)
        served.add_metric(label, _buckets(totals.served, totals.answered), sum_value=totals.served_micros / 1e6)
        if scrape.first is not None:
            firsts["first_byte"].add_metric(label, _buckets(totals.firsts, totals.answered), sum_value=None)
            told = _buckets(totals.firsts_served, totals.answered)
            firsts["first_byte_service"].add_metric(label, told, sum_value=None)
        for name, family in gauges.items():
            family.add_metric(label, getattr(scrape, name) or 0)
    yield from (came, served, *firsts.values(), *gauges.values())


def _buckets(counts: Sequence[float], total: float) -> list[tuple[str, float]]:
    """Of a histogram in the law's buckets."""
    reached = itertools.accumulate(counts)
    return [*((f"{bound:.6g}", count) for bound, count in zip(BUCKETS, reached, strict=True)), ("+Inf", total)]


def _revisions(uses: Iterable[RevisionUse]) -> Metric:
    """As our activator tells of requests that are split."""
    family = CounterMetricFamily(
        "weft_gateway_revision_requests", "Requests by revision.", labels=("workload", "revision", "outcome")
    )
    for one in uses:
        for outcome, count in (("good", one.requests - one.over), ("late", one.over)):
            family.add_metric((one.workload, str(one.revision), outcome), count)
    return family


def _has_whole_devices(uses: Mapping[tuple[str, int, int], PodUse], pod: PodSeen) -> bool:
    use = uses.get((pod.workload, pod.attempt, pod.rank))
    return use is not None and use.duty is not None
