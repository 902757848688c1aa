"""The judge of what runs twice (benchmark `recovery`), shown pods as a watch tells of them."""

from typing import Any

import pytest
from django.db import connection

from controlplane.benchmarks.reliability.doubles import Alive
from controlplane.benchmarks.reliability.recovery import RAN_AGAIN
from controlplane.cluster.kubernetes import names
from controlplane.cluster.port import PodPhase
from tests.controlplane.state import World


def pod(attempt: int, rank: int = 0, *, workload: str = "w", node: str = "a", phase: str = "Running") -> dict[str, Any]:
    labels = {names.WORKLOAD: workload, names.ATTEMPT: str(attempt)}
    spec = {"nodeName": node} if node else {}
    return {
        "metadata": {"name": f"{workload}-{attempt}-{rank}", "labels": labels},
        "spec": spec,
        "status": {"phase": phase},
    }


def test_two_attempts_on_nodes_at_once_are_twice() -> None:
    alive = Alive()
    alive.listed([pod(1, 0), pod(1, 1), pod(1, workload="other")])
    assert alive.twice == set()
    alive.see(pod(2, 1), is_there=True)
    assert alive.twice == {"w"}


def test_an_attempt_after_the_end_of_the_one_before_is_not() -> None:
    alive = Alive()
    alive.listed([pod(1, 0), pod(1, 1)])
    alive.see(pod(2, 0, node=""), is_there=True)  # made ahead of time
    alive.see(pod(1, 0), is_there=False)
    alive.see(pod(1, 1, phase="Failed"), is_there=True)
    alive.see(pod(2, 0), is_there=True)
    assert alive.twice == set()


def test_a_new_list_takes_the_place_of_what_was_known() -> None:
    alive = Alive()
    alive.listed([pod(1)])
    alive.listed([])
    alive.see(pod(2), is_there=True)
    assert alive.twice == set()


def ran_again() -> int:
    with connection.cursor() as cursor:
        cursor.execute(RAN_AGAIN)
        return len(cursor.fetchall())


@pytest.mark.django_db
def test_what_was_made_to_leave_and_runs_again_did_not_run_twice_and_what_lost_its_pod_did() -> None:
    world = World()
    victim, claimant = world.submit("victim", gpus=8), world.submit("claimant", gpus=8)
    world.run(victim, "a")
    world.evict(victim, by=claimant)
    world.pods(victim, PodPhase.GONE)
    world.run(victim, "b")
    assert ran_again() == 0
    world.pods(victim, PodPhase.GONE, attempt=2)
    assert ran_again() == 1


@pytest.mark.django_db
def test_what_never_ran_may_be_tried_again() -> None:
    world = World()
    job = world.submit("job")
    world.place(job, "a")
    world.actuate()
    world.pods(job, PodPhase.GONE)
    job.refresh_from_db()
    assert (job.phase, ran_again()) == ("Queued", 0)
