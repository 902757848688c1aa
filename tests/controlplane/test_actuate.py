"""The actuate loop gives a cluster what was decided, many commands at a time where it takes them."""

import threading
from typing import ClassVar

import pytest

from controlplane.cluster.port import ClusterUnreachable, PodSpec
from controlplane.loops import actuate
from controlplane.models import Action
from controlplane.runtime import wake
from controlplane.services.workloads.actions import Command
from tests.controlplane.state import PodCluster, World


class Wide(PodCluster):
    """Takes eight commands at a time; a start waits until `together` starts have come."""

    commands_at_once: ClassVar[int] = 8

    def __init__(self, together: int = 1) -> None:
        super().__init__()
        self.barrier = threading.Barrier(together)

    def start(self, pods: object) -> None:
        self.barrier.wait(10.0)
        super().start(pods)  # type: ignore[arg-type]


def start(number: int, workload: str) -> Command:
    pod = PodSpec(workload, 1, 0, 1, "a", (0,), 1000, 0, 1000, 1024, "red", {})
    return Command(number, "start", workload, 1, (0,), 0, pods=(pod,))


def stop(number: int, workload: str) -> Command:
    return Command(number, "stop", workload, 1, (0,), 0)


def test_commands_about_different_workloads_go_together() -> None:
    outcomes, unreachable = actuate.perform(Wide(together=8), [start(n, f"w{n}") for n in range(8)])
    assert (len(outcomes), unreachable) == (8, None)
    assert not any(outcome.error for outcome in outcomes)


def test_commands_about_one_workload_keep_their_order() -> None:
    cluster = Wide()
    commands = [c for n in range(0, 40, 2) for c in (start(n, f"w{n}"), stop(n + 1, f"w{n}"))]
    actuate.perform(cluster, commands)
    for n in range(0, 40, 2):
        assert [verb for verb, uid in cluster.calls if uid == f"w{n}"] == ["start", "stop"]


def test_without_an_answer_the_rest_is_left() -> None:
    cluster = Wide()
    cluster.answers = False
    outcomes, unreachable = actuate.perform(cluster, [start(n, f"w{n}") for n in range(40)])
    assert outcomes == []
    assert isinstance(unreachable, ClusterUnreachable)


@pytest.mark.django_db
def test_a_full_round_comes_again_at_once_and_the_last_one_does_not() -> None:
    world = World()
    cordon = {"verb": "cordon", "created_at": world.cluster.at}
    names = [f"node-{number}" for number in range(actuate.COMMANDS + 1)]
    Action.objects.bulk_create(Action(**cordon, payload={"node": name, "on": True}) for name in names)
    for is_full in (True, False):
        wake.bells["actuate"].clear()
        world.actuate()
        assert wake.bells["actuate"].is_set() == is_full
    assert sorted(world.cluster.calls) == sorted(("cordon", name) for name in names)
