"""A process of the loops that dies like one that is killed: at once, in the midst of a command, with all it kept."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from controlplane.cluster.port import Address, Cluster, LogLine, Note, Observation, PodSpec, Split


class Killed(BaseException):  # noqa: N818 - as KeyboardInterrupt, nothing may handle it on the way
    """The process is no more; a transaction that was open is rolled back."""


@dataclass(frozen=True)
class Death:
    """When it comes: before or after the next command of this verb for a workload, which may be submitted later."""

    moment: str
    verb: str
    name: str
    uid: Callable[[], str]


class Mortal:
    """The port `Cluster` of a process that is going to die."""

    def __init__(self, real: Cluster) -> None:
        self._real = real
        self.death: Death | None = None

    @property
    def commands_at_once(self) -> int:
        """In one thread when it is to die: a thread of a pool would only end itself."""
        return 1 if self.death else self._real.commands_at_once

    def start(self, pods: Sequence[PodSpec]) -> None:
        """Do it; perhaps die before or after."""
        self._perhaps("before", "start", pods[0].workload)
        self._real.start(pods)
        self._perhaps("after", "start", pods[0].workload)

    def stop(self, workload: str, attempt: int, ranks: Sequence[int], grace_seconds: float) -> None:
        """Do it; perhaps die before or after."""
        self._perhaps("before", "stop", workload)
        self._real.stop(workload, attempt, ranks, grace_seconds)
        self._perhaps("after", "stop", workload)

    def _perhaps(self, moment: str, verb: str, workload: str) -> None:
        death = self.death
        if death and (death.moment, death.verb, death.uid()) == (moment, verb, workload):
            self.death = None
            raise Killed

    def now(self) -> float:
        """As the cluster's."""
        return self._real.now()

    def observe(self, cursor: str | None) -> Observation:
        """As the cluster's."""
        return self._real.observe(cursor)

    def on_news(self, tell: Callable[[], None]) -> None:
        """As the cluster's."""
        self._real.on_news(tell)

    def prepare(self, pods: Sequence[PodSpec], *, starting: Collection[str] = ()) -> None:
        """As the cluster's."""
        self._real.prepare(pods, starting=starting)

    def publish(self, notes: Sequence[Note]) -> None:
        """As the cluster's."""
        self._real.publish(notes)

    def resize(self, workload: str, attempt: int, rank: int, cpu_milli: int, memory: int) -> None:
        """As the cluster's."""
        self._real.resize(workload, attempt, rank, cpu_milli, memory)

    def split(self, split: Split) -> None:
        """As the cluster's."""
        self._real.split(split)

    def limit(self, workload: str, attempt: int, ranks: Sequence[int], milli: int) -> None:
        """As the cluster's."""
        self._real.limit(workload, attempt, ranks, milli)

    def rotate(self, workload: str, attempt: int, ranks: Sequence[int], *, on: bool) -> None:
        """As the cluster's."""
        self._real.rotate(workload, attempt, ranks, on=on)

    def offload(
        self, workload: str, attempt: int, ranks: Sequence[int], memory: int, weights: int, *, on: bool
    ) -> None:
        """As the cluster's."""
        self._real.offload(workload, attempt, ranks, memory, weights, on=on)

    def keep_address(self, address: Address, *, on: bool) -> None:
        """As the cluster's."""
        self._real.keep_address(address, on=on)

    def guard(self, address: Address, least: int) -> None:
        """As the cluster's."""
        self._real.guard(address, least)

    def cordon(self, node: str, on: bool) -> None:
        """As the cluster's."""
        self._real.cordon(node, on)

    def logs(
        self, workload: str, attempt: int, rank: int | None, tail: int, since: float | None
    ) -> tuple[LogLine, ...]:
        """As the cluster's."""
        return self._real.logs(workload, attempt, rank, tail, since)
