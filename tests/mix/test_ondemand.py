"""Cells of the mix that have a GPU on demand: what they take, and that the figures beside trainings are the model's."""

from collections.abc import Iterator

import pytest

from controlplane.benchmarks.mix.ondemand import BESIDE, WAIT, timeline
from gpushare.gpu import WHOLE, Share
from gpushare.timeline import Client, Timeline
from gpushare.tokens import MILLISECOND, RULE, Tokens

SECOND = 1000 * MILLISECOND
HAND_OVER = 300  # us: docs/shared-gpus.md
ROOM = 15 * 1024
PAIRS = {f"notebook-{number}": ("n3", number // 2) for number in range(8)}


def bursts(busy: int, idle: int) -> Iterator[tuple[int, int]]:
    while True:
        yield busy, idle


@pytest.mark.parametrize("seconds", [1, 5, 60])
@pytest.mark.parametrize("kernel", [1 * MILLISECOND, 10 * MILLISECOND])
def test_a_cell_beside_a_training_is_no_slower_by_the_model_than_it_is_here(seconds: int, kernel: int) -> None:
    think = 20
    cell = Client("cell", Share(500, WHOLE, 0), MILLISECOND, bursts(seconds * SECOND, think * SECOND))
    training = Client("training", Share(1, WHOLE, 0), kernel, bursts(300 * MILLISECOND, 10 * MILLISECOND))
    Timeline([cell, training], Tokens(), lambda _last, _next: HAND_OVER, RULE.idle).play(
        20 * (seconds + think) * SECOND
    )
    took = [stretch * (seconds + think) - think for stretch in cell.stretches]
    assert len(took) > 10
    assert max(took) <= WAIT + seconds / BESIDE


def test_a_cell_alone_on_its_node_takes_what_it_needs() -> None:
    found = timeline({"notebook-0": ("n3", 0)}, 1, 20_000, 1024, ROOM, harvested=False)
    first, *others = [slowed for _, slowed in found.slowed]
    assert first > 1  # its memory comes to the GPU
    assert others == pytest.approx([1.0] * len(others))


def test_cells_of_eight_notebooks_on_four_gpus_hardly_wait() -> None:
    slowed = sorted(one for _, one in timeline(PAIRS, 1, 50_000, 1024, ROOM, harvested=False).slowed)
    assert slowed[len(slowed) // 2] == pytest.approx(1.0)
    assert slowed[int(0.95 * len(slowed))] < 1.1


def test_cells_on_four_nodes_have_no_other_gpu_to_go_to() -> None:
    apart = {f"notebook-{number}": (f"n{number // 2}", 0) for number in range(8)}
    slowed = sorted(one for _, one in timeline(apart, 1, 50_000, 1024, ROOM, harvested=False).slowed)
    assert slowed[int(0.95 * len(slowed))] > 1.5


def test_a_gpu_is_busy_from_the_begin_of_a_cell_to_its_end() -> None:
    found = timeline(PAIRS, 2, 20_000, 1024, ROOM, harvested=True)
    assert {place for place, ends in found.ends.items() if ends} == {("n3", gpu) for gpu in range(4)}
    for place, ends in found.ends.items():
        assert ends == sorted(ends)
        middle = (ends[0] + ends[1]) / 2
        assert found.is_busy(place, middle)
        assert found.next_change(place, middle) == ends[1]
        assert not found.is_busy(place, ends[0] - 1e-6)
    cells = found.cells(0.0, 20_000.0)
    assert 0.15 * 20_000 < cells.busy < 2.5 * 20_000
    assert len(cells.slowed) == len(found.slowed)
