"""The driver's checkpoint and restore of processes: what a GPU has of a process goes to host memory, and back.

The process goes on meanwhile; what it asks of the GPU waits. States and steps are the driver's (CUDA driver API,
"CUDA Checkpointing"): running, lock, locked, checkpoint, checkpointed, restore, locked, unlock, running. The host
memory is the process's own, so its container must be allowed to have it.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Protocol


class State(StrEnum):
    """How the driver says that a process is. FAILED: a checkpoint or restore broke it, and it cannot go on."""

    RUNNING = "running"
    LOCKED = "locked"
    CHECKPOINTED = "checkpointed"
    FAILED = "failed"


class NotDone(Exception):  # noqa: N818 - named for what is so
    """The driver refused, with its words; what was to be changed is as it was."""


class NotInTime(NotDone):
    """It was not done in time: a kernel still runs, or a call hangs."""


class Broken(Exception):  # noqa: N818
    """A process that cannot go on: its container has to be started again."""

    def __init__(self, pid: int, why: str) -> None:
        super().__init__(f"process {pid} cannot go on: {why}")
        self.pid = pid


class Suspender(Protocol):
    """The tool on a node. All but `can_move` raise NotDone, for a process that is gone or never used a GPU as well."""

    @property
    def can_move(self) -> bool:
        """Whether a restore may take another GPU of the same chip: driver 580 and later."""

    def state(self, pid: int) -> State:
        """How it is now."""

    def lock(self, pid: int, seconds: float) -> None:
        """From now on what it asks of the GPU waits; raises NotInTime if what it has launched goes on for longer."""

    def checkpoint(self, pid: int) -> None:
        """Move what its GPU has to host memory, and free the GPU. It has to be locked."""

    def restore(self, pid: int, moved: Mapping[str, str]) -> None:
        """Bring it back, to other GPUs where `moved` says so (UUID by UUID). It is locked then."""

    def unlock(self, pid: int) -> None:
        """Let it go on."""


def suspend(tool: Suspender, pids: Sequence[int], wait: float) -> None:
    """Move to host memory what the GPU has of these processes, of all or of none; again is as good as once.

    wait: s for kernels that run. Raises NotDone, with all on the GPU and going on; Broken where one is lost.
    """
    before = {pid: tool.state(pid) for pid in pids}
    try:
        for pid in pids:
            if before[pid] is State.RUNNING:
                tool.lock(pid, wait)
        for pid in pids:
            if before[pid] is not State.CHECKPOINTED:
                tool.checkpoint(pid)
    except NotDone as error:
        for pid in pids:
            _back_to_running(tool, pid, str(error))
        raise


def resume(tool: Suspender, pids: Sequence[int], moved: Mapping[str, str]) -> None:
    """Bring these processes back to a GPU and let them go on, all or none; again is as good as once.

    Raises NotDone, with all in host memory; Broken where one is lost.
    """
    try:
        for pid in pids:
            if tool.state(pid) is State.CHECKPOINTED:
                tool.restore(pid, moved)
    except NotDone as error:
        for pid in pids:
            _back_to_host(tool, pid, str(error))
        raise
    for pid in pids:
        if tool.state(pid) is State.LOCKED:
            tool.unlock(pid)


def _back_to_running(tool: Suspender, pid: int, why: str) -> None:
    state = _state(tool, pid)
    try:
        if state is State.CHECKPOINTED:
            tool.restore(pid, {})
        if state in (State.CHECKPOINTED, State.LOCKED):
            tool.unlock(pid)
    except NotDone as error:
        raise Broken(pid, str(error)) from error
    if state is State.FAILED:
        raise Broken(pid, why)


def _back_to_host(tool: Suspender, pid: int, why: str) -> None:
    state = _state(tool, pid)
    try:
        if state is State.LOCKED:
            tool.checkpoint(pid)
    except NotDone as error:
        raise Broken(pid, str(error)) from error
    if state is State.FAILED:
        raise Broken(pid, why)


def _state(tool: Suspender, pid: int) -> State | None:
    """None: it is gone."""
    with suppress(NotDone):
        return tool.state(pid)
    return None
