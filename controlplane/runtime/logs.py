"""Where the lines of a workload's pods come from. The wiring connects it; its readers know no adapter."""

from collections.abc import Callable

from controlplane.cluster.port import ClusterUnreachable, LogLine

# (workload, attempt, rank or None for all, how many of the last lines, since when on the cluster's clock)
Reader = Callable[[str, int, int | None, int, float | None], tuple[LogLine, ...]]

_reader: Reader | None = None


def connect(reader: Reader) -> None:
    """Say what reads the logs of this process: `Cluster.logs`, or something that finds it on first use."""
    global _reader
    _reader = reader


def read_lines(workload: str, attempt: int, rank: int | None, tail: int, since: float | None) -> tuple[LogLine, ...]:
    """The last `tail` lines of one worker, or of all by time. Raises ClusterUnreachable."""
    if _reader is None:
        raise ClusterUnreachable("This process has no connection to a cluster.")
    return _reader(workload, attempt, rank, tail, since)
