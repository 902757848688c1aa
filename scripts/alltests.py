"""All tests, as parts that the machine's cores take from one list; options are passed on to pytest.

`python -m scripts.alltests`. A part is a process of pytest with servers of its own. First each part says how many tests
it has; then the longest begin first, so that the cores end about together. What failed is printed at once.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from controlplane.testbed.processes import end
from tests.progress import plugin, tally
from tests.progress.show import Show, shown
from tests.servers import must_have_all
from tests.thoroughness import SHORT_SENTENCE

ROOT = Path(__file__).resolve().parents[1]
NO_TESTS = 5  # pytest's status if it found none: a selection by the caller's options may leave a part without


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the tests: what pytest is told to run. is_alone: after all others, with nothing beside it."""

    name: str
    arguments: Sequence[str]
    is_alone: bool = False


NO_KUBERNETES = ("-m", "not nightly and not kubernetes")
BROWSERS = (
    "accounts", "browser", "headers", "hostile_pages", "keyboard", "notebook_proxy", "pictures", "queue_drag",
    "signed_out", "silence",
)  # fmt: skip
# The longest first, and what waits for processes of its own beside what computes.
LONG = (
    Part("runs at random", ("tests/chaos",)),
    Part("flows of processes", ("tests/flows", *(f"--ignore=tests/flows/test_{name}.py" for name in BROWSERS))),
    Part("the commands of the documents", ("tests/documents", "tests/test_audit_of_the_run.py")),
    Part("flows of browsers", tuple(f"tests/flows/test_{name}.py" for name in BROWSERS)),
    Part("the product on SQLite", ("tests/controlplane", *NO_KUBERNETES)),
)
SHORT = (
    Part(
        "the product on Postgres",
        ("tests/controlplane", "--database=postgres", "-m", f"{NO_KUBERNETES[1]} and both_databases"),
    ),
    Part("the cores", ("tests/autoscaler", "tests/gpushare", "tests/invariants", "tests/scheduler")),
)
# What programs get of a simulated GPU is a matter of milliseconds, which beside other parts they do not have.
ALONE = (Part("the time of shared GPUs", ("tests/enforcer",), is_alone=True),)
# Two servers, each of which ends with its part: even when idle one takes a twentieth of a core. The tests that use all
# rights of ours are together, as an unused right is one that none of them used; the audit judges both parts' logs.
ON_KUBERNETES = ("-m", "kubernetes and not nightly")
OF_RIGHTS = (
    *("tests/activator", "tests/adopted", "tests/backends", "tests/contract/test_stories.py"),
    "tests/controlplane/kubernetes",
)
RIGHTS = Part("the rights on a real Kubernetes", (*OF_RIGHTS, "tests/test_audit_of_the_run.py", *ON_KUBERNETES))
KUBERNETES = Part(
    "all else on a real Kubernetes",
    ("tests", *(f"--ignore={one}" for one in ("tests/flows", "tests/documents", *OF_RIGHTS)), *ON_KUBERNETES),
)
OF_PARTS = [one for part in (*LONG, *SHORT, *ALONE) for one in part.arguments if one.startswith("tests/")]
FOLDERS = sorted({"/".join(one.split("/")[:2]) for one in OF_PARTS})
REST = Part("all else", ("tests", *(f"--ignore={folder}" for folder in FOLDERS), *NO_KUBERNETES))
PARTS = (*LONG, RIGHTS, KUBERNETES, REST, *SHORT, *ALONE)


class Run:
    """One part's process: collects, waits for its turn, runs its tests, and tells of each."""

    def __init__(self, part: Part, options: Sequence[str], env: Mapping[str, str]) -> None:
        self.part = part
        self.heard = tally.Part(part.name)
        self._options = options
        self._env = env
        self._process: subprocess.Popen[bytes] | None = None
        self._socket, self._lines = _nothing()
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  it is read after the process's end
        self._is_over = False

    def collect(self, show: Show) -> None:
        """Start the process and wait until it has found its tests."""
        if self._is_over:
            return
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "pytest", "-p", plugin.__name__, f"{plugin.OPTION}={theirs.fileno()}"]
        with theirs:
            # A session of its own: of a Ctrl-C it hears from us, once, and ends its servers in peace.
            self._process = subprocess.Popen(
                [*command, *self.part.arguments, *self._options],
                cwd=ROOT,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._socket, self._lines = ours, ours.makefile("rb")
        self._hear(show, until="collected")

    def finish(self, show: Show) -> int:
        """Let it run its tests to the end; its exit status."""
        process = self._process
        if process is None:
            return 0
        self.heard.began = time.monotonic()
        if not self._is_over:
            with contextlib.suppress(OSError):  # it has ended: its status says why
                self._socket.sendall(b"\n")
        self._hear(show)
        self._socket.close()
        status = process.wait()
        self.heard.ended = time.monotonic()
        self.heard.test = ""
        show.say(f"tests: {self.part.name}: ended with status {status}, {self.heard.done} of {self.heard.total} done")
        if status not in (0, NO_TESTS) and not (status == 1 and self.heard.failed) and not self._is_over:
            self._output.seek(0)
            show.say(self._output.read().decode(errors="replace"))
        return 0 if status == NO_TESTS else status

    def stop(self) -> None:
        """End it: as Ctrl-C does, so that it ends its servers."""
        self._is_over = True
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)

    def end(self) -> None:
        """Leave no process behind, also if it was stopped before its turn."""
        if self._process is not None:
            end(self._process, signal.SIGINT)

    def _hear(self, show: Show, until: str = "") -> None:
        for told in self._lines:
            said: dict[str, Any] = json.loads(told)
            self.heard.hear(said, time.monotonic())
            if said["event"] == "failed":
                show.say(f"tests: FAILED {said['test']} ({self.part.name})\n{said['text']}")
            if said["event"] == until:
                return


@contextlib.contextmanager
def keeping_bytecode() -> Iterator[Mapping[str, str]]:
    """The environment of the parts, in which Python keeps what it compiled.

    Hundreds of processes of ours start in the tests, and where PYTHONDONTWRITEBYTECODE is set, as in many images of
    containers, each spends half of its start on compiling what it imports. So that no file is left behind there, what
    is kept lies in a folder of this run.
    """
    if not os.environ.get("PYTHONDONTWRITEBYTECODE"):
        yield os.environ
        return
    with tempfile.TemporaryDirectory(prefix="weft-bytecode-", ignore_cleanup_errors=True) as folder:
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        yield kept | {"PYTHONPYCACHEPREFIX": folder}


def _nothing() -> tuple[socket.socket, Iterable[bytes]]:
    return socket.socket(), ()


def run(parts: Sequence[Part], options: Sequence[str], at_once: int) -> int:
    """Run the parts, so many at once, and print how it went; exit status 0 if all passed."""
    with keeping_bytecode() as env:
        return _run([Run(part, options, env) for part in parts], at_once)


def _run(runs: Sequence[Run], at_once: int) -> int:
    heard = [one.heard for one in runs]
    began = time.monotonic()
    with shown(heard, began) as show, ThreadPoolExecutor(at_once) as pool:
        show.say(f"tests: {len(runs)} parts, {at_once} at once: looking for their tests")
        try:
            list(pool.map(lambda one: one.collect(show), runs))
            show.say(f"tests: {tally.line(heard, time.monotonic(), began)}")
            beside = [one for one in runs if not one.part.is_alone]
            statuses = list(pool.map(lambda one: one.finish(show), beside))
            statuses += [one.finish(show) for one in runs if one.part.is_alone]
        except KeyboardInterrupt:
            show.say("tests: stopping")
            for one in runs:
                one.stop()
            statuses = [1]
    for one in runs:
        one.end()
    for text in (*(() if must_have_all() else (SHORT_SENTENCE,)), *tally.summary(heard)):
        print(text)
    return int(any(statuses) or not any(one.done for one in heard))


if __name__ == "__main__":
    # One part more than there are cores: those with processes of their own wait for them a third of the time.
    sys.exit(run(PARTS, sys.argv[1:], len(os.sched_getaffinity(0)) + 1))
