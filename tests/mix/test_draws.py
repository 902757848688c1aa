"""What a seed draws, the queue in front of the service, and cells that share a GPU."""

import numpy as np
import pytest

from controlplane.benchmarks.mix import cells, draws
from controlplane.benchmarks.mix.requests import Queue
from controlplane.benchmarks.mix.speeds import ParameterServer
from scheduler.model.workload import Kind
from tests.mix.made import training, world


def test_the_service_needs_at_most_six_replicas_and_bursts_lie_within_their_half_hour() -> None:
    service = draws.Service(4, 1.0)
    need = service.need(np.arange(0.0, 20_000.0, 7.0))
    assert need.min() >= draws.NEED_LEAST
    assert need.max() <= draws.NEED_MOST
    for number in range(12):
        burst = service.burst(number)
        assert number * 1800 <= burst.at
        assert burst.at + burst.length <= (number + 1) * 1800
        assert 120 <= burst.length <= 300


def test_requests_come_as_often_as_replicas_are_needed() -> None:
    service = draws.Service(1, 0.0)
    at, seconds = service.requests(3)
    assert (np.diff(at) >= 0).all()
    assert 3 * draws.CHUNK <= at[0] < at[-1] < 4 * draws.CHUNK
    needed = service.need(np.arange(3 * draws.CHUNK, 4 * draws.CHUNK)).mean()
    assert seconds.sum() / draws.CHUNK / draws.SLOTS == pytest.approx(draws.USE * needed, rel=0.02)
    assert (service.requests(3)[0] == at).all()


def test_a_pod_starts_within_a_minute_and_always_alike() -> None:
    mix = world([training("t0")], notebooks=1)
    found = [mix.start_seconds(Kind.TRAINING, f"t0-1-{rank}") for rank in range(50)]
    assert min(found) >= 5
    assert max(found) <= 60
    assert found[7] == mix.start_seconds(Kind.TRAINING, "t0-1-7")


def test_a_remote_worker_of_a_parameter_server_is_slower_and_each_further_one_adds_less() -> None:
    of = ParameterServer().of
    assert of((2,)) == 1.0
    assert of((1, 1)) < of((2,)) < of((3,)) < of((4,))
    assert of((4,)) - of((3,)) < of((3,)) - of((2,))


def test_an_unknown_set_or_crowding_is_refused_by_its_name() -> None:
    with pytest.raises(ValueError, match="set: 'x' is none of ps, ar, mixed"):
        draws.world("x", 0, {})
    with pytest.raises(ValueError, match="crowded: 3 GPUs, must be 4 to 14"):
        draws.world("ps", 0, {}, 3)


def test_with_enough_replicas_nothing_is_late_and_with_none_all_is() -> None:
    queue = Queue(draws.Service(0, 0.0))
    queue.arrange(dict.fromkeys(range(6), 0.0))
    queue.serve(1000.0)
    assert queue.late_percent(0.0, 900.0) < 0.1
    nothing = Queue(draws.Service(0, 0.0))
    assert nothing.first_wait(0.0, 15.0) < 1.0
    assert nothing.late_percent(0.0, 900.0) == 100.0


def test_the_first_that_has_to_wait_is_found_without_serving_it() -> None:
    queue = Queue(draws.Service(0, 0.0))
    queue.arrange({0: 0.0})
    before = queue.begun
    first = queue.first_wait(0.0, 60.0)
    assert 0.0 < first < 60.0
    assert queue.begun == before
    queue.serve(first)
    assert (queue.began[: queue.begun] == queue.at[: queue.begun]).all()


def test_a_scrape_counts_each_answer_once() -> None:
    queue = Queue(draws.Service(0, 0.0))
    queue.arrange(dict.fromkeys(range(4), 0.0))
    answered = 0.0
    for at in (15.0, 30.0, 45.0):
        queue.serve(at)
        answered += queue.scrape(at).scrape.answered
    assert answered == int((queue.ended <= 45.0).sum())


def test_cells_alone_on_a_gpu_take_what_they_take_and_those_that_share_it_longer() -> None:
    alone = cells.run({"notebook-0": ("n0", 0), "notebook-1": ("n0", 1)}, 0, 0.0, 50_000.0)
    shared = cells.run({"notebook-0": ("n0", 0), "notebook-1": ("n0", 0)}, 0, 0.0, 50_000.0)
    assert max(alone.slowed) == pytest.approx(1.0)
    assert 1.0 < float(np.mean(shared.slowed)) < 2.0
    assert max(shared.slowed) <= 2 / (1 - cells.OVERHEAD) + 1e-6
    assert 0.0 < alone.busy < 2 * 0.25 * 50_000
