"""Have the cluster do what was decided.

Every command may be repeated, so a crash between doing and noting is harmless.
"""

from controlplane.cluster.port import Cluster, ClusterUnreachable
from controlplane.loops import rounds
from controlplane.loops.lease import Report
from controlplane.loops.wiring import Wiring
from controlplane.services import actions
from controlplane.services.actions import Command, Outcome
from controlplane.services.leases import HeldLease


def run_once(wiring: Wiring) -> Report:
    """One round of the actuate loop."""
    return rounds.run("actuate", wiring, _actuate)


def _actuate(wiring: Wiring, lease: HeldLease) -> int:
    at = wiring.cluster.now()
    commands = actions.due(at=at)
    if not commands:
        return 0
    outcomes: list[Outcome] = []
    unreachable: ClusterUnreachable | None = None
    for command in commands:
        try:
            outcomes.append(_perform(wiring.cluster, command))
        except ClusterUnreachable as error:
            unreachable = error  # the rest would wait for the same time-out; nothing is counted as tried
            break
    actions.settle(outcomes, at=at, lease=lease)
    if unreachable is not None:
        raise unreachable
    return len(outcomes)


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
        case "cordon":
            cluster.cordon(command.node, command.on)
        case verb:
            raise ValueError(f"unknown verb {verb}")
