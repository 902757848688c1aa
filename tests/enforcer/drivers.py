"""Two tools that suspend processes on drivers of our own making: one in memory, and the real adapter's program."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from controlplane.enforcer.cudacheckpoint import CudaCheckpoint
from controlplane.enforcer.suspender import NotDone, NotInTime, State

PROGRAM = Path(__file__).with_name("fake-cuda-checkpoint")
NEXT = {
    "lock": (State.RUNNING, State.LOCKED),
    "checkpoint": (State.LOCKED, State.CHECKPOINTED),
    "restore": (State.CHECKPOINTED, State.LOCKED),
    "unlock": (State.LOCKED, State.RUNNING),
}


@dataclass
class InMemory:
    """A driver as values. wrong: (action, pid) -> refuse, break, slow, hang."""

    can_move: bool = True
    states: dict[int, State] = field(default_factory=dict)
    gpus: dict[int, str] = field(default_factory=dict)
    wrong: dict[tuple[str, int], str] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)

    def has(self, pid: int, gpu: str) -> None:
        """A process that runs on that GPU."""
        self.states[pid], self.gpus[pid] = State.RUNNING, gpu

    def goes_wrong(self, action: str, pid: int, what: str) -> None:
        """From now on; an empty word: no longer."""
        self.wrong[action, pid] = what

    def is_on(self, pid: int) -> str | None:
        """Its GPU; None: its memory is in the host."""
        return None if self.states[pid] is State.CHECKPOINTED else self.gpus[pid]

    def state(self, pid: int) -> State:
        if pid not in self.states:
            raise NotDone(f"process {pid} does not use CUDA")
        return self.states[pid]

    def lock(self, pid: int, seconds: float) -> None:
        del seconds
        self._act("lock", pid)

    def checkpoint(self, pid: int) -> None:
        self._act("checkpoint", pid)

    def restore(self, pid: int, moved: Mapping[str, str]) -> None:
        if moved and not self.can_move:
            raise NotDone("cannot restore to another GPU")
        self._act("restore", pid)
        self.gpus[pid] = moved.get(self.gpus[pid], self.gpus[pid])

    def unlock(self, pid: int) -> None:
        self._act("unlock", pid)

    def _act(self, action: str, pid: int) -> None:
        before, after = NEXT[action]
        if self.state(pid) is not before:
            raise NotDone(f"illegal state: the process is {self.states[pid]}")
        wrong = self.wrong.get((action, pid))
        if wrong in ("slow", "hang"):
            raise NotInTime(f"process {pid} did not come to rest")
        if wrong == "break":
            self.states[pid] = State.FAILED
        if wrong in ("break", "refuse"):
            raise NotDone("out of memory")
        self.states[pid] = after
        self.steps.append(f"{action} {pid}")


class AsProgram(CudaCheckpoint):
    """The adapter, run on the program that stands for NVIDIA's."""

    def __init__(self, folder: Path, version: int = 580) -> None:
        """A driver of that version."""
        os.environ["FAKE_DRIVER"] = str(folder)
        (folder / "VERSION").write_text(str(version))
        super().__init__(str(PROGRAM), longest=1.0)
        self._folder = folder

    def has(self, pid: int, gpu: str) -> None:
        """A process that runs on that GPU."""
        (self._folder / str(pid)).write_text(f"running {gpu}")

    def goes_wrong(self, action: str, pid: int, what: str) -> None:
        """From now on; an empty word: no longer."""
        (self._folder / "PLANTED").write_text(f"{action} {pid} {what}" if what else "")

    def is_on(self, pid: int) -> str | None:
        """Its GPU; None: its memory is in the host."""
        state, gpu = (self._folder / str(pid)).read_text().split()
        return None if state == State.CHECKPOINTED else gpu
