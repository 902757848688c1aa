"""How an openb-like trace (Alibaba's pods, with GPU shares) becomes a world. Each rule is ours where it says so.

- cluster: the machines of openb's node list as they are (for a file of one's own without that list: 64 machines of
  8 GPUs, the models that its gpu_spec column names in equal parts, else T4). One node pool a GPU model. By our rule 16
  machines in the list's order share a rack, 8 racks a zone; 8-GPU machines have NVLink.
- team (openb has none; ours): one of six, by a hash of what is asked (cpu, memory, gpu_milli, num_gpu, gpu_spec):
  recurring pods of one shape are the work of one team. Nominal quota: each pool's GPUs, by the teams' parts of the GPU
  time; all may borrow.
- gang (openb has none; ours): BE and LS pods of one shape and qos that come within 6 hours of the first of them are the
  workers (or replicas) of one job, up to 32; it runs as long as the longest of them. A training gang starts whole.
- kind and priority by qos: BE is training at low priority; LS on a share of a GPU is inference at serving priority,
  from half of its replicas up to all; LS on whole GPUs, or on none, is training at high priority; Burstable and
  Guaranteed are notebooks at normal priority, or training on more than one GPU.
- shares: gpu_milli below 1000 is the guarantee, the limit is the whole GPU (a service: what it guarantees), memory is
  that part of 15 GiB, which fits on the smallest device.
- running time: deletion - creation, at most one day: the 81 longer pods of the shared file are 91 % of its GPU time and
  would fill the cluster with copies of themselves. A service ends then by its max_duration.
- times: the first hundredth of the pods spreads over three quarters of the trace and is left out.
- expected time and checkpoints: as for Philly (see `philly.py`).
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from controlplane.simulator.worlds import philly
from controlplane.simulator.worlds.arrivals import Item
from controlplane.simulator.worlds.presets import Document, Pool, PresetError, quotas_by_weight
from controlplane.simulator.worlds.traces import NodeRow, OpenbRow
from gpushare.gpu import WHOLE
from scheduler.model.snapshot import Node
from scheduler.model.team import Quota, Team

NODES_PER_RACK, RACKS_PER_ZONE = 16, 8
TEAMS = ("ads", "feed", "maps", "pay", "search", "video")
GANG_SECONDS, MAX_WORKERS = 6 * 3600.0, 32
DAY = 86_400.0
SHARE_MEMORY = 15 * 1024  # MiB of a whole device: what a 16 GB device has for its tenants
QUIET_PART = 0.01
IMAGE = "registry.example/openb"
# GPU memory in GiB and our price per GPU hour; G2 and G3 are Alibaba's names for models it does not disclose.
DEVICES: Mapping[str, tuple[int, str]] = {
    "T4": (16, "0.35"),
    "P100": (16, "1.46"),
    "V100M16": (16, "2.48"),
    "V100M32": (32, "2.98"),
    "A10": (24, "1.00"),
    "G2": (32, "1.60"),
    "G3": (80, "3.20"),
}
UNKNOWN_DEVICE = (16, "1.00")


@dataclass(frozen=True, slots=True)
class Job:
    """The pods that are one submission: `row` is the first of them."""

    row: OpenbRow
    workers: int
    seconds: float


def nodes(machines: Sequence[NodeRow]) -> tuple[Node, ...]:
    """The machines with a place in the data centre."""
    return tuple(
        Node(
            name=machine.name,
            pool=machine.model.lower(),
            model=machine.model,
            gpus=machine.gpus,
            gpu_memory=DEVICES.get(machine.model, UNKNOWN_DEVICE)[0] * 1024,
            cpu_milli=machine.cpu_milli,
            memory=machine.memory,
            rack=f"rack-{i // NODES_PER_RACK:02}",
            zone=f"zone-{i // NODES_PER_RACK // RACKS_PER_ZONE}",
            nvlink=8 if machine.gpus == 8 else 0,
        )
        for i, machine in enumerate(machines)
    )


def own_machines(rows: Sequence[OpenbRow]) -> list[NodeRow]:
    """The cluster for a file that comes without a node list."""
    models = sorted({model for row in rows for model in row.models}) or ["T4"]
    return [NodeRow(f"node-{i:02}", 96_000, 768 * 1024, 8, models[i % len(models)]) for i in range(64)]


def pools(cluster: Sequence[Node]) -> tuple[Pool, ...]:
    """One pool a GPU model."""
    models = sorted({node.model for node in cluster})
    return tuple(Pool(model.lower(), model, DEVICES.get(model, UNKNOWN_DEVICE)[1]) for model in models)


def teams() -> tuple[Team, ...]:
    """The six teams."""
    return tuple(Team(name) for name in TEAMS)


def quotas(cluster: tuple[Node, ...], jobs: Sequence[Job]) -> tuple[Quota, ...]:
    """What each team owns in each pool."""
    weights = dict.fromkeys(TEAMS, 1.0)
    for job in jobs:
        weights[team(job.row)] += _gpus(job) * job.seconds
    return quotas_by_weight(cluster, weights)


def jobs(rows: Sequence[OpenbRow]) -> list[Job]:
    """The pods after the quiet beginning, gathered into jobs, in order of time."""
    ordered = sorted(rows, key=lambda row: (row.at, row.index))
    found: list[Job] = []
    latest: dict[tuple[object, ...], int] = {}  # shape -> its last job's place in `found`
    for row in ordered[int(len(ordered) * QUIET_PART) :]:
        seconds, shape = min(row.seconds, DAY), (_shape(row), row.qos)
        place = latest.get(shape)
        if place is not None and _joins(found[place], row):
            job = found[place]
            found[place] = Job(job.row, job.workers + 1, max(job.seconds, seconds))
        else:
            latest[shape] = len(found)
            found.append(Job(row, 1, seconds))
    return found


def items(cluster: Sequence[Node], gathered: Sequence[Job]) -> list[Item]:
    """The jobs as submissions. Raises PresetError for a pod that no machine could ever hold."""
    most: dict[str, int] = {}
    for node in cluster:
        most[node.model] = max(most.get(node.model, 0), node.gpus)
    for job in gathered:
        best = max((most.get(model, 0) for model in job.row.models or most), default=0)
        if job.row.gpus > best:
            allowed = "|".join(job.row.models) or "any model"
            raise PresetError(
                f"Row {job.row.index + 1} has num_gpu {job.row.gpus} on {allowed}; the largest such node has {best}. "
                "Lower num_gpu or mend gpu_spec."
            )
    return [
        Item(job.row.at, job.seconds, _gpus(job), f"pod-{job.row.index:05}", partial(document, job)) for job in gathered
    ]


def document(job: Job, name: str, seconds: float) -> Document:
    """The job file of one job, for the rest of its running time."""
    row = job.row
    kind, priority = kind_and_priority(row)
    file: dict[str, object] = {
        "type": kind,
        "name": name,
        "team": team(row),
        "priority_class": priority,
        "image": f"{IMAGE}/{kind}:1",
        "resources": _resources(row, kind),
        "simulated": {} if kind == "inference" else {"duration": float(seconds)},
    }
    if kind == "training":
        file |= _training(job, seconds)
    if kind == "inference":
        file |= {
            "port": 8000,
            "replicas": {"min": -(-job.workers // 2), "max": job.workers},
            "objective": {"p95_latency": "300ms", "availability": 99.5, "window": "1d"},
            "max_duration": f"{round(seconds)}s",
        }
    return file


def _training(job: Job, seconds: float) -> dict[str, object]:
    file: dict[str, object] = {"checkpoint": {"interval": "10m", "grace": "60s"}}
    expected = philly.expected_seconds(job.row.index, seconds)
    if expected is not None:
        file["expected_duration"] = f"{round(expected)}s"
    if job.workers > 1:
        file["workers"] = {"count": job.workers, "min": job.workers, "max": job.workers}
    return file


def kind_and_priority(row: OpenbRow) -> tuple[str, str]:
    """What a pod of this quality of service becomes."""
    if row.qos == "BE":
        return "training", "low"
    if row.qos == "LS":
        return ("inference", "serving") if _is_share(row) else ("training", "high")
    return ("notebook" if row.gpus <= 1 else "training"), "normal"


def team(row: OpenbRow) -> str:
    """Whose work a pod is."""
    return TEAMS[zlib.crc32(repr(_shape(row)).encode()) % len(TEAMS)]


def _resources(row: OpenbRow, kind: str) -> dict[str, object]:
    asked: dict[str, object] = {"cpu": f"{max(row.cpu_milli, 100)}m", "memory": f"{max(row.memory, 64)}Mi"}
    if _is_share(row):
        guarantee = row.milli / WHOLE
        memory = max(256, SHARE_MEMORY * row.milli // WHOLE)
        limit = guarantee if kind == "inference" else 1.0
        asked["gpu_share"] = {"guarantee": guarantee, "limit": limit, "memory": f"{memory}Mi"}
    elif row.gpus:
        asked["gpus"] = row.gpus
    if row.models:
        asked["gpu_model"] = list(row.models)
    return asked


def _joins(job: Job, row: OpenbRow) -> bool:
    near = row.at - job.row.at <= GANG_SECONDS and job.workers < MAX_WORKERS
    return near and row.qos in ("BE", "LS")


def _is_share(row: OpenbRow) -> bool:
    return row.gpus == 1 and 0 < row.milli < WHOLE


def _gpus(job: Job) -> float:
    row = job.row
    return job.workers * (row.milli / WHOLE if _is_share(row) else row.gpus)


def _shape(row: OpenbRow) -> tuple[object, ...]:
    return row.cpu_milli, row.memory, row.milli, row.gpus, row.models
