"""A node with one fake GPU: shares in a folder, the daemon as a process, programs as its containers would run them."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from controlplane.testbed import processes
from controlplane.testbed.fakecuda.device import Built, Sample

GIB = 1 << 30
_TOLD_AT = re.compile(r"is told at (\S+)\.\n")


@dataclass(slots=True)
class Rig:
    """library: what is preloaded; metrics_port: of the daemon, 0: a free one.

    Close it after use: it ends what it started.
    """

    folder: Path
    built: Built
    library: Path
    memory: int = 16 * GIB  # bytes, of the GPU
    metrics_port: int = 0
    daemon: "subprocess.Popen[bytes] | None" = None
    running: "list[subprocess.Popen[str]]" = field(default_factory=list)

    @property
    def device(self) -> Path:
        """The file that is the GPU."""
        return self.folder / "gpu"

    @property
    def shares(self) -> Path:
        """What the daemon serves."""
        return self.folder / "shares"

    def share(
        self, name: str, *, guarantee: int, limit: int = 1000, memory: int = 1000, gpu: str = "0", pod: str = ""
    ) -> None:
        """A container with this share: milli-GPU and MiB. The daemon's folder says so from now on."""
        (self.shares / name / "container").mkdir(parents=True, exist_ok=True)
        said = {"gpu": gpu, "guarantee": guarantee, "limit": limit, "memory": memory, "pod": pod}
        draft = self.shares / name / "draft"
        draft.write_text(json.dumps(said))
        draft.replace(self.shares / name / "share.json")

    def serve(self, *names: str) -> None:
        """Start the daemon, and wait until it serves these shares; all, if none is named."""
        wanted = names or self._names()
        command = [sys.executable, "-m", "controlplane.enforcer", "--folder", str(self.shares)]
        command += ["--metrics-port", str(self.metrics_port)]
        for name in wanted:
            (self._container(name) / "socket").unlink(missing_ok=True)
        self.daemon = processes.start(command, log=self.folder / "daemon.log")

        def serves_all() -> bool:
            return all((self._container(name) / "socket").exists() for name in wanted)

        processes.wait_for(self.daemon, serves_all, "the daemon", self.folder / "daemon.log")

    def metrics_url(self) -> str:
        """Where the newest daemon says that it tells for how long each has its GPU."""
        found: list[str] = _TOLD_AT.findall((self.folder / "daemon.log").read_text())
        return found[-1]

    def serves(self, name: str) -> None:
        """Wait until the daemon serves a share that came later."""
        self.until((self._container(name) / "socket").exists, f"share {name}")

    def until(self, is_so: Callable[[], bool], what: str) -> None:
        """Wait. Raises TimeoutError after half a minute."""
        processes.wait_until(is_so, what)

    def kill_daemon(self) -> None:
        """End it without a chance to say so."""
        assert self.daemon is not None  # noqa: S101 - for mypy
        self.daemon.send_signal(signal.SIGKILL)
        self.daemon.wait()
        self.daemon = None

    def run(self, share: str | None, *told: object, way: str = "linked", **more: str) -> str:
        """Run the program to its end; what it prints. share None: without the library."""
        return self.end(self.start(share, *told, way=way, **more))

    def start(self, share: str | None, *told: object, way: str = "linked", **more: str) -> "subprocess.Popen[str]":
        """Start it."""
        return self.start_program([str(self.built.client), *map(str, told)], share, WAY=way, **more)

    def start_program(self, command: list[str], share: str | None, **more: str) -> "subprocess.Popen[str]":
        """Start any program as a container of this share would."""
        made = subprocess.Popen(command, env=self.environment(share) | more, stdout=subprocess.PIPE, text=True)
        self.running.append(made)
        return made

    def end(self, program: "subprocess.Popen[str]") -> str:
        """Wait for its end; what it printed. Raises RuntimeError if it failed."""
        said = program.communicate()[0]
        if program.returncode:
            raise RuntimeError(f"{program.args!r} ended with {program.returncode}")
        return said

    def environment(self, share: str | None) -> dict[str, str]:
        """The variables of a container."""
        own = {"FAKECUDA_DEVICE": str(self.device), "FAKECUDA_MEMORY": str(self.memory)}
        own["LD_LIBRARY_PATH"] = str(self.built.folder)
        if share is not None:
            own["LD_PRELOAD"] = str(self.library)
            own["WEFT_GPU_ENFORCER"] = str(self._container(share))
            own["FAKECUDA_GROUP"] = share
        return os.environ | own

    def sample(self) -> Sample:
        """The GPU as it is now."""
        return self.built.sample(self.device)

    def close(self) -> None:
        """End all."""
        for program in self.running:
            program.kill()
            program.wait()
            if program.stdout is not None:
                program.stdout.close()
        if self.daemon is not None:
            processes.end(self.daemon)

    def _names(self) -> list[str]:
        return sorted(path.name for path in self.shares.iterdir()) if self.shares.is_dir() else []

    def _container(self, share: str) -> Path:
        return self.shares / share / "container"
