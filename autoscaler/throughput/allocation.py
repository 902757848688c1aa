"""What a training has: GPUs on each node, workers, CPU, parameter servers and batch."""

from dataclasses import dataclass, replace


class AllocationError(ValueError):
    """An allocation that cannot be; the text names the field and what it has to be."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """gpus: on each of its nodes, most first; cpu: cores of one worker; batch: examples of one GPU in a step, the mean.

    Workers are alike and share no GPU, so each node has whole workers. servers: parameter servers; 0: gradients are
    exchanged among the workers. cpu 0: not known, then more of it is taken to change nothing. memory: GiB, which no
    change touches. off: nodes that it was moved off, as a worker was slow there. Raises AllocationError.
    """

    gpus: tuple[int, ...]
    workers: int
    batch: float
    cpu: float = 0.0
    servers: int = 0
    server_cpu: float = 0.0  # cores of one parameter server
    memory: float = 0.0  # of one worker
    server_memory: float = 0.0  # of one parameter server
    off: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.gpus or min(self.gpus) < 1 or list(self.gpus) != sorted(self.gpus, reverse=True):
            raise AllocationError(f"gpus is {self.gpus!r}: give the GPUs on each node, 1 or more, most first")
        if self.workers < 1 or any(count * self.workers % self.total for count in self.gpus):
            raise AllocationError(f"workers is {self.workers!r}: each node of {self.gpus!r} needs whole workers")
        if self.batch < 1:
            raise AllocationError(f"batch is {self.batch!r}: give the examples of one GPU in a step, 1 or more")
        if min(self.cpu, self.servers, self.server_cpu, self.memory, self.server_memory) < 0:
            raise AllocationError("cpu, servers, server_cpu, memory and server_memory have to be 0 or more")

    @property
    def total(self) -> int:
        """All its GPUs."""
        return sum(self.gpus)

    @property
    def of_worker(self) -> int:
        """GPUs of one worker."""
        return self.total // self.workers

    @property
    def examples(self) -> int:
        """Examples of all GPUs in a step."""
        return round(self.total * self.batch)

    def examples_of(self, total: int) -> "Allocation":
        """The same with so many examples of all GPUs in a step, at least one for each.

        What is no whole number for each is so on the mean.
        """
        each = total / self.total if total % self.total else total // self.total
        return replace(self, batch=max(each, 1))

    @property
    def cores(self) -> float:
        """CPU of all workers and parameter servers, cores."""
        return self.workers * self.cpu + self.servers * self.server_cpu
