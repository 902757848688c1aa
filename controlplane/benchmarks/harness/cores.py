"""Work that is many like jobs, on all cores: a process each, as Python's threads share one."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import TypeVar

from controlplane.benchmarks.harness.figure import BenchmarkError
from controlplane.runtime import tuning

Job = TypeVar("Job")
Found = TypeVar("Found")


def each(function: Callable[[Job], Found], jobs: Sequence[Job], others: int) -> Iterator[tuple[int, Found]]:
    """What the function makes of each job, with the job's number, as they are done. Raises BenchmarkError.

    Without other processes they are done here, in order. Function, jobs and what is found go from process to process;
    the others have no database and no settings.
    """
    if others < 1:
        yield from ((number, function(job)) for number, job in enumerate(jobs))
        return
    # Not forked: this process has threads by now, and a lock that one of them holds would stay locked in a copy.
    with ProcessPoolExecutor(others, get_context("spawn"), _begin) as pool:
        number_of = {pool.submit(function, job): number for number, job in enumerate(jobs)}
        try:
            for done in as_completed(number_of):
                yield number_of[done], done.result()
        except BrokenProcessPool:
            raise BenchmarkError("A process of the benchmark was ended; memory may be short. Run it again.") from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def usable() -> int:
    """Cores of this machine."""
    return os.cpu_count() or 1


def _begin() -> None:
    tuning.collect_less_often()  # as every worker does
