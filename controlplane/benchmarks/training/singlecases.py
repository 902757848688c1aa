"""Single trainings whose step times with other allocations are known: measured, or with assumed coefficients.

Imports nothing of what re-allocates. Sources:

- Gavel's table of trainings alone: steps/s of all workers on one server and spread, by GPU model and number of GPUs; no
  exchange time was measured. Some rows are faster than so many GPUs alone: all are capped at that. What is not on one
  server is spread, as nothing between was measured.
- The T4 tables of Pollux: step and exchange times by GPUs on each node, and batch of a GPU.
- Parameter servers with assumed coefficients, after the form of Optimus (EuroSys'18).
- CPU for the input: how many times as fast models run with all the CPU that they can use as with 3 cores a GPU, as
  Synergy (OSDI'22) measured; that the input's time is inverse to the cores is assumed.
"""

import csv
import gzip
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from controlplane.benchmarks.harness.figure import BenchmarkError
from controlplane.benchmarks.training.planted import Floats, correlated
from controlplane.benchmarks.training.tables import Application, Placement, applications

GAVEL = "training/gavel/throughput_isolated.csv"
GAVEL_TRACE = "training/gavel/philly_vc_traces.csv.gz"
POLLUX_TRACE = "training/pollux/workloads_1-4.csv"
COUNTS = (2, 4, 8)  # GPUs
NOISE = 0.10
T4 = "aws"  # their name in the tables
ASSUMED_RESTART = 120.0  # s, where none was measured
# Parts of a computation of 1 s: workers over servers, each worker, each server.
SERVERS = {"light": (0.05, 0.01, 0.01), "mid": (0.4, 0.01, 0.01), "heavy": (1.2, 0.01, 0.01)}
MOST_SERVERS = 8
FED = {"AlexNet": 2.94, "ShuffleNet": 2.89, "M5": 2.5, "ResNet-18": 2.4, "MobileNet": 1.55, "ResNet-50": 1.15}
FEW_CORES, NODE_CORES = 3.0, 12.0  # of a worker with one GPU at the start; of a node for each GPU
CORES = (FEW_CORES, 4.5, 6.0, 9.0, NODE_CORES)
T4_NODES, T4_NODE_GPUS = 16, 4


@dataclass(frozen=True, slots=True)
class Times:
    """Of a step without noise, s. exchange, wait (for input) None: it is not known, and is not reported."""

    step: float
    exchange: float | None = None
    wait: float | None = None


@dataclass(frozen=True, slots=True)
class Given:
    """What a training may have: GPUs on each node, parameter servers, and cores of a worker where they matter."""

    placement: Placement
    servers: int = 0
    cores: float = 0.0


@dataclass(frozen=True, slots=True)
class Case:
    """One training. known: its times; spread: those with any placement that is not known."""

    source: str
    model: str
    batch: int  # examples of one GPU
    start: Given
    known: Mapping[Given, Times]
    spread: Times | None = None
    restart: float = ASSUMED_RESTART  # s
    node_gpus: int = 8

    @property
    def gpus(self) -> int:
        """It has so many at its start, and its budget is so many."""
        return sum(self.start.placement)

    def times(self, given: Given) -> Times:
        """Seconds of a step. Raises BenchmarkError for an allocation that was not measured."""
        found = self.known.get(given, self.spread)
        if found is None:
            raise BenchmarkError(f"{self.source}, {self.model}: no step time with {given}")
        return found

    def gain(self, given: Given) -> float:
        """Of the true speed over that at the start, as a part."""
        return self.times(self.start).step / self.times(given).step - 1


def gavel(data: Path, gpu_model: str, counts: tuple[int, ...] = COUNTS) -> tuple[Case, ...]:
    """A case for each row with so many GPUs, spread at the start. Raises BenchmarkError."""
    speeds: dict[tuple[str, int, bool], float] = {}
    for row in _rows(data / GAVEL):
        if row["gpu_type"] == gpu_model and float(row["steps_per_s"]) > 0:
            key = row["job_type"], int(row["scale_factor"]), row["consolidated"] == "1"
            speeds[key] = float(row["steps_per_s"])
    found = []
    for (job, count, is_close), close in speeds.items():
        spread, alone = speeds.get((job, count, False)), speeds.get((job, 1, True))
        if count not in counts or not is_close or spread is None or alone is None:
            continue
        model, batch = _model(job)
        one, others = (Times(count / min(speed, count * alone)) for speed in (close, spread))
        found.append(Case(f"Gavel {gpu_model}", model, batch, Given((1,) * count), {Given((count,)): one}, others))
    return tuple(found)


def pollux(data: Path) -> tuple[Case, ...]:
    """A case for each model, number of nodes and batch that was measured on T4s however they are placed."""
    found = []
    for model, by_type in applications(data, (T4,)).items():
        application = by_type[T4]
        for count in (2, 3, 4):
            placements = [placement for placement in application.measured if sum(placement) == count]
            for batch in application.measured[(1,) * count][0]:
                known = _known(application, placements, int(batch))
                if known is not None:
                    case = Case(
                        "T4", model, int(batch), Given((1,) * count), known, None, application.restart_seconds, 4
                    )
                    found.append(case)
    return tuple(found)


def with_servers() -> tuple[Case, ...]:
    """Workers on one node each and one parameter server, with assumed coefficients; a step computes for 1 s."""
    found = []
    for model, (over, each, server) in SERVERS.items():
        for workers in COUNTS:
            start = (1,) * workers
            known = {
                Given(start, servers): _with_servers(over * workers / servers + each * workers + server * servers)
                for servers in range(1, MOST_SERVERS + 1)
            }
            found.append(Case("parameter servers", model, 32, Given(start, 1), known))
    return tuple(found)


def starved() -> tuple[Case, ...]:
    """One GPU with 3 cores, of a node with 12 for each GPU; more comes in place, without a restart."""
    found = []
    for model, fed in FED.items():
        known = {
            Given((1,), 0, cores): Times(max(1.0, fed * FEW_CORES / cores), 0.0, max(fed * FEW_CORES / cores - 1, 0.0))
            for cores in CORES
        }
        found.append(Case("CPU", model, 64, Given((1,), 0, FEW_CORES), known, restart=0.0))
    return tuple(found)


def gavel_trace(data: Path) -> dict[tuple[str, int, int], list[float]]:
    """Of the jobs of Gavel's trace by model, batch and GPUs: the steps each is to run, all workers' together."""
    found: dict[tuple[str, int, int], list[float]] = {}
    for row in _rows(data / GAVEL_TRACE):
        model, batch = _model(row["job_type"])
        found.setdefault((model, batch, int(row["scale_factor"])), []).append(float(row["total_steps"]))
    return found


def pollux_trace(data: Path) -> tuple[Counter[str], tuple[tuple[Case, int], ...]]:
    """Jobs with one GPU by model; and a case for each size and batch of the others, with how many jobs have it.

    Each starts as kube-scheduler spreads it over 16 idle nodes. What a GPU cannot hold of a batch follows in another
    pass, so its largest batch is taken. Placements that were not measured are interpolated.
    """
    rows = Counter(
        (row["application"], int(row["num_replicas"]), int(row["batch_size"])) for row in _rows(data / POLLUX_TRACE)
    )
    known = applications(data, (T4,))
    alone, found = Counter[str](), list[tuple[Case, int]]()
    for (model, count, examples), jobs in sorted(rows.items()):
        if count == 1:
            alone[model] += jobs
            continue
        application = known[model][T4]
        nodes = min(count, T4_NODES)
        start = tuple(count // nodes + (one < count % nodes) for one in range(nodes))
        fit = [together for together in (4, 2, 1) if math.ceil(count / together) <= T4_NODES]
        placements = {start, *(_packed(count, together) for together in fit)}
        shapes = {one: tuple(sorted(one)) for one in placements}  # the tables have the fullest node last
        batch = min(math.ceil(examples / count), *(application.most_local(one) for one in shapes.values()))
        times = {Given(one): _times(application, shape, batch) for one, shape in shapes.items()}
        case = Case("T4", model, batch, Given(start), times, None, application.restart_seconds, T4_NODE_GPUS)
        found.append((case, jobs))
    return alone, tuple(found)


def _packed(count: int, together: int) -> Placement:
    return (together,) * (count // together) + ((count % together,) if count % together else ())


def _times(application: Application, placement: Placement, batch: int) -> Times:
    """An exchange longer than its step is cut to it: there are such rows."""
    step, exchange = application.times_of(placement, batch)
    return Times(step, min(max(exchange, 0.0), step))


def noise(case: Case, seed: int, index: int, windows: int, runs: int) -> tuple[Floats, Floats]:
    """Factors of computation, and of exchange and input, each [windows, runs]; unsplit steps have the first alone."""
    rng = np.random.default_rng([seed, index, case.gpus])
    return correlated(rng, windows, runs, NOISE), correlated(rng, windows, runs, NOISE)


def shown(times: Times, computing: float, exchanging: float) -> Times:
    """What a window shows under this noise."""
    parts = [None if part is None else part * exchanging for part in (times.exchange, times.wait)]
    rest = times.step - (times.exchange or 0.0) - (times.wait or 0.0)
    return Times(rest * computing + sum(part or 0.0 for part in parts), *parts)


def _with_servers(exchange: float) -> Times:
    return Times(1.0 + exchange, exchange)


def _known(application: Application, placements: list[Placement], batch: int) -> Mapping[Given, Times] | None:
    known: dict[Given, Times] = {}
    for placement in placements:
        batches = application.measured[placement][0]
        if not batches.min() <= batch <= batches.max():
            return None
        known[Given(tuple(sorted(placement, reverse=True)))] = _times(application, placement, batch)
    return known


def _model(job: str) -> tuple[str, int]:
    """Name and batch of `LM (batch size 5)`; a job without a batch has 1."""
    name, _, rest = job.partition(" (batch size ")
    return name, int(rest.rstrip(")")) if rest else 1


def _rows(path: Path) -> Iterator[dict[str, str]]:
    if not path.exists():
        raise BenchmarkError(f"{path} is missing; set WEFT_DATA to the folder with the shared data")
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        yield from csv.DictReader(file)


def windows_of(seconds: float, window: float) -> int:
    """Windows that a restart takes, begun ones as whole."""
    return math.ceil(seconds / window)
