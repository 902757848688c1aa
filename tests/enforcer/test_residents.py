"""Notebooks on demand on a node of two GPUs of 100 MiB, with a driver in memory."""

from pathlib import Path

import pytest

from controlplane.enforcer import residents
from controlplane.enforcer.residents import Machine, Residents, read
from controlplane.enforcer.suspender import Broken, State
from gpushare.ondemand import Rules
from tests.enforcer.drivers import InMemory

MACHINE = Machine({"GPU-a": 100, "GPU-b": 100}, host_memory=1000)
RULES = Rules(young=10, park_after=100)


class World:
    """Notebooks by name, each with one process."""

    def __init__(self, machine: Machine = MACHINE, *, can_move: bool = True) -> None:
        self.driver, self.at = InMemory(can_move=can_move), 0.0
        self.residents = Residents(machine, self.driver, RULES, lambda: self.at)
        self.pids: dict[str, int] = {}

    def come(self, name: str, memory: int = 30, gpu: str = "GPU-a") -> int:
        pid = self.pids[name] = 100 + len(self.pids)
        self.driver.has(pid, gpu)
        self.residents.come(name, memory, gpu, [pid])
        return pid

    def wants(self, name: str) -> str | None:
        self.at += 1
        gpu = self.residents.wants(name)
        assert gpu is None or self.driver.is_on(self.pids[name]) == gpu, "the driver has it there"
        return gpu

    def rests(self, name: str) -> None:
        self.at += 1
        self.residents.rests(name)


def test_a_notebook_computes_where_it_is_if_no_other_does() -> None:
    world = World()
    world.come("x")
    world.come("y")
    assert world.wants("x") == "GPU-a"
    assert world.driver.steps == [], "nothing was moved"


def test_while_another_computes_there_it_goes_to_an_idle_gpu() -> None:
    world = World()
    world.come("x")
    y = world.come("y")
    world.wants("x")
    assert world.wants("y") == "GPU-b"
    assert world.driver.steps == [f"{step} {y}" for step in ("lock", "checkpoint", "restore", "unlock")]


def test_room_is_made_and_the_one_that_made_it_comes_back_elsewhere() -> None:
    world = World()
    x = world.come("x", 80)
    world.come("y", 80, "GPU-b")
    world.come("z", 20)
    world.wants("z")  # on GPU-a, beside x
    assert world.wants("x") == "GPU-b"
    assert world.driver.states[world.pids["y"]] is State.CHECKPOINTED, "y left for it"
    world.rests("z")
    assert world.wants("y") == "GPU-a"
    assert world.driver.states[x] is State.RUNNING


def test_it_waits_while_what_computes_leaves_no_memory_for_it() -> None:
    world = World()
    z = world.come("z", 30, "GPU-b")
    for name, gpu in (("x", "GPU-a"), ("y", "GPU-b")):
        world.come(name, 80 if name == "x" else 70, gpu)
    world.wants("x")
    world.wants("y")
    world.driver.goes_wrong("lock", z, "refuse")
    assert world.wants("z") == "GPU-b", "it fits beside y"
    world.rests("z")
    world.residents.go("z")
    world.driver.states[z] = State.CHECKPOINTED
    world.residents.come("z", 40, "GPU-b", [z])
    assert world.wants("z") is None
    world.rests("y")
    assert world.wants("z") == "GPU-b"
    assert world.driver.states[world.pids["y"]] is State.CHECKPOINTED


def test_one_that_the_driver_refuses_to_move_stays_and_shares_its_gpu() -> None:
    world = World()
    world.come("x")
    y = world.come("y")
    world.driver.goes_wrong("checkpoint", y, "refuse")
    world.wants("x")
    assert world.wants("y") == "GPU-a"
    assert world.driver.states[y] is State.RUNNING
    assert world.residents.node.find("y")[1].is_fixed


def test_where_one_does_not_leave_the_cell_shares_a_gpu() -> None:
    world = World()
    x = world.come("x", 80)
    slow, other = world.come("slow", 40, "GPU-b"), world.come("other", 40, "GPU-b")
    world.come("z", 20)
    world.driver.goes_wrong("lock", slow, "slow")
    world.wants("z")
    # 80 MiB do not fit beside what stays on GPU-b: it shares its own GPU instead.
    assert world.wants("x") == "GPU-a"
    assert world.driver.states[slow] is State.RUNNING
    assert world.residents.node.find("slow")[1].is_fixed
    assert world.driver.states[other] is State.CHECKPOINTED, "it had left before; its next cell brings it back"
    assert world.driver.states[x] is State.RUNNING


def test_one_that_breaks_is_given_up_and_its_memory_is_free() -> None:
    world = World()
    world.come("x")
    y = world.come("y")
    world.driver.goes_wrong("restore", y, "break")
    world.wants("x")
    with pytest.raises(Broken, match=f"process {y} cannot go on"):
        world.wants("y")
    with pytest.raises(KeyError):
        world.residents.node.find("y")
    assert world.residents.node.unbooked == 1000 - 30


def test_one_that_breaks_when_it_was_to_leave_makes_room_all_the_same() -> None:
    world = World()
    world.come("x", 80)
    y = world.come("y", 80, "GPU-b")
    world.come("z", 20)
    world.driver.goes_wrong("checkpoint", y, "break")
    world.wants("z")
    assert world.wants("x") == "GPU-b"
    with pytest.raises(KeyError):
        world.residents.node.find("y")


def test_one_that_cannot_come_back_now_waits_in_host_memory_and_is_tried_again() -> None:
    world = World()
    world.come("x")
    y = world.come("y")
    world.wants("x")
    world.driver.goes_wrong("restore", y, "refuse")
    assert world.wants("y") is None
    assert world.driver.states[y] is State.CHECKPOINTED
    world.driver.goes_wrong("restore", y, "")
    assert world.wants("y") == "GPU-b"


def test_among_cells_that_share_a_gpu_the_young_one_goes_first() -> None:
    world = World(can_move=False)
    for name in ("x", "y"):
        world.come(name)
    world.wants("x")
    promised = {"x": 200, "y": 100}
    assert world.residents.parts(promised) == {}, "alone it has all of it, whatever it is promised"
    world.at = 50
    world.wants("y")
    assert world.residents.parts(promised) == {"y": 800, "x": 200}
    assert world.residents.parts({"x": 200}) == {}, "y has gone meanwhile"
    world.rests("x")
    assert world.residents.parts(promised) == {}


def test_a_driver_that_cannot_move_leaves_all_where_they_are() -> None:
    world = World(can_move=False)
    for name in ("x", "y"):
        world.come(name)
    assert [world.wants(name) for name in ("x", "y")] == ["GPU-a", "GPU-a"]
    assert world.driver.steps == []


def test_after_a_restart_it_is_found_where_the_driver_has_it() -> None:
    world = World()
    y = world.come("y")
    world.driver.states[y] = State.CHECKPOINTED
    again = Residents(MACHINE, world.driver, RULES, lambda: world.at)
    again.come("y", 30, "GPU-a", [y])
    assert again.node.find("y")[0] is None
    assert again.wants("y") == "GPU-a"


def test_a_process_that_began_on_the_first_gpu_follows_its_notebook() -> None:
    world = World()
    world.come("x")
    y = world.come("y")
    world.wants("x")
    world.wants("y")
    world.rests("y")
    world.driver.has(900, "GPU-a")  # another kernel of y's
    world.residents.has("y", [y, 900])
    assert world.wants("y") == "GPU-b"
    assert world.driver.is_on(900) == "GPU-b"
    assert world.residents.on("y") == {y: "GPU-b", 900: "GPU-b"}
    assert world.driver.steps.count(f"lock {y}") == 1, "the one that was there was left alone"


def test_a_process_that_uses_no_gpu_is_no_reason_to_stay() -> None:
    world = World()
    world.come("x")
    y = world.come("y")
    world.residents.has("y", [y, 901])  # of 901 the driver knows nothing
    world.wants("x")
    assert world.wants("y") == "GPU-b"


def test_after_a_restart_each_process_is_known_by_the_gpu_it_was_moved_to() -> None:
    world = World()
    y = world.come("y")
    world.driver.gpus[y] = "GPU-b"
    again = Residents(MACHINE, world.driver, RULES, lambda: world.at)
    world.driver.has(900, "GPU-a")
    again.come("y", 30, "GPU-a", [y, 900], {y: "GPU-b"})
    assert again.wants("y") == "GPU-b"
    assert again.on("y") == {y: "GPU-b", 900: "GPU-b"}


def test_host_memory_is_booked_before_anything_is_moved() -> None:
    world = World(Machine({"GPU-a": 100}, host_memory=50))
    world.come("x", 30)
    with pytest.raises(ValueError, match="y books 30 MiB of host memory, 20 are left"):
        world.come("y", 30)
    with pytest.raises(ValueError, match="GPU-c is no GPU of this node's share pool"):
        world.come("z", 1, "GPU-c")


def test_one_that_went_has_left_nothing() -> None:
    world = World()
    world.come("x")
    world.wants("x")
    world.residents.go("x")
    assert world.residents.node.notebooks == ()
    with pytest.raises(KeyError):
        world.residents.has("x", [1])


def test_the_file_of_the_node_is_read_whole_or_refused(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    (tmp_path / "node.json").write_text('{"gpus": {"GPU-a": 81920}, "host_memory": 4096}')
    assert read(tmp_path) == Machine({"GPU-a": 81920}, 4096)
    (tmp_path / "node.json").write_text('{"gpus": ["GPU-a"]}')
    with pytest.raises(ValueError, match=r"node\.json"):
        read(tmp_path)


def test_a_newcomer_for_which_its_gpu_has_no_room_goes_where_there_is_and_others_make_some() -> None:
    world = World()
    x = world.come("x", 80)
    y = world.come("y", 80)  # on GPU-a as well, as all processes begin there
    assert world.residents.node.find("y")[0] is None
    assert world.wants("y") == "GPU-b"
    world.rests("y")
    z = world.come("z", 90)
    assert world.wants("z") == "GPU-a"
    assert world.driver.states[x] is State.CHECKPOINTED
    assert world.driver.states[z] is State.RUNNING
    assert f"lock {z}" not in world.driver.steps, "it is where it began"
    assert world.residents.on("y") == {y: "GPU-b"}


def test_one_that_cannot_leave_a_gpu_without_room_waits() -> None:
    world = World()
    world.come("x", 80)
    y = world.come("y", 80)
    world.driver.goes_wrong("lock", y, "slow")
    assert world.wants("y") is None
    world.driver.goes_wrong("lock", y, "")
    assert world.wants("y") == "GPU-b"


def test_a_gpu_that_comes_is_used_and_the_others_stay_as_they_are() -> None:
    world = World(Machine({"GPU-b": 100}, 1000))
    world.come("x", 60, "GPU-b")
    world.come("y", 60, "GPU-b")
    assert world.wants("x") == "GPU-b"
    assert world.wants("y") is None
    world.residents.grow(Machine({"GPU-a": 100, "GPU-b": 100}, 1000))
    assert world.residents.where("x") == "GPU-b"
    assert world.wants("y") == "GPU-a"


def test_the_file_of_a_node_grows_and_forgets_no_gpu(tmp_path: Path) -> None:
    residents.write(tmp_path, Machine({"GPU-b": 80}, 500, {"GPU-b": 1}))
    residents.write(tmp_path, Machine({"GPU-a": 80}, 500, {"GPU-a": 0}))
    assert residents.read(tmp_path) == Machine({"GPU-a": 80, "GPU-b": 80}, 500, {"GPU-a": 0, "GPU-b": 1})
    before = (tmp_path / residents.NODE).stat().st_mtime_ns
    residents.write(tmp_path, Machine({"GPU-a": 80}, 500, {"GPU-a": 0}))
    assert (tmp_path / residents.NODE).stat().st_mtime_ns == before, "nothing new is not written"
