"""The life of workloads through the services and loops."""

import pytest

from controlplane.cluster.port import PodPhase
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
