"""What was measured of training models: step times by placement and batch, and progress by epoch.

A placement is a tuple of GPUs per node. Times are in s, batches in examples, progress in steps of the initial batch.
The tables are those of Pollux and Sia (README of the shared data).
"""

import csv
import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.interpolate import LinearNDInterpolator

from controlplane.benchmarks.harness.figure import BenchmarkError

Floats = npt.NDArray[np.float64]
Placement = tuple[int, ...]

# Sia's simulator divides its speeds by these, which its authors fitted to their real runs.
SLOWDOWN = {"cifar10": 1.8, "imagenet": 1.2, "yolov3": 1.2, "bert": 1.2, "deepspeech2": 1.2, "ncf": 1.5}
MOST_NODES = 16  # of the tables: larger placements are read as if they had so many


@dataclass(frozen=True, slots=True)
class Convergence:
    """batches: ascending; progress: at the end of each epoch; squared, variance: of gradients, [batches, epochs]."""

    batches: tuple[int, ...]
    progress: Floats
    squared: Floats
    variance: Floats
    epochs: int

    def gradient(self, batch: int, epoch: int) -> tuple[float, float]:
        """Squared norm and variance of the gradient with this batch in this epoch, interpolated between batches."""
        return (
            float(np.interp(batch, self.batches, self.squared[:, epoch])),
            float(np.interp(batch, self.batches, self.variance[:, epoch])),
        )


@dataclass
class Application:
    """A model on one type of GPU. measured: placement -> batches of a GPU, and [batches, (step, sync)] in s."""

    model: str
    convergence: Convergence
    restart_seconds: float
    measured: Mapping[Placement, tuple[Floats, Floats]]
    points: Floats  # [rows, (nodes, GPUs, batch of a GPU)]: what is interpolated between
    times: Floats  # [rows, (step, sync)]
    scaled: Floats  # [rows, (nodes, GPUs, batch of a GPU)]: the larger placements, which are not in `measured`
    longest_batch: int  # of a GPU: what a fitted model is asked for at most
    known: dict[tuple[Placement, int], tuple[float, float]] = field(default_factory=dict)
    between: LinearNDInterpolator | None = None

    @property
    def initial_batch(self) -> int:
        """The least batch of all GPUs, in examples."""
        return self.convergence.batches[0]

    @property
    def most_batch(self) -> int:
        """The largest batch of all GPUs, in examples."""
        return self.convergence.batches[-1]

    @functools.cached_property
    def least_local(self) -> int:
        """The least batch of a GPU that was measured."""
        return int(min(batches.min() for batches, _ in self.measured.values()))

    def most_local(self, placement: Placement) -> int:
        """The largest batch of a GPU that was measured with this placement, or with a larger one."""
        if placement in self.measured:
            return int(self.measured[placement][0].max())
        large = (self.scaled[:, 0] >= len(placement)) & (self.scaled[:, 1] >= sum(placement))
        return int(self.scaled[large, 2].max())

    def most_local_of(self, gpus: int) -> int | None:
        """The largest batch of a GPU that was measured with so many GPUs, however placed."""
        found = [batches.max() for placement, (batches, _) in self.measured.items() if sum(placement) == gpus]
        return int(max(found)) if found else None

    def times_of(self, placement: Placement, local: int) -> tuple[float, float]:
        """Seconds of a step and of its exchange of gradients."""
        key = (placement, local)
        if key not in self.known:
            self.known[key] = self._times_of(placement, local)
        return self.known[key]

    def is_measured(self, placement: Placement, local: int) -> bool:
        """Whether this placement was measured with this batch of a GPU; else `times_of` interpolates."""
        return placement in self.measured and local in self.measured[placement][0]

    @functools.cached_property
    def reference_rate(self) -> float:
        """Examples per s of one GPU, without accumulation."""
        batches, times = self.measured[(1,)]
        return float(batches.max() / times[:, 0].max())

    def _times_of(self, placement: Placement, local: int) -> tuple[float, float]:
        if placement in self.measured:
            batches, times = self.measured[placement]
            if not batches.min() <= local <= batches.max():
                raise BenchmarkError(f"{self.model}: no step time of {placement} with a batch of {local} a GPU")
            return float(np.interp(local, batches, times[:, 0])), float(np.interp(local, batches, times[:, 1]))
        if self.between is None:
            self.between = LinearNDInterpolator(self.points, self.times)
        step, sync = self.between([min(len(placement), MOST_NODES), sum(placement), local])[0]
        if np.isnan(step):
            raise BenchmarkError(f"{self.model}: no step time near {placement} with a batch of {local} a GPU")
        return float(step), float(sync)


@dataclass(frozen=True, slots=True)
class Submitted:
    """A row of a workload: batch in examples, at in s."""

    name: str
    model: str
    at: float
    gpus: int
    batch: int


def applications(data: Path, gpu_types: tuple[str, ...]) -> dict[str, dict[str, Application]]:
    """By model and type of GPU. Raises BenchmarkError where a file is missing."""
    sia, pollux = data / "training" / "sia", data / "training" / "pollux"
    constants = json.loads(_text(pollux / "applications.json"))
    converged = _converged(pollux / "convergence.csv", constants["max_epochs"])
    placed = list(_rows(sia / "profile_placements.csv"))
    scaled = list(_rows(sia / "profile_scalability.csv"))
    override = constants["max_local_bsz_override"]
    return {
        model: {
            gpu_type: _application(
                model,
                convergence,
                float(constants["checkpoint_restart_delay_s"][model]),
                [row for row in placed if (row["model"], row["gpu_cluster"]) == (model, gpu_type)],
                [row for row in scaled if (row["model"], row["gpu_cluster"]) == (model, gpu_type)],
                override.get(f"sia:{model}@{gpu_type}"),
            )
            for gpu_type in gpu_types
        }
        for model, convergence in converged.items()
    }


def t4_applications(data: Path) -> dict[str, Application]:
    """By model, on nodes with 4 T4, as Pollux' authors measured them. Raises BenchmarkError where a file is missing."""
    pollux = data / "training" / "pollux"
    constants = json.loads(_text(pollux / "applications.json"))
    converged = _converged(pollux / "convergence.csv", constants["max_epochs"])
    placed, scaled = list(_rows(pollux / "profile_placements.csv")), list(_rows(pollux / "profile_scalability.csv"))
    return {
        model: _application(
            model,
            convergence,
            float(constants["checkpoint_restart_delay_s"][model]),
            [row for row in placed if row["model"] == model],
            [row for row in scaled if row["model"] == model],
            constants["max_local_bsz_override"].get(model),
        )
        for model, convergence in converged.items()
    }


def pollux_workload(data: Path, load: str, number: int) -> tuple[Submitted, ...]:
    """The jobs of one of Pollux' workloads, in the order of the file."""
    rows = _rows(data / "training" / "pollux" / "workloads_1-4.csv")
    return tuple(_submitted(row) for row in rows if (row["load"], int(row["workload"])) == (load, number))


def workload(data: Path, family: str, number: int) -> tuple[Submitted, ...]:
    """The jobs of one of Sia's workloads, in the order of the file."""
    rows = _rows(data / "training" / "sia" / "workloads.csv")
    return tuple(_submitted(row) for row in rows if (row["family"], int(row["workload"])) == (family, number))


def _submitted(row: Mapping[str, str]) -> Submitted:
    return Submitted(
        row["name"],
        row["application"],
        float(row["submit_time_s"]),
        int(row["num_replicas"]),
        int(row["batch_size"]),
    )


def _application(
    model: str,
    convergence: Convergence,
    restart_seconds: float,
    placed: list[dict[str, str]],
    scaled: list[dict[str, str]],
    longest: int | None,
) -> Application:
    by_placement: dict[Placement, list[dict[str, str]]] = {}
    for row in placed:
        by_placement.setdefault(tuple(int(digit) for digit in row["placement"]), []).append(row)
    measured = {placement: _sorted(rows) for placement, rows in by_placement.items()}
    same: dict[tuple[int, int, int], list[tuple[float, float]]] = {}
    for row in placed:
        same.setdefault(_point(row), []).append((float(row["step_time_s"]), float(row["sync_time_s"])))
    # In this order: between points of a grid it decides which of them are interpolated.
    points = [*sorted(same), *(_point(row) for row in scaled)]
    times = [tuple(np.mean(same[point], axis=0)) for point in sorted(same)]
    times += [(float(row["step_time_s"]), float(row["sync_time_s"])) for row in scaled]
    most = longest or int(max(batches.max() for batches, _ in measured.values()))
    return Application(
        model, convergence, restart_seconds, measured,
        np.array(points, float), np.array(times, float), np.array([_point(row) for row in scaled], float), most,
    )  # fmt: skip


def _point(row: Mapping[str, str]) -> tuple[int, int, int]:
    return int(row["num_nodes"]), int(row["num_replicas"]), int(row["local_bsz"])


def _sorted(rows: list[dict[str, str]]) -> tuple[Floats, Floats]:
    table = sorted((float(r["local_bsz"]), float(r["step_time_s"]), float(r["sync_time_s"])) for r in rows)
    array = np.array(table)
    return array[:, 0], array[:, 1:]


def _converged(path: Path, epochs: Mapping[str, int]) -> dict[str, Convergence]:
    rows: dict[str, dict[int, list[dict[str, str]]]] = {}
    for row in _rows(path):
        rows.setdefault(row["model"], {}).setdefault(int(row["batch_size"]), []).append(row)
    found = {}
    for model, by_batch in rows.items():
        last = epochs[model]
        batches = tuple(sorted(by_batch))
        progress, squared, variance = (
            np.array([[float(row[name]) for row in by_batch[batch][:last]] for batch in batches])
            for name in ("progress", "grad_sqr", "grad_var")
        )
        found[model] = Convergence(batches, progress.min(axis=0), squared, variance, last)
    return found


def _text(path: Path) -> str:
    if not path.exists():
        raise BenchmarkError(f"{path} is missing. Set WEFT_DATA to the folder with the shared traces.")
    return path.read_text()


def _rows(path: Path) -> Iterator[dict[str, str]]:
    yield from csv.DictReader(_text(path).splitlines())
