"""Is the simulated cluster that of Pollux' authors? Their completion times of Tiresias and Optimus, held against it."""

import csv
from pathlib import Path

import numpy as np

from controlplane.benchmarks.harness.figure import BenchmarkError
from controlplane.benchmarks.training.classics import Optimus, Sized, Tiresias, emptiest
from controlplane.benchmarks.training.cluster16 import Rules, simulate
from controlplane.benchmarks.training.tables import pollux_workload, t4_applications
from controlplane.benchmarks.training.trainings import Asked

LOAD = "1.0"
NUMBERS = (1, 2, 3, 4)
ALLOWED = 0.15  # of the mean completion time of a workload
RESTART_SECONDS = 30.0  # of each start there
POLICIES = ("tiresias", "optimus")


def checked(data: Path, number: int) -> str:
    """What was found for one workload. Raises BenchmarkError where it differs too much from what was published."""
    asked = [Asked(one) for one in pollux_workload(data, LOAD, number)]
    apps = t4_applications(data)
    told = []
    for name in POLICIES:
        sizing = Tiresias() if name == "tiresias" else Optimus(is_spread=False)
        rules = Rules(restart_seconds=RESTART_SECONDS, noise=0.0, is_profiled=name == "optimus")
        mean = simulate(asked, apps, Sized(sizing, emptiest), rules).mean
        told.append(compared(name, number, mean, published(data, name, number)))
    return (
        f"Pollux' load {LOAD}, workload {number}, {RESTART_SECONDS:g} s a start: "
        + "; ".join(told)
        + (f"; Pollux' own {published(data, 'pollux', number):.0f} s")
    )


def compared(name: str, number: int, mean: float, known: float) -> str:
    """Both means, in s. Raises BenchmarkError where they differ too much."""
    if abs(mean / known - 1) > ALLOWED:
        raise BenchmarkError(
            f"The simulator is not Pollux': the mean completion time of {name} on workload {number} is {known:.0f} s "
            f"there, here {mean:.0f} s. Find out why in controlplane/benchmarks/training before any figure is believed."
        )
    return f"{name} {mean:.0f} s, published {known:.0f} s"


def published(data: Path, name: str, number: int) -> float:
    """Mean completion time in s. Raises BenchmarkError where the file is missing."""
    path = data / "training" / "pollux" / "expected_jct_1-4.csv"
    if not path.exists():
        raise BenchmarkError(f"{path} is missing. Set WEFT_DATA to the folder with the shared traces.")
    wanted = ("jobload", f"{name}-{LOAD}", number)
    with path.open() as file:
        rows = csv.DictReader(file)
        times = [
            float(row["jct_s"])
            for row in rows
            if (row["experiment"], row["configuration"], int(row["workload"])) == wanted
        ]
    return float(np.mean(times))
