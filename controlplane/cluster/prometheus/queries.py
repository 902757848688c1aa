"""What is asked of Prometheus: every query in one table, named, with its source, unit and bounds.

docs/metrics.md is this table for people, with the scrape configuration that gives series the labels used here:
`workload` and `attempt` come from the pod's labels by relabelling, so that a program cannot claim to be another's;
`pod` is the name `workload-attempt-rank` that Weft gives its pods.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from string import Template

from controlplane.cluster.devicenumbers import PLACEHOLDERS

WINDOW_SECONDS = 60.0  # four scrapes of 15 s (`scrape_interval`): a rate needs two, and one may fail
SHORT = 2 / 3  # of a window, two or three scrapes: what the autoscaler goes by has to be of now
LONG = 4.0  # windows for cAdvisor: kubelets sample a container every 10 to 30 s, whatever Prometheus is set to
CHUNK = 200  # workloads named in one query: 8 KiB of a URL

# Ids go into regular expressions; ours are UUIDs, and anything else is not asked for.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Query:
    """One question.

    labels: what each row is known by, the whole set. A value outside least..most is not known. `$workloads` stands
    for the ids asked for, `$window`, `$short` and `$long` for what a rate is taken over, `$stale` for how many seconds
    old a sample may be.
    """

    name: str
    source: str
    unit: str
    labels: tuple[str, ...]
    text: str
    most: float
    least: float = 0.0


def _fresh(series: str) -> str:
    """Series whose newest sample is not stale: Prometheus itself answers with one of five minutes ago."""
    return f"({series} and (time() - timestamp({series}) <= $stale))"


_DUTY = f"(1 * {_fresh('DCGM_FI_PROF_GR_ENGINE_ACTIVE')} or 0.01 * {_fresh('DCGM_FI_DEV_GPU_UTIL')})"
_POD = 'pod=~"($workloads)-[0-9]+-[0-9]+"'
_CONTAINER = f'container!="",container!="POD",{_POD}'
_OF = 'workload=~"$workloads"'
FAILED = "5..|0"  # response codes; 0: the connection broke before there was an answer
_GOOD = f'response_code!~"{FAILED}"'
_DESTINATION = f'reporter="destination",{_OF}'

# Two exporters may tell of one device: the busier counts. Of two devices with one name (gpu_memory) neither is known.
GPU_DUTY = Query(
    "gpu_duty", "DCGM exporter", "part of the time in which kernels ran, 0..1", ("Hostname", "gpu"),
    f"max by (Hostname, gpu) {_DUTY}", most=1.05,  # a hair above 1 is how it is measured, more is a lie
)  # fmt: skip
GPU_MEMORY = Query(
    "gpu_memory", "DCGM exporter", "MiB", ("Hostname", "gpu"),
    f"max by (Hostname, gpu) {_fresh('DCGM_FI_DEV_FB_USED')} and on (Hostname, gpu)"
    f" (count by (Hostname, gpu) (group by (Hostname, gpu, UUID) {_fresh('DCGM_FI_DEV_FB_USED')}) == 1)",
    most=16_777_216,  # 16 TiB
)  # fmt: skip
GPU_POD = Query(
    "gpu_pod", "DCGM exporter", "pods that have the whole device; the value says nothing", ("Hostname", "gpu", "pod"),
    f"""count by (Hostname, gpu, pod) ({_fresh('DCGM_FI_DEV_FB_USED{pod=~".+-[0-9]+-[0-9]+"}')}"""
    f""" or {_fresh(f'DCGM_FI_DEV_FB_USED{{namespace="{PLACEHOLDERS}",pod=~".+-gpu-[0-9]+"}}')})""", most=1e6,
)  # fmt: skip

POD_DUTY = Query(
    "pod_duty", "DCGM exporter", "part of the time in which kernels ran, 0..1; whole devices only", ("pod",),
    "avg by (pod) (max by (pod, Hostname, gpu) "
    + _DUTY.replace("ACTIVE", f"ACTIVE{{{_POD}}}").replace("UTIL", f"UTIL{{{_POD}}}") + ")", most=1.05,
)  # fmt: skip
POD_SHARE_DUTY = Query(
    "pod_share_duty", "what holds shares to their parts", "part of a shared device's time in which the pod's own "
    "kernels ran or, with our back-end, in which it had the token, 0..1", ("pod",),
    f"max by (pod) {_fresh(f'weft_gpu_share_duty{{{_POD}}}')}"
    # A share that has moved has a series of each GPU: its time is what these have together.
    f" or sum by (pod) (rate(weft_gpu_share_busy_seconds_total{{{_POD}}}[$window]))", most=1.05,
)  # fmt: skip
POD_ON_GPU = Query(
    "pod_on_gpu", "our own back-end", "number of the GPU on which the memory of a notebook on demand is, -1: in host "
    "memory", ("pod",), f"max by (pod) {_fresh(f'weft_gpu_share_on_gpu{{{_POD}}}')}", most=1024, least=-1,
)  # fmt: skip
POD_CPU = Query(
    "pod_cpu", "cAdvisor", "1/1000 cores", ("pod",),
    f"1000 * sum by (pod) (rate(container_cpu_usage_seconds_total{{{_CONTAINER}}}[$long]))", most=10_000_000,
)  # fmt: skip
POD_MEMORY = Query(
    "pod_memory", "cAdvisor", "MiB", ("pod",),
    f"sum by (pod) {_fresh(f'container_memory_working_set_bytes{{{_CONTAINER}}}')} / 1048576", most=1_073_741_824,
)  # fmt: skip
POD_THROTTLED = Query(
    "pod_throttled", "cAdvisor", "part of the periods in which a limit held the pod back, 0..1", ("pod",),
    f"sum by (pod) (rate(container_cpu_cfs_throttled_periods_total{{{_CONTAINER}}}[$long]))"
    f" / sum by (pod) (rate(container_cpu_cfs_periods_total{{{_CONTAINER}}}[$long]))", most=1.05,
)  # fmt: skip

STEP = Query(
    "step", "the program", "number of the last step", ("workload", "attempt"),
    f"max by (workload, attempt) {_fresh(f'weft_training_step{{{_OF}}}')}", most=1e15,
)  # fmt: skip
STEP_SECONDS = Query(
    "step_seconds", "the program", "s", ("workload", "attempt"),
    f"sum by (workload, attempt) (rate(weft_training_step_seconds_total{{{_OF}}}[$window]))"
    f" / sum by (workload, attempt) (rate(weft_training_steps_total{{{_OF}}}[$window]))", most=86_400.0, least=1e-6,
)  # fmt: skip
SAMPLES = Query(
    "samples_per_second", "the program", "1/s", ("workload", "attempt"),
    f"sum by (workload, attempt) (rate(weft_training_samples_total{{{_OF}}}[$window]))", most=1e12,
)  # fmt: skip


def _part_of_step(what: str) -> str:
    return (
        f"sum by (workload, attempt) (rate(weft_training_{what}_seconds_total{{{_OF}}}[$window]))"
        f" / sum by (workload, attempt) (rate(weft_training_step_seconds_total{{{_OF}}}[$window]))"
    )


DATA_WAIT = Query(
    "data_wait_part", "the program", "part of a step, 0..1", ("workload", "attempt"), _part_of_step("data_wait"), 1.0
)
SYNC = Query("sync_part", "the program", "part of a step, 0..1", ("workload", "attempt"), _part_of_step("sync"), 1.0)
GRADIENT_NOISE = Query(
    "gradient_noise", "the program", "samples", ("workload", "attempt"),
    f"avg by (workload, attempt) {_fresh(f'weft_training_gradient_noise_samples{{{_OF}}}')}", most=1e15, least=1e-9,
)  # fmt: skip


def _of_worker(part: str, whole: str) -> str:
    """A part of what a worker's processes report; the rank is the pod's, not what its program says of itself."""
    by = "sum by (workload, attempt, rank)"
    return f"{by} (rate({part}{{{_OF}}}[$window])) / {by} (rate({whole}{{{_OF}}}[$window]))"


_WORKER, _STEP_TIME = ("workload", "attempt", "rank"), "weft_training_step_seconds_total"
WORKER_STEP = Query(
    "worker_step_seconds", "the program", "s", _WORKER, _of_worker(_STEP_TIME, "weft_training_steps_total"),
    most=86_400.0, least=1e-6,
)  # fmt: skip
WORKER_WAIT = Query(
    "worker_data_wait_part", "the program", "part of a step, 0..1", _WORKER,
    _of_worker("weft_training_data_wait_seconds_total", _STEP_TIME), 1.0,
)  # fmt: skip
WORKER_SYNC = Query(
    "worker_sync_part", "the program", "part of a step, 0..1", _WORKER,
    _of_worker("weft_training_sync_seconds_total", _STEP_TIME), 1.0,
)  # fmt: skip
POD_IO = Query(
    "pod_io", "cAdvisor (pressure, from Kubernetes 1.34 on)", "part of the time in which something waited for IO, 0..1",
    ("pod",), f"max by (pod) (rate(container_pressure_io_waiting_seconds_total{{{_CONTAINER}}}[$long]))", most=1.05,
)  # fmt: skip
_NO_DISK, _NO_LINE = "loop.*|ram.*|zram.*", "lo|veth.*|cali.*|cilium.*|lxc.*|docker.*|br-.*|cni.*|flannel.*|tunl.*"
NODE_DISK = Query(
    "node_disk", "node exporter", "part of the time in which the node's busiest disk was busy, 0..1", ("node",),
    f"""max by (node) (rate(node_disk_io_time_seconds_total{{device!~"{_NO_DISK}"}}[$window]))""", most=1.05,
)  # fmt: skip
NODE_LINE = Query(
    "node_line", "node exporter", "part of the rate of the node's busiest interface that is sent, 0..1", ("node",),
    "max by (node) (max by (node, device)"
    f""" (rate(node_network_transmit_bytes_total{{device!~"{_NO_LINE}"}}[$window]))"""
    " / max by (node, device) (node_network_speed_bytes > 0)"
    " or max by (node, device, port) (rate(node_infiniband_port_data_transmitted_bytes_total[$window]))"
    " / max by (node, device, port) (node_infiniband_rate_bytes_per_second > 0))", most=1.05,
)  # fmt: skip

CHECKPOINT = Query(
    "checkpoint", "the program", "Unix time, s", ("workload", "attempt"),
    # The oldest of the ranks that say something: a checkpoint in parts is safe when all of them are.
    f"min by (workload, attempt) {_fresh(f'weft_training_last_checkpoint_timestamp_seconds{{{_OF}}}')}",
    most=1e11, least=1.0,  # 0: none yet; a thousand times as much as a time: milliseconds
)  # fmt: skip
CHECKPOINT_PART = Query(
    "checkpoint_part", "the program", "part of the work, 0..1", ("workload", "attempt"),
    f"min by (workload, attempt) {_fresh(f'weft_training_last_checkpoint_part{{{_OF}}}')}", most=1.0,
)  # fmt: skip

REQUESTS = Query(
    "requests", "Istio", "requests in the window", ("workload", "response_code"),
    f"sum by (workload, response_code) (increase(istio_requests_total{{{_DESTINATION}}}[$window]))", most=1e12,
)  # fmt: skip
GOOD_WITHIN = Query(
    "good_within", "Istio", "requests in the window answered without an error within le milliseconds",
    ("workload", "le"),
    "sum by (workload, le)"
    f" (increase(istio_request_duration_milliseconds_bucket{{{_DESTINATION},{_GOOD}}}[$window]))", most=1e12,
)  # fmt: skip
QUEUE = Query(
    "queue", "the program (weft_service_queue), our activator, vLLM or Triton", "requests that wait", ("workload",),
    "sum by (workload) ("
    + " or ".join(
        _fresh(f"{series}{{{_OF}}}")
        for series in (
            "weft_service_queue", "weft_gateway_waiting", "vllm:num_requests_waiting",
            "nv_inference_pending_request_count",
        )
    )
    + ")", most=1e9,
)  # fmt: skip


def _first_of(by: str, told: Sequence[str]) -> str:
    """The first of these vectors that is told of a workload, each summed by labels."""
    each = [f"sum by ({by}) ({one})" for one in told]
    before = [each[0], *(f"({' or '.join(each[:i])})" for i in range(2, len(each)))]
    rest = [f"({one} unless on (workload) {others})" for one, others in zip(each[1:], before, strict=True)]
    return " or ".join([each[0], *rest])


def _increase(series: str, window: str, of: str = _OF) -> str:
    return f"increase({series}{{{of}}}[{window}])"


def _served(series: str) -> str:
    """Increases of a series of service times, by the first of those who tell it."""
    names = ("weft_gateway_service_seconds", "vllm:request_inference_time_seconds")
    by = "workload, le" if series == "bucket" else "workload"
    return _first_of(by, [_increase(f"{name}_{series}", "$short") for name in names])


_ARRIVALS = (
    ("weft_gateway_arrivals_total", _OF),
    ("istio_requests_total", _DESTINATION),
    ("vllm:request_success_total", _OF),
)
ARRIVALS = Query(
    "arrivals", "our activator, else Istio, else vLLM", "requests in the last scrapes", ("workload",),
    " or ".join(f"sum by (workload) (increase({series}{{{of}}}[$short]))" for series, of in _ARRIVALS), most=1e12,
)  # fmt: skip


def _unsteady(series: str, of: str) -> str:
    """Series that began anew within the window, that came, or that went.

    The window is longer than what arrivals are counted over: a reset is between two samples, of which the first may
    be older than that, and the increase then misses what came between them.
    """
    one = f"{series}{{{of}}}"
    return f"resets({one}[$window]) > 0 or ({one} unless {one} offset $window) or ({one} offset $window unless {one})"


UNSTEADY = Query(
    "unsteady", "our activator, Istio, vLLM",
    "counters of requests that began anew, came or went in the window: arrivals may be more", ("workload",),
    " or ".join(f"count by (workload) ({_unsteady(series, of)})" for series, of in _ARRIVALS), most=1e6,
)  # fmt: skip
SERVED_WITHIN = Query(
    "served_within", "our activator, else vLLM", "requests answered within le seconds of being taken by a replica",
    ("workload", "le"), _served("bucket"), most=1e12,
)  # fmt: skip
SERVED_SECONDS = Query(
    "served_seconds", "our activator, else vLLM, else Istio", "s that answered requests were with a replica, summed",
    ("workload",),
    f"{_served('sum')} or 0.001 * sum by (workload)"
    f" (increase(istio_request_duration_milliseconds_sum{{{_DESTINATION},{_GOOD}}}[$short]))", most=1e12,
)  # fmt: skip


_TTFT = "vllm:time_to_first_token_seconds_bucket"
_CODES = _increase("weft_gateway_requests_total", "$window", f'{_OF},code!="499"')
FIRST_WITHIN = Query(
    "first_within", "our activator (to the first byte of the answer's body), else vLLM",
    "requests in the window whose first token was there within le seconds, their wait included", ("workload", "le"),
    _first_of(
        "workload, le", (_increase("weft_gateway_first_byte_seconds_bucket", "$window"), _increase(_TTFT, "$window"))
    ), most=1e12,
)  # fmt: skip
FIRST_REQUESTS = Query(
    "first_requests", "our activator, else Istio",
    "requests in the window to a service that promises a first token, without those whose client left",
    ("workload", "response_code"),
    _first_of(
        "workload, response_code",
        (
            f'label_join({_CODES}, "response_code", "", "code")',
            _increase("istio_requests_total", "$window", _DESTINATION),
        ),
    ), most=1e12,
)  # fmt: skip
FIRST_SERVED = Query(
    "first_served", "our activator, else vLLM (its prefill, else with the wait in it)",
    "requests whose first token was there within le seconds of being taken by a replica", ("workload", "le"),
    _first_of(
        "workload, le",
        (
            _increase("weft_gateway_first_byte_service_seconds_bucket", "$short"),
            _increase("vllm:request_prefill_time_seconds_bucket", "$short"), _increase(_TTFT, "$short"),
        ),
    ), most=1e12,
)  # fmt: skip


def _running(how: str) -> str:
    each = (_fresh(f"{series}{{{_OF}}}") for series in (f"weft_gateway_{how}", "vllm:num_requests_running"))
    return " or ".join(f"{'max' if how == 'widest' else 'sum'} by (workload) {one}" for one in each)


RUNNING = Query(
    "running", "our activator, else vLLM", "requests that replicas work on", ("workload",), _running("running"),
    most=1e9,
)  # fmt: skip
WIDEST = Query(
    "widest", "our activator, else vLLM", "requests that the busiest replica works on", ("workload",),
    _running("widest"), most=1e6,
)  # fmt: skip

REVISION_OUTCOMES = Query(
    "revision_outcomes", "our activator", "requests since they are split, by what became of them",
    ("workload", "revision", "outcome"),
    f"sum by (workload, revision, outcome) (increase(weft_gateway_revision_requests_total{{{_OF}}}[$window]))",
    most=1e12,
)  # fmt: skip
REVISION_REQUESTS = Query(
    "revision_requests", "Istio", "requests since they are split",
    ("workload", "destination_canonical_revision", "response_code"),
    "sum by (workload, destination_canonical_revision, response_code)"
    f" (increase(istio_requests_total{{{_DESTINATION}}}[$window]))", most=1e12,
)  # fmt: skip
REVISION_WITHIN = Query(
    "revision_within", "Istio", "requests since they are split, answered without an error within le milliseconds",
    ("workload", "destination_canonical_revision", "le"),
    "sum by (workload, destination_canonical_revision, le)"
    f" (increase(istio_request_duration_milliseconds_bucket{{{_DESTINATION},{_GOOD}}}[$window]))", most=1e12,
)  # fmt: skip

TABLE = (
    GPU_DUTY, GPU_MEMORY, GPU_POD, POD_DUTY, POD_SHARE_DUTY, POD_CPU, POD_MEMORY, POD_THROTTLED,
    STEP, STEP_SECONDS, SAMPLES, DATA_WAIT, SYNC, GRADIENT_NOISE, WORKER_STEP, WORKER_WAIT, WORKER_SYNC, POD_IO,
    NODE_DISK, NODE_LINE,
    CHECKPOINT, CHECKPOINT_PART,
    REQUESTS, GOOD_WITHIN, QUEUE, ARRIVALS, UNSTEADY, SERVED_WITHIN, SERVED_SECONDS, RUNNING, WIDEST,
    FIRST_WITHIN, FIRST_REQUESTS, FIRST_SERVED,
    REVISION_OUTCOMES, REVISION_REQUESTS, REVISION_WITHIN,
)  # fmt: skip


def text(query: Query, workloads: Iterable[str] = (), window_seconds: float = WINDOW_SECONDS) -> str:
    """The PromQL of a query for these workloads. Ids that are none of ours raise ValueError."""
    ids = tuple(workloads)
    for uid in ids:
        if not is_id(uid):
            raise ValueError(f"{uid!r} is no id of a workload")
    window = _milliseconds(window_seconds)
    return Template(query.text).substitute(
        workloads="|".join(ids),
        window=window,
        short=_milliseconds(SHORT * window_seconds),
        long=_milliseconds(LONG * window_seconds),
        stale=f"{window_seconds:g}",
    )


def is_id(uid: str) -> bool:
    """Whether this may stand in a query."""
    return _ID.fullmatch(uid) is not None


def chunks(workloads: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Ids that may be asked for, as many at a time as one query names."""
    ids = sorted({uid for uid in workloads if is_id(uid)})
    for first in range(0, len(ids), CHUNK):
        yield tuple(ids[first : first + CHUNK])


def _milliseconds(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"
