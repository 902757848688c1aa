"""How soon trainings could end at best: what follows from the GPUs that are left, and no policy beats it."""

from dataclasses import replace

import pytest

from controlplane.benchmarks.mix.bounds import STEP, least_makespan
from controlplane.benchmarks.mix.policies import MOST_REPLICAS
from controlplane.benchmarks.mix.speeds import ParameterServer
from tests.mix.made import told, training, world

FOUR = [training(f"t{n}", work=1200.0) for n in range(4)]


def test_all_gpus_that_are_left_work_with_the_workers_that_do_most_for_each() -> None:
    gpu_seconds = 4 * 1200.0 / ParameterServer().of((1,))  # one worker alone is held back least by its server
    found = least_makespan(world(FOUR, notebooks=8))
    assert gpu_seconds / (12 - 1) <= found <= gpu_seconds / (12 - MOST_REPLICAS) + STEP


def test_without_a_service_it_is_the_work_over_what_the_notebooks_leave() -> None:
    gpu_seconds = 4 * 1200.0 / ParameterServer().of((1,))
    found = least_makespan(replace(world(FOUR, notebooks=8), replicas=0))
    assert found == pytest.approx(gpu_seconds / 12, abs=2 * STEP)


@pytest.mark.parametrize("name", ["native", "binpack, pool", "edragon, pool", "ours"])
def test_no_policy_is_better(name: str) -> None:
    mix = world(FOUR, notebooks=8)
    assert told(name, mix)[1].makespan > least_makespan(mix)
