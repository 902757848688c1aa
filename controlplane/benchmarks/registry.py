"""The benchmarks by name. A name, once given, stays: results are compared over years."""

from collections.abc import Callable, Mapping

from controlplane.benchmarks import page, replay, start
from controlplane.benchmarks.figure import Options, Progress, Result

BENCHMARKS: Mapping[str, Callable[[Options, Progress], Result]] = {
    "start": start.run,
    "replay": replay.run,
    "page": page.run,
}
