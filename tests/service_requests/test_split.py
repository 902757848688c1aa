"""Requests that are split by weight: each is drawn for one of two revisions, and waits for its own replicas only."""

import json

import numpy as np
import pytest

from autoscaler.latency import Within
from controlplane.cluster.serving.run import Replica, Run, Setup, State
from controlplane.cluster.serving.split import Split
from controlplane.cluster.serving.traffic import Drawn, Rate, Recorded, Sizes

OLD, NEW = Replica("a", 2, 0.05, 1), Replica("b", 1, 0.05, 2)
STEADY = Rate("steady", 40.0, amplitude=0.0, burst_part=0.0, noise=0.0)


def split_run(percent: int, *replicas: Replica, objective: Within | None = None) -> Run:
    run = Run(Drawn(STEADY, Sizes("fixed")), Setup(objective=objective), State.begin(0.0))
    run.change(0.0, replicas or (OLD, NEW), split=Split(2, percent))
    return run


@pytest.mark.parametrize("percent", [5, 25, 50])
def test_a_revision_gets_its_part_of_the_requests(percent: int) -> None:
    run = split_run(percent, OLD, Replica("b", 2, 0.02, 2))
    run.to(300.0)
    got = {revision: requests for revision, (requests, _) in run.state.tallies.items()}
    total = sum(got.values())
    assert total > 10_000
    assert 100 * got[2] / total == pytest.approx(percent, abs=1.0)


def test_the_other_revision_does_not_wait_for_one_that_is_slow() -> None:
    run = split_run(20, OLD, Replica("b", 1, 2.0, 2), objective=Within(0.5))
    run.to(60.0)
    old, new = run.state.tallies[1], run.state.tallies[2]
    assert old[0] > 1500 and old[1] == 0
    assert new[0] > 20 and new[1] == new[0]
    assert len(run.state.ahead) > 0, "requests of the other have begun before some that wait"
    assert run.waiting > 100
    assert counted(run) == run_arrivals(run, 60.0)


@pytest.mark.parametrize("replica", [OLD, Replica("b", 2, 0.02, 2)])
def test_replicas_of_one_revision_alone_get_all(replica: Replica) -> None:
    run = split_run(20, replica)
    run.to(60.0)
    assert run.state.tallies[replica.revision][0] > 2000
    assert run.state.totals.failed == 0


def test_when_one_has_no_replica_the_other_gets_all_and_what_waited_is_served() -> None:
    run = split_run(20, OLD, Replica("b", 1, 2.0, 2))
    run.to(20.0)
    assert run.waiting > 50
    run.change(20.0, [Replica("a", 6, 0.05, 1)], split=Split(2, 20))
    run.to(60.0)
    assert run.waiting < 10
    assert not len(run.state.ahead)
    assert counted(run) == run_arrivals(run, 60.0)


def counted(run: Run) -> int:
    """All requests that it knows of: answered or given up, served now, waiting."""
    done = run.state.totals
    return done.answered + done.failed + done.refused + run.waiting + int(run.state.flights.count.sum())


def run_arrivals(run: Run, until: float) -> int:
    return sum(int((run.traffic.block(number).at < until).sum()) for number in range(3))


def test_how_often_it_is_looked_at_and_a_restart_change_nothing() -> None:
    whole, often = split_run(30, OLD, Replica("b", 1, 0.2, 2)), split_run(30, OLD, Replica("b", 1, 0.2, 2))
    whole.to(90.0)
    for at in np.arange(0.7, 90.0, 0.7):
        often.to(float(at))
        often = Run(often.traffic, often.setup, State.of(json.loads(json.dumps(often.state.plain()))))
    often.to(90.0)
    assert often.state.plain() == whole.state.plain()


def test_what_a_version_before_has_stored_is_read() -> None:
    old = Run(Recorded([1.0, 2.0]), Setup(), State.begin(0.0))
    old.change(0.0, [Replica("a", 1, 0.5)])
    old.to(1.5)
    plain = old.state.plain()
    plain[3] = [replica[:3] for replica in plain[3]]
    found = State.of(plain[:8])
    assert (found.replicas, found.split, found.tallies) == ((Replica("a", 1, 0.5),), None, {})
