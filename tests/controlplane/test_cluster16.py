"""The simulated cluster of like GPUs, and the policies that the planner is compared with there."""

from controlplane.benchmarks.training.classics import Fifo, Sized, spread
from controlplane.benchmarks.training.cluster16 import Rules, simulate
from controlplane.benchmarks.training.trainings import Asked
from tests.controlplane.smallcluster import application, submitted


def test_all_work_that_was_asked_is_done() -> None:
    asked = [Asked(submitted(f"a-{number}", at=number * 30.0, gpus=2)) for number in range(50)]
    told = simulate(asked, {"cifar10": application()}, Sized(Fifo(), spread), Rules(noise=0.0))

    assert told.done == told.asked
    assert set(told.jct) == {one.submitted.name for one in asked}
