"""What a tool that suspends processes has to do: the one in memory and the adapter of cuda-checkpoint do it alike.

The program under the adapter is ours (fake-cuda-checkpoint). No test here runs NVIDIA's, which needs a GPU.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.enforcer.cudacheckpoint import CudaCheckpoint
from controlplane.enforcer.suspender import Broken, NotDone, NotInTime, State, resume, suspend
from tests.enforcer.drivers import AsProgram, InMemory

Tool = InMemory | AsProgram


@pytest.fixture(params=["in memory", "cuda-checkpoint"])
def tool(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tool]:
    monkeypatch.setenv("FAKE_DRIVER", str(tmp_path))  # so that it is as before afterwards
    made: Tool = InMemory() if request.param == "in memory" else AsProgram(tmp_path)
    made.has(7, "GPU-a")
    made.has(8, "GPU-a")
    yield made


def states(tool: Tool) -> list[State]:
    return [tool.state(7), tool.state(8)]


def test_the_steps_of_a_process_in_their_order(tool: Tool) -> None:
    tool.lock(7, 1.0)
    assert tool.state(7) is State.LOCKED
    tool.checkpoint(7)
    assert tool.state(7) is State.CHECKPOINTED
    assert tool.is_on(7) is None
    tool.restore(7, {})
    assert tool.state(7) is State.LOCKED
    tool.unlock(7)
    assert states(tool) == [State.RUNNING, State.RUNNING]


@pytest.mark.parametrize("step", ["checkpoint", "restore", "unlock"])
def test_a_step_out_of_order_is_refused_and_changes_nothing(tool: Tool, step: str) -> None:
    with pytest.raises(NotDone, match="illegal state"):
        tool.restore(7, {}) if step == "restore" else getattr(tool, step)(7)
    assert tool.state(7) is State.RUNNING


def test_a_process_that_uses_no_gpu_is_refused(tool: Tool) -> None:
    for step in (lambda: tool.state(9), lambda: tool.lock(9, 1.0), lambda: suspend(tool, [9], 1.0)):
        with pytest.raises(NotDone, match="does not use CUDA"):
            step()


def test_all_processes_of_a_container_leave_the_gpu_and_come_back(tool: Tool) -> None:
    suspend(tool, [7, 8], 1.0)
    suspend(tool, [7, 8], 1.0)  # again is as good as once
    assert states(tool) == [State.CHECKPOINTED, State.CHECKPOINTED]
    resume(tool, [7, 8], {})
    resume(tool, [7, 8], {})
    assert states(tool) == [State.RUNNING, State.RUNNING]


def test_they_come_back_to_another_gpu(tool: Tool) -> None:
    assert tool.can_move
    suspend(tool, [7, 8], 1.0)
    resume(tool, [7, 8], {"GPU-a": "GPU-b"})
    assert (tool.is_on(7), tool.is_on(8)) == ("GPU-b", "GPU-b")


def test_one_whose_kernel_runs_on_is_left_alone_and_so_are_the_others(tool: Tool) -> None:
    tool.goes_wrong("lock", 8, "slow")
    with pytest.raises(NotInTime):
        suspend(tool, [7, 8], 0.1)
    assert states(tool) == [State.RUNNING, State.RUNNING]


@pytest.mark.parametrize("action", ["lock", "checkpoint"])
def test_what_is_refused_leaves_all_of_them_on_the_gpu(tool: Tool, action: str) -> None:
    tool.goes_wrong(action, 8, "refuse")
    with pytest.raises(NotDone, match="out of memory"):
        suspend(tool, [7, 8], 1.0)
    assert states(tool) == [State.RUNNING, State.RUNNING]


def test_what_cannot_come_back_leaves_all_of_them_in_host_memory(tool: Tool) -> None:
    suspend(tool, [7, 8], 1.0)
    tool.goes_wrong("restore", 8, "refuse")
    with pytest.raises(NotDone):
        resume(tool, [7, 8], {})
    assert states(tool) == [State.CHECKPOINTED, State.CHECKPOINTED]
    tool.goes_wrong("restore", 8, "")
    resume(tool, [7, 8], {})
    assert states(tool) == [State.RUNNING, State.RUNNING]


@pytest.mark.parametrize("action", ["checkpoint", "restore"])
def test_one_that_breaks_is_named(tool: Tool, action: str) -> None:
    if action == "restore":
        suspend(tool, [7, 8], 1.0)
    tool.goes_wrong(action, 8, "break")
    with pytest.raises(Broken, match="process 8 cannot go on") as caught:
        suspend(tool, [7, 8], 1.0) if action == "checkpoint" else resume(tool, [7, 8], {})
    assert caught.value.pid == 8
    assert tool.state(7) is (State.RUNNING if action == "checkpoint" else State.CHECKPOINTED)


def test_a_step_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_DRIVER", str(tmp_path))
    tool = AsProgram(tmp_path)
    tool.has(7, "GPU-a")
    tool.goes_wrong("checkpoint", 7, "hang")
    with pytest.raises(NotInTime, match="--action checkpoint --pid 7 took longer than 1 s"):
        suspend(tool, [7], 1.0)
    assert tool.state(7) is State.RUNNING


def test_an_older_driver_cannot_take_another_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_DRIVER", str(tmp_path))
    tool = AsProgram(tmp_path, version=570)
    tool.has(7, "GPU-a")
    assert not tool.can_move
    suspend(tool, [7], 1.0)
    with pytest.raises(NotDone, match="driver 580 can"):
        resume(tool, [7], {"GPU-a": "GPU-b"})
    resume(tool, [7], {})
    assert tool.is_on(7) == "GPU-a"


def test_a_node_without_the_program_says_so() -> None:
    with pytest.raises(NotDone, match="cuda-no-such is not on this node"):
        CudaCheckpoint("cuda-no-such")
