"""How a Philly-like trace (submit_s, duration_s, num_gpus, vc) becomes a world. Each rule is ours where it says so.

- cluster: 24 nodes of 8 V100 (32 GiB), 64 cores, 512 GiB; by our rule 6 nodes a rack, 2 racks a zone, NVLink within
  a node.
- team: the virtual cluster, `vc-` + vc. Nominal quota (ours): the GPUs divided by the virtual clusters' parts of the
  trace's GPU time, at least about one GPU each; all may borrow without limit.
- gang: num_gpus 0 or 1 is one worker; 2..8 are as many workers of one GPU, on one node; more are workers of 8 GPUs
  (12 = 2 x 6), in one rack if possible.
- kind (ours): every twelfth 1-GPU job of 10 minutes or more, by a hash of its row, is a notebook; the rest is training.
- priority (ours, by a hash of the row): 20 % low, 65 % normal, 15 % high.
- running time: duration_s, known to the simulated cluster only. What the user expects is that x 2^(3u - 1), u in 0..1
  by a hash of the row: between half and four times the truth; every tenth user says nothing.
- checkpoints (ours): a twentieth of the expected time, within 5..30 minutes; without an expectation every 10 minutes.
- CPU and memory (ours): 6 cores and 48 GiB a GPU, 4 cores and 16 GiB without one.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from controlplane.simulator.worlds.arrivals import Item, draw
from controlplane.simulator.worlds.presets import Document, Pool, PresetError, quotas_by_weight
from controlplane.simulator.worlds.traces import PhillyRow
from scheduler.model.snapshot import Node
from scheduler.model.team import Quota, Team

NODES, GPUS = 24, 8
NODES_PER_RACK, RACKS_PER_ZONE = 6, 2
POOL = Pool("v100", "V100", "2.48")
IMAGE = "registry.example/philly"
NOTEBOOK_PART, NOTEBOOK_SECONDS = 1 / 12, 600.0
SAYS_NOTHING = 0.1
HOUR = 3600.0


def nodes() -> tuple[Node, ...]:
    """The cluster of the trace."""
    return tuple(
        Node(
            name=f"v100-{i:02}",
            pool=POOL.name,
            model=POOL.gpu_model,
            gpus=GPUS,
            gpu_memory=32 * 1024,
            cpu_milli=64_000,
            memory=512 * 1024,
            rack=f"rack-{i // NODES_PER_RACK}",
            zone=f"zone-{i // NODES_PER_RACK // RACKS_PER_ZONE}",
            nvlink=GPUS,
        )
        for i in range(NODES)
    )


def teams(rows: Sequence[PhillyRow]) -> tuple[Team, ...]:
    """One team a virtual cluster, by name."""
    return tuple(Team(name) for name in sorted(_weights(rows)))


def quotas(rows: Sequence[PhillyRow]) -> tuple[Quota, ...]:
    """What each virtual cluster owns."""
    return quotas_by_weight(nodes(), _weights(rows))


def items(rows: Sequence[PhillyRow]) -> list[Item]:
    """The rows as submissions, in order of time. Raises PresetError for a row that the cluster could never hold."""
    most = NODES * GPUS
    for row in rows:
        if row.gpus > most:
            raise PresetError(f"Row {row.index + 1} has num_gpus {row.gpus}; the cluster has {most}. Lower it.")
    ordered = sorted(rows, key=lambda row: (row.at, row.index))
    return [Item(row.at, row.seconds, row.gpus, f"job-{row.index:05}", partial(document, row)) for row in ordered]


def document(row: PhillyRow, name: str, seconds: float) -> Document:
    """The job file of one row, for the rest of its running time."""
    workers, gpus = gang(row.gpus)
    is_notebook = is_a_notebook(row)
    file: dict[str, object] = {
        "type": "notebook" if is_notebook else "training",
        "name": name,
        "team": team(row.vc),
        "priority_class": priority(row.index),
        "image": f"{IMAGE}/{'notebook' if is_notebook else 'train'}:1",
        "resources": resources(gpus),
        "simulated": {"duration": float(seconds)},
    }
    if not is_notebook:
        file |= _training(row, seconds, workers)
    return file


def _training(row: PhillyRow, seconds: float, workers: int) -> dict[str, object]:
    file: dict[str, object] = {}
    expected = expected_seconds(row.index, seconds)
    interval = 600.0
    if expected is not None:
        file["expected_duration"] = f"{round(expected)}s"
        interval = min(max(expected / 20, 300.0), 1800.0)
    file["checkpoint"] = {"interval": f"{round(interval)}s", "grace": "60s"}
    if workers > 1:
        file["workers"] = {"count": workers, "min": workers, "max": workers}
        file["topology"] = {"require": "node"} if row.gpus <= GPUS else {"prefer": "rack"}
    return file


def team(vc: str) -> str:
    """The team's name: lower-case letters, digits and dashes of the virtual cluster's."""
    kept = "".join(c if c.isascii() and c.isalnum() else "-" for c in vc.lower()).strip("-")
    return f"vc-{kept}"[:40].rstrip("-")


def gang(gpus: int) -> tuple[int, int]:
    """How many workers, and GPUs of each."""
    if gpus <= 1:
        return 1, gpus
    if gpus <= GPUS:
        return gpus, 1
    workers = -(-gpus // GPUS)
    return workers, -(-gpus // workers)


def priority(index: int) -> str:
    """The priority class of a row."""
    place = draw(index, "priority")
    if place < 0.2:
        return "low"
    return "normal" if place < 0.85 else "high"


def is_a_notebook(row: PhillyRow) -> bool:
    """Whether a row becomes a notebook."""
    return row.gpus == 1 and row.seconds >= NOTEBOOK_SECONDS and draw(row.index, "kind") < NOTEBOOK_PART


def expected_seconds(index: int, seconds: float) -> float | None:
    """What the user believes; None if the user says nothing."""
    if draw(index, "says") < SAYS_NOTHING:
        return None
    return max(60.0, seconds * float(2.0 ** (3 * draw(index, "belief") - 1)))


def resources(gpus: int) -> dict[str, object]:
    """What one worker asks."""
    if gpus == 0:
        return {"cpu": 4, "memory": "16Gi"}
    return {"gpus": gpus, "cpu": 6 * gpus, "memory": f"{48 * gpus}Gi"}


def _weights(rows: Sequence[PhillyRow]) -> Mapping[str, float]:
    weights: dict[str, float] = {}
    for row in rows:
        weights[team(row.vc)] = weights.get(team(row.vc), 0.0) + row.gpus * row.seconds
    one_gpu = max(sum(weights.values()), 1.0) / (NODES * GPUS)
    return {name: max(weight, one_gpu) for name, weight in weights.items()}
