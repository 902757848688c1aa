"""The port `Metrics` where nothing is measured: all is unknown, and what needs a measurement holds still."""

from collections.abc import Mapping, Sequence

from autoscaler.latency import Within
from autoscaler.observed import Scrape
from controlplane.cluster.port import GpuUse, NodeUse, PodUse, RevisionUse, Saved, ServiceUse, TrainingUse, WorkerUse


class Unmeasured:
    """Knows no measurement of any workload."""

    def gpus(self) -> tuple[GpuUse, ...]:
        """Nothing."""
        return ()

    def training(self, workloads: Sequence[str]) -> tuple[TrainingUse, ...]:
        """Nothing."""
        return ()

    def workers(self, workloads: Sequence[str]) -> tuple[WorkerUse, ...]:
        """Nothing."""
        return ()

    def nodes(self) -> tuple[NodeUse, ...]:
        """Nothing."""
        return ()

    def checkpoints(self, workloads: Sequence[str]) -> tuple[Saved, ...]:
        """Nothing."""
        return ()

    def services(self, objectives: Mapping[str, Within | None]) -> tuple[ServiceUse, ...]:
        """Nothing."""
        return ()

    def scrapes(self, workloads: Sequence[str]) -> Mapping[str, Scrape]:
        """Nothing."""
        return {}

    def pods(self, workloads: Sequence[str]) -> tuple[PodUse, ...]:
        """Nothing."""
        return ()

    def revisions(self, promises: Mapping[str, tuple[float, Within]]) -> tuple[RevisionUse, ...]:
        """Nothing."""
        return ()
