"""The scheduler against brute force, in every small world there is."""

from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Wait
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import Gang
from tests.scheduler.oracle import Job, check_not_dominated, check_places, check_victims, exhaustive, moved_on, small

RESERVING = Settings(ageing_seconds=1e9)
RULES = Settings(ageing_seconds=1e9, reservations_per_pool=0)  # a planned start keeps others waiting on purpose
MAX_ROUNDS = 40  # three jobs may leave three times each, with a round to leave and one to start again
SHAPES = ((1, Gang()), (2, Gang()), (1, Gang(2, 1, 2)))  # (GPUs of a worker, workers)
FEW = [
    Job(team, priority, *shape, is_running, saves=shape == SHAPES[0])
    for team, priority, shape, is_running in product(("red", "blue"), (0, 100), SHAPES, (False, True))
]
WITH_CHIEF = [
    Job("red", priority, gpus, gang, is_running, chief=chief)
    for priority, (gpus, gang), chief, is_running in product((0, 100), SHAPES, (1, 2), (False, True))
]
MANY = [
    Job(team, priority, *shape, is_running, saves)
    for team, priority, shape, is_running, saves in product(
        ("red", "blue"),
        (0, 100, 200),
        (*SHAPES, (1, Gang(2, 2, 2)), (1, Gang(3, 1, 3)), (2, Gang(2, 1, 2)), (3, Gang()), (4, Gang())),
        (False, True),
        (False, True),
    )
]


def live(world: Snapshot, rules: Settings = RULES) -> None:
    """Let a world go on until nothing changes any more, and check every round of it against brute force."""
    quiet = 0
    for _ in range(MAX_ROUNDS):
        decisions = schedule(world, rules)
        check_victims(world, decisions)
        after = world.after(decisions)
        check_places(after)
        world = moved_on(after, 61.0)
        is_quiet = all(isinstance(decision, Wait) for decision in decisions) and world.workloads == after.workloads
        quiet = quiet + 1 if is_quiet else 0
        if quiet == 3:  # nobody is protected any more because it has only just started
            if not rules.reservations_per_pool:
                check_not_dominated(after, rules)
            return
    raise AssertionError(f"still changing: {decisions}")


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_every_world_of_two_jobs_comes_to_rest_as_brute_force_says(nodes: int) -> None:
    for world in exhaustive(nodes, 2, FEW, 2):
        live(world)


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_every_seventh_world_of_three_jobs_comes_to_rest_as_brute_force_says(nodes: int) -> None:
    for number, jobs in enumerate(product(FEW, repeat=3)):
        if number % 7 == nodes and (world := small(nodes, 2, jobs)) is not None:
            live(world)


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_every_fifth_world_of_a_gang_with_roles_and_another_comes_to_rest_as_brute_force_says(nodes: int) -> None:
    for number, (one, other) in enumerate(product(WITH_CHIEF, (*FEW, *WITH_CHIEF))):
        jobs = (one, other) if number % 2 else (other, one)
        if number % 5 == nodes and (world := small(nodes, 2, jobs)) is not None:
            live(world)


@pytest.mark.nightly
@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_every_world_of_three_jobs_comes_to_rest_as_brute_force_says(nodes: int) -> None:
    for world in exhaustive(nodes, 2, FEW, 3):
        live(world)


@pytest.mark.parametrize("examples", [300, pytest.param(20_000, marks=pytest.mark.nightly)])
def test_any_world_of_four_nodes_and_six_jobs_comes_to_rest_as_brute_force_says(examples: int) -> None:
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        st.sampled_from((RULES, RESERVING)),
        st.integers(1, 4),
        st.integers(1, 4),
        st.lists(st.sampled_from(MANY), min_size=1, max_size=6),
    )
    def lives(rules: Settings, nodes: int, gpus: int, jobs: list[Job]) -> None:
        world = small(nodes, gpus, jobs)
        if world is not None:
            live(world, rules)

    lives()
