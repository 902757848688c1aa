"""The mix in a cluster several times as large, and with shorter trainings; a queue that forgets what was answered."""

from typing import cast

import numpy as np
import pytest

from controlplane.benchmarks.mix import draws, engine, jobs, runs
from controlplane.benchmarks.mix.policies import POLICIES
from controlplane.benchmarks.mix.requests import Queue
from controlplane.benchmarks.training.tables import Application
from scheduler.model.workload import Kind

APPS = {"made": cast(Application, None)}  # none that the set `ps` asks


def test_three_times_as_large_there_is_three_times_as_much_of_everything() -> None:
    one, three = (draws.world("ps", 5, APPS, times=times) for times in (1, 3))
    assert (three.notebooks, three.replicas, len(three.trainings)) == (24, 12, 36)
    assert [sum(t.at == at for t in three.trainings) for at in (900.0, 1200.0, 1500.0)] == [12, 12, 12]
    at = np.arange(0.0, 7200.0, 60.0)
    assert three.service.need(at).tolist() == pytest.approx((3 * one.service.need(at)).tolist())
    assert len(three.service.requests(0)[0]) == pytest.approx(3 * len(one.service.requests(0)[0]), rel=0.02)
    assert len(jobs.cluster(3)[0]) == 12
    first = [list(jobs.at_first(world, POLICIES["ours, harvest"])) for world in (one, three)]
    gangs = [next(w.gang for w in some if w.kind is Kind.INFERENCE) for some in first]
    assert [(gang.count, gang.max) for gang in gangs] == [(6, 6), (18, 18)]
    pooled = [{(w.placement[0].node, w.placement[0].gpus) for w in some if w.placement} for some in first]
    assert [len(places) for places in pooled] == [4, 12]


@pytest.mark.parametrize("name", ["native", "ours, harvest", "edragon, pool"])
def test_it_is_played_there_and_no_gpu_is_held_twice(name: str) -> None:
    outcome = engine.play(draws.world("ps", 5, APPS, times=2, work=0.02), POLICIES[name], is_checked=True)
    assert len(outcome.jct) == 24


def test_trainings_a_tenth_as_long_are_the_same_ones_else() -> None:
    whole, tenth = (draws.world("ps", 5, APPS, work=work) for work in (1.0, 0.1))
    assert [t.work for t in tenth.trainings] == pytest.approx([t.work / 10 for t in whole.trainings])
    assert [t.at for t in tenth.trainings] == [t.at for t in whole.trainings]
    key = runs.Key("ps", "native", 5, load=0.9, work=0.1)
    assert runs.world_of(APPS, key).trainings[-1].at < 0.5 * draws.poisson_world("ps", 5, APPS, 0.9).trainings[-1].at


def test_a_queue_that_forgets_what_was_answered_counts_it_as_one_that_does_not() -> None:
    load = draws.Service(5, 0.0)
    queues = Queue(load, 900.0), Queue(load, 900.0)
    for queue, step in zip(queues, (15.0, 3700.0), strict=True):
        queue.arrange(dict.fromkeys(range(3), 0.0))  # too few, so that some wait
        for at in np.arange(step, 3701.0, step):
            queue.serve(float(at))
            queue.scrape(float(at))
    forgetful, other = queues
    assert forgetful.forgotten > 50_000
    assert other.forgotten == 0
    assert forgetful.late_percent(900.0, 3700.0) == other.late_percent(900.0, 3700.0) > 0
    assert forgetful.busy_seconds(900.0, 3700.0) == pytest.approx(other.busy_seconds(900.0, 3700.0))
