"""The life of workloads through the services and loops."""

import pytest

from controlplane.cluster.port import PodPhase
from controlplane.domain.policy import Policy
from controlplane.loops import schedule
from controlplane.runtime import wake
from controlplane.services.scheduling import policy
from scheduler.model.settings import Settings
from tests.controlplane.state import World, phase, story

pytestmark = pytest.mark.django_db


def test_a_job_is_queued_placed_started_seen_running_and_succeeds():
    world = World()
    job = world.submit("hello", workers=2)
    assert phase(job) == "Queued"
    world.place(job, "a", "b")
    assert phase(job) == "Admitted"
    world.actuate()
    world.observe()
    assert phase(job) == "Starting"
    world.pods(job, PodPhase.RUNNING)
    assert phase(job) == "Running"
    world.pods(job, PodPhase.SUCCEEDED, exit_code=0)
    assert phase(job) == "Succeeded"
    assert story(job) == ["Submitted", "Admitted", "Starting", "Running", "Succeeded"]


def test_a_round_of_schedule_that_stops_early_is_followed_by_the_next_at_once():
    world = World()
    world.observe()
    policy.save(policy=Policy(scheduling=Settings(max_changes=1)), author="ann")
    jobs = [world.submit(name) for name in ("one", "two")]
    for is_full in (True, True, False):
        wake.bells["schedule"].clear()
        schedule.run_once(world.wiring)
        assert wake.bells["schedule"].is_set() == is_full
    assert [phase(job) for job in jobs] == ["Admitted", "Admitted"]


def test_what_came_up_has_its_round_before_the_one_of_everybody_that_is_due():
    world = World()
    world.observe()
    schedule.run_once(world.wiring)
    tried_all_at = world.wiring.kept["timer"].whole_at
    rounds = []
    for name in ("one", "two"):
        world.later(world.wiring.full_cycle_seconds)
        job = world.submit(name)
        wake.bells["schedule"].clear()
        schedule.run_once(world.wiring)
        rounds.append(
            (phase(job), world.wiring.kept["timer"].whole_at == tried_all_at, wake.bells["schedule"].is_set())
        )

    assert rounds == [("Admitted", True, True), ("Admitted", False, False)]
