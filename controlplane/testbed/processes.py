"""Servers as child processes: started on a loopback port, ended with the process that started them."""

import contextlib
import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 30.0  # a first start takes 2 to 4 s; a loaded CI machine ten times that
STOP_SECONDS = 10.0
POLL_SECONDS = 0.05

_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None, use_errno=True).prctl  # looked up here: after a fork nothing may be
# The kernel ends a child when the thread that forked it ends, so all are forked by one that lasts.
_forker = ThreadPoolExecutor(1, thread_name_prefix="forker")

HOW = "`scripts/get` gets it, or says why it cannot"


class MissingError(Exception):
    """Something the machine lacks, and how to get it. A test that raises it is skipped, and counted by this name."""

    def __init__(self, name: str, how: str) -> None:
        super().__init__(f"{name} is missing: {how}")
        self.name = name
        self.how = how


class MissingTraceError(MissingError):
    """A trace file that Weft may not ship. What needs it runs where it is; a clone is whole without it, in CI too."""


def free_port() -> int:
    """Return a loopback port that no process listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def listens(port: int) -> bool:
    """Whether something accepts connections on this loopback port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def wait_until(
    is_ready: Callable[[], bool], what: str, seconds: float = START_SECONDS, poll: float = POLL_SECONDS
) -> None:
    """Ask each `poll` s until `is_ready()`; raise TimeoutError naming `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while not is_ready():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} not ready after {seconds:g} s")
        time.sleep(poll)


def wait_for(process: "subprocess.Popen[bytes]", is_ready: Callable[[], bool], name: str, log: Path) -> None:
    """Wait until a server answers; if it ends instead, raise RuntimeError with its log."""

    def is_ready_or_dead() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"{name} ended with {process.returncode}:\n{log.read_text(errors='replace')}")
        return is_ready()

    wait_until(is_ready_or_dead, name)


@contextlib.contextmanager
def running(
    command: Sequence[str | Path],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    user: str | None = None,
    stop: signal.Signals = signal.SIGTERM,
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a command in a process group of its own, output to `log`, and end it on leaving.

    It gets `stop` too if this process itself is killed, so no server outlives its starter.
    """
    process = start(command, log=log, env=env, user=user, stop=stop)
    try:
        yield process
    finally:
        end(process, stop)


def start(
    command: Sequence[str | Path],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    user: str | None = None,
    stop: signal.Signals = signal.SIGTERM,
) -> "subprocess.Popen[bytes]":
    """Start a command as `running` does and leave it to the caller to end it."""

    def die_with_parent() -> None:
        _prctl(_PR_SET_PDEATHSIG, int(stop))

    def fork() -> "subprocess.Popen[bytes]":
        with log.open("ab") as output:
            return subprocess.Popen(
                [str(part) for part in command],
                cwd=ROOT if user is None else "/",
                env=None if env is None else dict(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=user,
                group=None if user is None else pwd.getpwnam(user).pw_gid,
                extra_groups=None if user is None else [],
                preexec_fn=die_with_parent,  # noqa: PLW1509  it only makes a system call
            )

    return _forker.submit(fork).result()


def end(process: "subprocess.Popen[bytes]", stop: signal.Signals = signal.SIGTERM) -> int:
    """Ask a process to stop, then kill what is left of its group; return its exit code."""
    if process.poll() is None:
        process.send_signal(stop)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


@contextlib.contextmanager
def private_folder(prefix: str, user: str | None = None) -> Iterator[Path]:
    """A temporary folder, of `user` if one is named, deleted on leaving."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    if user is not None:
        shutil.chown(folder, user)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
