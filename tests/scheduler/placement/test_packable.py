import numpy as np
import pytest

from scheduler.model.workload import ResourceRequest
from scheduler.placement import arrays, loops
from scheduler.placement.fleet import devices_of, take, want_of
from scheduler.placement.packable import PackableCapacity
from scheduler.placement.rows import BITS, Stream, new_memo
from scheduler.placement.stream import SEQUENCES, stream_of
from tests.scheduler.placement.fleets import cluster, demand, empty, everywhere, node, share

ASKS = (
    share(190, 2000, cpu_milli=1000, memory=4000),
    share(500, 9000, cpu_milli=4000),
    share(810, cpu_milli=8000, memory=30_000),
    ResourceRequest(gpus=1, cpu_milli=8000, memory=60_000),
    ResourceRequest(gpus=2, models=("b",)),
    ResourceRequest(gpus=4, cpu_milli=32_000, gpu_memory=20_000),
    ResourceRequest(gpus=8),
    ResourceRequest(cpu_milli=16_000, memory=8000),
)
COUNTS = dict(zip(ASKS, (40, 20, 30, 25, 6, 5, 3, 20), strict=True))


def mixed():
    return cluster(
        *(node(f"a{i}", 8) for i in range(6)),
        *(node(f"b{i}", 4, "b", cpu=32, memory=24_000) for i in range(4)),
        node("cpu", 0, cpu=128),
    )


def placed(seed, is_compiled, memo):
    """Where each of many random workers goes, some of which leave again."""
    fleet, kinds = mixed()
    scorer = PackableCapacity(
        demand(fleet, kinds, COUNTS), kinds, fleet, *empty(fleet), is_compiled=is_compiled, memo=memo
    )
    draw, allowed, places, held = np.random.default_rng(seed), everywhere(fleet), [], []
    for turn in range(40):
        want = want_of(ASKS[draw.integers(len(ASKS))], kinds)
        allowed[draw.integers(len(allowed))] ^= turn % 3 == 0
        before = [fleet.gpu.copy(), fleet.host.copy()]
        place = scorer.choose(fleet, want, allowed)
        places.append(place)
        if place is not None:
            take(fleet, place[0], devices_of(fleet, *place, want.numbers), want.numbers)
            held.append((before[0] - fleet.gpu, before[1] - fleet.host))
        if held and turn % 4 == 0:
            gpu, host = held.pop(int(draw.integers(len(held))))
            fleet.gpu[:] += gpu
            fleet.host[:] += host
            fleet.version[(gpu.any(axis=1)) | host.any(axis=1)] += 1
    return places


@pytest.mark.parametrize("seed", range(2))
def test_compiled_and_plain_form_choose_the_same_places(seed):
    assert placed(seed, True, 1 << 10) == placed(seed, False, 1 << 10)


def test_what_is_remembered_changes_nothing():
    assert placed(7, True, 1 << 12) == placed(7, True, 1 << 3)


def test_a_state_has_the_same_packable_capacity_in_both_forms():
    fleet, kinds = mixed()
    stream = stream_of(demand(fleet, kinds, COUNTS), kinds, 64)
    draw = np.random.default_rng(1)
    rows = np.zeros((200, 3 + 8), dtype=np.int64)
    rows[:, 0] = draw.integers(0, len(kinds), 200)
    rows[:, 1] = draw.integers(0, 64_000, 200)
    rows[:, 2] = draw.integers(0, 256_000, 200)
    rows[:, 3:] = np.sort((draw.choice([0, 190, 500, 1000], (200, 8)) << BITS) + draw.integers(0, 16_000, (200, 8)))
    assert arrays.roll_out(rows, stream).tolist() == [loops.roll_out(row, stream) for row in rows]


def test_packable_capacity_is_what_the_coming_work_packs():
    fleet, kinds = cluster(node("a", 2, cpu=10))
    wants = np.array(
        [want_of(ResourceRequest(gpus=1, cpu_milli=6000), kinds).numbers, want_of(share(400), kinds).numbers]
    )
    stream = Stream(wants, np.ones((2, 1), dtype=np.bool_), np.array([[0, 0, 1, 1], [1, 1, 1, 0]]))
    row = np.concatenate((fleet.kind[:1], fleet.host[0], fleet.gpu[0]))
    # First: a whole GPU, no cores for another, two shares. Second: shares on one device twice, on the other once.
    assert loops.roll_out(row, stream) == (1000 + 800) + 1200


def test_a_share_goes_where_what_stays_free_is_still_of_use():
    fleet, kinds = cluster(node("a", 2), node("b", 2))
    fleet.gpu[0] = [0, 800 << BITS]
    fleet.gpu[1] = [0, 500 << BITS]
    counts = {share(800): 60, share(500): 10, share(300): 30}
    scorer = PackableCapacity(demand(fleet, kinds, counts), kinds, fleet, *empty(fleet))
    # Best fit would take b, too; an 800 that comes leaves the 500 alone, so the 300 goes where only it fits.
    assert scorer.choose(fleet, want_of(share(300), kinds), everywhere(fleet)) == (1, 1)
    assert scorer.choose(fleet, want_of(share(800), kinds), everywhere(fleet)) == (0, 1)


def test_work_without_gpus_leaves_the_cores_that_gpus_need():
    fleet, kinds = cluster(node("a", 8, cpu=40), node("b", 8, cpu=40))
    fleet.gpu[1] = 0
    counts = {ResourceRequest(gpus=1, cpu_milli=8000): 100, ResourceRequest(cpu_milli=16_000): 20}
    scorer = PackableCapacity(demand(fleet, kinds, counts), kinds, fleet, *empty(fleet))
    assert scorer.choose(fleet, want_of(ResourceRequest(cpu_milli=16_000), kinds), everywhere(fleet)) == (1, -1)


def test_what_fits_is_never_refused_and_what_does_not_is():
    fleet, kinds = cluster(node("a", 8))
    scorer = PackableCapacity(demand(fleet, kinds, {ResourceRequest(gpus=8): 100}), kinds, fleet, *empty(fleet))
    assert scorer.choose(fleet, want_of(share(10), kinds), everywhere(fleet)) == (0, 0)
    assert scorer.choose(fleet, want_of(share(10), kinds), ~everywhere(fleet)) is None
    assert scorer.choose(fleet, want_of(ResourceRequest(gpus=9), kinds), everywhere(fleet)) is None


def test_sequences_hold_each_shape_at_its_rate():
    fleet, kinds = cluster(*(node(f"a{i}", 8) for i in range(10)))
    known = demand(fleet, kinds, {ResourceRequest(gpus=1): 80, ResourceRequest(gpus=8): 20})
    order = stream_of(known, kinds, 80).order
    assert order.shape[0] == SEQUENCES
    # 16 x 80 arrivals: 80 % over 80 idle devices, 20 % over 10 idle nodes, at most 6 of a shape.
    found = [int((order == shape).sum()) / SEQUENCES for shape in range(2)]
    assert found == [6.0, 6.0]
    assert np.array_equal(order, stream_of(known, kinds, 80).order)


def test_memo_is_emptied_rather_than_filled_up():
    fleet, kinds = mixed()
    stream = stream_of(demand(fleet, kinds, COUNTS), kinds, 64)
    memo = new_memo(8, 4)
    for cpu in range(20):
        row = np.concatenate((fleet.kind[:1], [cpu * 1000, 4096], fleet.gpu[0]))
        loops._packable(row, stream, memo)
    assert memo.used[0] <= 2


def test_a_cluster_without_gpus_takes_no_work_with_gpus():
    fleet, kinds = cluster(node("cpu", 0))
    scorer = PackableCapacity(demand(fleet, kinds, {ResourceRequest(gpus=1): 60}), kinds, fleet, *empty(fleet))
    assert scorer.choose(fleet, want_of(ResourceRequest(gpus=1), kinds), everywhere(fleet)) is None
    assert scorer.choose(fleet, want_of(ResourceRequest(cpu_milli=1000), kinds), everywhere(fleet)) == (0, -1)
