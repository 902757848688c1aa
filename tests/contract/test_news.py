"""What the port `Cluster` promises to a listener that wants to hear of changes without asking for them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from controlplane.cluster.port import PodPhase
from controlplane.cluster.unmeasured import Unmeasured
from controlplane.loops import wiring
from controlplane.loops.lease import Report
from controlplane.loops.threads import LoopThread
from controlplane.loops.wiring import Wiring
from controlplane.testbed.processes import wait_until
from scheduler.model.workload import Kind
from tests.contract.drive import Drive, gang, pod, run

VERY_LONG = 3600.0


def test_what_a_pod_does_by_itself_is_told_of_when_it_can_be_observed(drive: Drive) -> None:
    news = threading.Event()
    phases: list[PodPhase] = []
    cursor = drive.cluster.observe(None).cursor
    drive.cluster.on_news(news.set)
    drive.cluster.start([pod(drive, spec=drive.job_file(Kind.TRAINING, 20.0))])
    while PodPhase.SUCCEEDED not in phases:
        drive.until(news.is_set)
        news.clear()
        answer = drive.cluster.observe(cursor)
        assert not answer.is_full
        cursor, phases = answer.cursor, [*phases, *(found.phase for found in answer.pods)]


def test_a_node_that_is_taken_out_of_use_is_news(drive: Drive) -> None:
    news = threading.Event()
    cursor = drive.cluster.observe(None).cursor
    drive.cluster.on_news(news.set)
    drive.cluster.cordon("b", True)
    drive.until(news.is_set)
    assert [(node.name, node.schedulable) for node in drive.cluster.observe(cursor).nodes] == [("b", False)]


def test_what_no_observation_shows_is_no_news(drive: Drive) -> None:
    run(drive, [pod(drive)])
    news = threading.Event()
    drive.cluster.observe(None)
    drive.cluster.on_news(news.set)
    drive.cluster.prepare([pod(drive, "later", node="", gpus=())])
    drive.cluster.cordon("a", False)  # it is not
    drive.cluster.observe(None)  # all that was done is known
    assert not news.is_set()


@contextmanager
def observing(drive: Drive) -> Iterator[list[float]]:
    """The observe loop's thread as production has it, with a period that never comes round; its rounds."""
    rounds: list[float] = []
    wiring.use(lambda: Wiring(drive.cluster, Unmeasured(), "test"))
    thread = LoopThread("observe", lambda wired: Report("observe"), lambda *_: rounds.append(0.0), VERY_LONG)
    thread.start()
    try:
        yield rounds
    finally:
        thread.stop()
        assert thread.join(20)
        wiring.use(wiring.configured)


@pytest.mark.django_db(transaction=True)
def test_a_change_in_the_cluster_makes_the_observe_loop_come_round_long_before_its_period(drive: Drive) -> None:
    drive.cluster.observe(None)
    with observing(drive) as rounds:
        wait_until(lambda: len(rounds) == 1, "the first round", 20)
        drive.cluster.start(gang(drive, 8))
        wait_until(lambda: len(rounds) > 1, "a round for what happened", 5)
