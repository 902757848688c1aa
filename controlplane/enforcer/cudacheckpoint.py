"""NVIDIA's `cuda-checkpoint` as the tool that suspends processes (github.com/NVIDIA/cuda-checkpoint, driver 570 on).

Its licence does not let us ship it: the node has it. Root is needed, and its numbers of the processes. Written by its
documentation and tried with a program that we wrote to stand for it; **not verified on hardware**.
"""

import shutil
import subprocess
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from controlplane.enforcer.suspender import NotDone, NotInTime, State

PROGRAM = "cuda-checkpoint"
LONGEST = 120.0  # s that a step may take: 80 GiB at 1 s for each GiB, and half as much again
MORE = 5.0  # s beyond its own time-out until a lock is given up
MOVE = "--device-map"  # of `--action restore`, where the tool can take another GPU


def find(folder: Path | None) -> str:
    """The program there, else as PATH has it."""
    return str(folder / PROGRAM) if folder is not None and (folder / PROGRAM).exists() else PROGRAM


class CudaCheckpoint:
    """Runs the program for each step."""

    def __init__(self, program: str = PROGRAM, longest: float = LONGEST) -> None:
        """Raises NotDone where there is no such program."""
        found = shutil.which(program)
        if found is None:
            raise NotDone(f"{program} is not on this node; it comes with NVIDIA's cuda-checkpoint")
        self._program, self._longest = found, longest

    @cached_property
    def can_move(self) -> bool:
        """Whether its help knows of other GPUs."""
        try:
            return MOVE in self._run("--help")
        except NotDone:
            return False

    def state(self, pid: int) -> State:
        """What it prints."""
        said = self._run("--get-state", "--pid", str(pid)).strip()
        try:
            return State(said)
        except ValueError:
            raise NotDone(f"{PROGRAM} calls process {pid} {said[:80]!r}; its states are {', '.join(State)}") from None

    def lock(self, pid: int, seconds: float) -> None:
        """With its own time-out, after which the process goes on."""
        try:
            self._act("lock", pid, "--timeout", str(round(1000 * seconds)), longest=seconds + MORE)
        except NotDone as error:
            if isinstance(error, NotInTime) or "timeout" in str(error).lower() or "timed out" in str(error).lower():
                raise NotInTime(f"process {pid} did not come to rest in {seconds:g} s: {error}") from error
            raise

    def checkpoint(self, pid: int) -> None:
        """As it says."""
        self._act("checkpoint", pid)

    def restore(self, pid: int, moved: Mapping[str, str]) -> None:
        """With a map of GPUs only where there is one, as older versions do not know it."""
        if moved and not self.can_move:
            raise NotDone(f"{PROGRAM} on this node cannot restore to another GPU; driver 580 can")
        pairs = ",".join(f"{old}={new}" for old, new in sorted(moved.items()))
        self._act("restore", pid, *((MOVE, pairs) if moved else ()))

    def unlock(self, pid: int) -> None:
        """As it says."""
        self._act("unlock", pid)

    def _act(self, action: str, pid: int, *more: str, longest: float | None = None) -> None:
        self._run("--action", action, "--pid", str(pid), *more, longest=longest)

    def _run(self, *arguments: str, longest: float | None = None) -> str:
        command = [self._program, *arguments]
        limit = self._longest if longest is None else longest
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)  # noqa: S603
        except subprocess.TimeoutExpired as error:
            raise NotInTime(f"{' '.join(arguments)} took longer than {limit:g} s") from error
        except OSError as error:
            raise NotDone(f"{self._program}: {error}") from error
        if done.returncode:
            words = (done.stderr or done.stdout).strip()[:300]
            raise NotDone(f"{' '.join(arguments)}: {words or f'exit code {done.returncode}'}")
        return done.stdout
