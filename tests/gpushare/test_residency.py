from dataclasses import replace

import hypothesis
import pytest
from hypothesis import strategies as st

from gpushare.residency import Gpu, Node, Notebook, begin, end, enter, leave, offload


def node(*, gpus: int = 2, memory: int = 80, host: int = 200) -> Node:
    return Node(tuple(Gpu(memory) for _ in range(gpus)), host)


def on(made: Node) -> dict[str, int | None]:
    return {one.name: made.find(one.name)[0] for one in made.notebooks}


def test_a_notebook_enters_into_host_memory_and_its_first_cell_brings_it_to_a_gpu() -> None:
    made = enter(node(), Notebook("a", 10, 0))
    assert on(made) == {"a": None}
    made = begin(made, "a", 1, 5)
    assert on(made) == {"a": 1}
    assert made.find("a")[1] == Notebook("a", 10, 5, computes=True)
    assert end(made, "a", 9).find("a")[1] == Notebook("a", 10, 9)


def test_one_moves_to_another_gpu_with_its_next_cell_and_leaves_nothing_behind() -> None:
    made = end(begin(enter(node(), Notebook("a", 10, 0)), "a", 0, 5), "a", 6)
    made = begin(made, "a", 1, 7)
    assert [gpu.used for gpu in made.gpus] == [0, 10]


def test_what_has_to_make_room_goes_to_host_memory_and_what_computes_never_does() -> None:
    made = node(gpus=1, memory=15)
    for name in ("a", "b"):
        made = enter(made, Notebook(name, 10, 0))
    made = begin(made, "a", 0, 1)
    with pytest.raises(ValueError, match="a computes; it cannot be moved"):
        begin(made, "b", 0, 2, evicted=("a",))
    made = begin(end(made, "a", 3), "b", 0, 4, evicted=("a",))
    assert on(made) == {"b": 0, "a": None}


def test_a_gpu_is_never_given_more_memory_than_it_has() -> None:
    made = node(gpus=1, memory=15)
    for name in ("a", "b"):
        made = enter(made, Notebook(name, 10, 0))
    made = begin(made, "a", 0, 1)
    with pytest.raises(ValueError, match="b needs 10 MiB of GPU 0, 5 are free"):
        begin(made, "b", 0, 2)
    lost = enter(Node((Gpu(0),), 100), Notebook("a", 1, 0))
    with pytest.raises(ValueError, match="0 are free"):
        begin(lost, "a", 0, 1)


def test_host_memory_is_booked_by_those_on_gpus_too() -> None:
    made = begin(enter(node(host=25), Notebook("a", 20, 0)), "a", 0, 1)
    assert made.unbooked == 5
    with pytest.raises(ValueError, match="b books 6 MiB of host memory, 5 are left"):
        enter(made, Notebook("b", 6, 0))


def test_what_is_wrong_is_refused() -> None:
    made = enter(node(), Notebook("a", 10, 0))
    with pytest.raises(ValueError, match="a is on the node already"):
        enter(made, Notebook("a", 10, 0))
    with pytest.raises(ValueError, match="a does not compute"):
        end(made, "a", 1)
    with pytest.raises(ValueError, match="a computes already"):
        begin(begin(made, "a", 0, 1), "a", 0, 2)
    with pytest.raises(ValueError, match="b computes; it cannot be moved"):
        enter(made, Notebook("b", 1, 0, computes=True))
    with pytest.raises(ValueError, match="memory is -1 MiB"):
        Notebook("c", -1, 0)
    with pytest.raises(KeyError):
        leave(made, "b")
    with pytest.raises(KeyError):
        offload(begin(made, "a", 0, 1), "a", 1)


NAMES = "abcdefgh"
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("enter", "leave", "begin", "end", "offload")),
        st.sampled_from(NAMES),
        st.integers(0, 2),
        st.integers(0, 40),
        st.sets(st.sampled_from(NAMES), max_size=2),
    ),
    max_size=60,
)


@hypothesis.given(STEPS)
def test_memory_is_never_over_committed_and_a_step_that_is_refused_changes_nothing(steps: list[tuple]) -> None:
    made = Node((Gpu(50), Gpu(30), Gpu(0)), 120)
    for at, (what, name, gpu, memory, others) in enumerate(steps):
        computing = {one.name: made.find(one.name)[0] for one in made.notebooks if one.computes}
        try:
            if what == "enter":
                after = enter(made, Notebook(name, memory, at))
                assert leave(after, name) == made, "to leave is the inverse"
            elif what == "leave":
                after = leave(made, name)
            elif what == "begin":
                after = begin(made, name, gpu, at, sorted(others - {name}))
            elif what == "end":
                after = end(made, name, at)
            else:
                after = offload(made, name)
        except (KeyError, ValueError):
            continue
        names = [one.name for one in after.notebooks]
        assert len(set(names)) == len(names), "each is in one place"
        assert all(device.used <= device.memory for device in after.gpus)
        assert 0 <= after.unbooked == 120 - sum(one.memory for one in after.notebooks)
        kept = {one: where for one, where in computing.items() if not (one == name and what in ("leave", "end"))}
        assert {one: after.find(one)[0] for one in kept} == kept, "what computes stays"
        made = after


@hypothesis.given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.integers(0, 100))
def test_all_that_came_and_left_leave_a_node_as_it_was(memories: list[int], at: int) -> None:
    empty = Node((Gpu(100), Gpu(100)), 400)
    made = empty
    for number, memory in enumerate(memories):
        made = enter(made, Notebook(str(number), memory, at))
        fits = made.gpus[number % 2].used + memory <= 100
        made = begin(made, str(number), number % 2, at) if fits else made
    for number in range(len(memories)):
        made = leave(made, str(number))
    assert made == replace(empty)
