"""`nearchus`: what re-allocation gives one training at the same GPUs, and a cluster of them (NOMS 2024, anew).

Single trainings: `singlejobs.py`. A cluster of 16 x 4 T4: `nearchuscluster.py`. Each says what its keys mean.
"""

from collections.abc import Callable

from controlplane.benchmarks.harness.figure import Options, Progress, Result
from controlplane.benchmarks.training import nearchuscluster, singlejobs

HALVES: tuple[tuple[Callable[[Options, Progress], Result], float], ...] = (
    (singlejobs.figures, 0.1),  # with its part of the time
    (nearchuscluster.figures, 0.9),
)


def run(options: Options, progress: Progress) -> Result:
    """Both, one after the other. Raises BenchmarkError: data are missing, or a simulator is not what it should be."""
    done, results = 0.0, list[Result]()
    for measure, part in HALVES:
        results.append(measure(options, _part(progress, done, part)))
        done += part
    return Result(
        tuple(figure for one in results for figure in one.figures), tuple(note for one in results for note in one.notes)
    )


def _part(progress: Progress, done: float, part: float) -> Progress:
    return lambda ratio, doing: progress(done + part * ratio, doing)
