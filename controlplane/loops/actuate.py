"""Have the cluster do what was decided.

Every command may be repeated, so a crash between doing and noting is harmless.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from controlplane.cluster.port import Cluster, ClusterUnreachable
from controlplane.loops import rounds
from controlplane.loops.lease import Report
from controlplane.loops.wiring import Wiring
from controlplane.runtime import wake
from controlplane.services.scheduling.leases import HeldLease
from controlplane.services.workloads import actions
from controlplane.services.workloads.actions import Command, Outcome

COMMANDS = 500  # in one round


def run_once(wiring: Wiring) -> Report:
    """One round of the actuate loop."""
    return rounds.run("actuate", wiring, _actuate)


def _actuate(wiring: Wiring, lease: HeldLease) -> int:
    at = wiring.cluster.now()
    commands = actions.due(at=at, limit=COMMANDS)
    if not commands:
        return 0
    if len(commands) == COMMANDS:  # there may be more: come again at once instead of after a period
        wake.bells["actuate"].set()
    outcomes, unreachable = perform(wiring.cluster, commands)
    # The time at which all was done: an observation of before may not show it.
    actions.settle(outcomes, at=wiring.cluster.now(), lease=lease)
    if unreachable is not None:
        raise unreachable
    return len(outcomes)


def perform(cluster: Cluster, commands: Sequence[Command]) -> tuple[list[Outcome], ClusterUnreachable | None]:
    """Perform commands, those about one workload or node in their order; the rest as many at a time as may be.

    When the cluster does not answer, the rest would wait for the same time-out: it is left, and not counted as tried.
    """
    lines: dict[str, list[Command]] = {}
    for command in commands:
        lines.setdefault(command.workload + command.node, []).append(command)
    performance = _Performance(cluster)
    if cluster.commands_at_once > 1 and len(lines) > 1:
        with ThreadPoolExecutor(min(cluster.commands_at_once, len(lines)), thread_name_prefix="command") as pool:
            list(pool.map(performance.of, lines.values()))
    else:
        performance.of(commands)
    return performance.outcomes, performance.unreachable


class _Performance:
    """What came of commands so far."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.outcomes: list[Outcome] = []
        self.unreachable: ClusterUnreachable | None = None

    def of(self, commands: Sequence[Command]) -> None:
        """Perform these one after the other."""
        for command in commands:
            if self.unreachable is not None:
                return
            try:
                self.outcomes.append(_perform(self._cluster, command))
            except ClusterUnreachable as error:
                self.unreachable = error


def _perform(cluster: Cluster, command: Command) -> Outcome:
    try:
        if not command.is_stale:
            _call(cluster, command)
    except ClusterUnreachable:
        raise
    except Exception as error:  # whatever an adapter's client raises: one bad command must not stop the others
        return Outcome(command, f"{type(error).__name__}: {error}", is_refusal=True)
    return Outcome(command)


def _call(cluster: Cluster, command: Command) -> None:
    match command.verb:
        case "start":
            cluster.start(command.pods)
        case "stop":
            cluster.stop(command.workload, command.attempt, command.ranks, command.grace_seconds)
        case "resize":
            for rank in command.ranks:
                cluster.resize(command.workload, command.attempt, rank, command.cpu_milli, command.memory)
        case "limit":
            cluster.limit(command.workload, command.attempt, command.ranks, command.milli)
        case "offload":
            cluster.offload(
                command.workload, command.attempt, command.ranks, command.memory, command.weights, on=command.on
            )
        case "cordon":
            cluster.cordon(command.node, command.on)
        case _:
            _send_requests(cluster, command)


def _send_requests(cluster: Cluster, command: Command) -> None:
    """Say to which replicas of a service requests come, and how many of them evictions leave."""
    match command.verb:
        case "split":
            if command.split is not None:
                cluster.split(command.split)
        case "wake" | "sleep":
            cluster.rotate(command.workload, command.attempt, command.ranks, on=command.verb == "wake")
        case "address":
            if command.address is not None:
                cluster.keep_address(command.address, on=command.on)
        case "guard":
            if command.address is not None:
                cluster.guard(command.address, command.least)
        case verb:
            raise ValueError(f"unknown verb {verb}")
