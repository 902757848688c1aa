"""All tests, as parts that the machine's cores take from one list; options are passed on to pytest.

A part is a process of pytest with servers of its own. The longest stand first, so that the cores end about together.
What a part printed follows when it has ended.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock

ROOT = Path(__file__).resolve().parents[1]
SLOWEST = "--durations=15"  # CI's record says where its minutes went


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the tests: what pytest is told to run."""

    name: str
    arguments: Sequence[str]


LONG = (
    Part("flows of processes and browsers", ("tests/flows",)),
    Part("runs at random", ("tests/chaos",)),
    Part("the product on Postgres", ("tests/controlplane", "--database=postgres")),
)
SHORT = (
    Part("the product on SQLite", ("tests/controlplane", "-m", "not nightly and not any_database")),
    Part("the cores", ("tests/autoscaler", "tests/gpushare", "tests/invariants", "tests/scheduler")),
)
FOLDERS = sorted({one for part in (*LONG, *SHORT) for one in part.arguments if one.startswith("tests/")})
PARTS = (*LONG, Part("all else", ("tests", *(f"--ignore={folder}" for folder in FOLDERS))), *SHORT)


class Runs:
    """Runs parts, several at once, and prints what each said as a whole."""

    def __init__(self) -> None:
        self._printing = Lock()
        self._is_over = Event()

    def passed(self, part: Part) -> bool:
        """Run this part to its end; whether all its tests passed."""
        if self._is_over.is_set():
            return False
        began = time.monotonic()
        self._say(f"{part.name}: begun")
        with tempfile.TemporaryFile() as said:
            command = [sys.executable, "-m", "pytest", SLOWEST, *part.arguments, *sys.argv[1:]]
            status = subprocess.Popen(command, cwd=ROOT, stdout=said, stderr=subprocess.STDOUT).wait()
            said.seek(0)
            minutes = (time.monotonic() - began) / 60
            self._say(f"{part.name}: exit status {status} after {minutes:.1f} minutes", said.read())
        return status == 0

    def stop(self) -> None:
        """Begin no further part. Who interrupts us tells pytest too, by the group; it ends its servers itself."""
        self._is_over.set()

    def _say(self, line: str, before: bytes = b"") -> None:
        with self._printing:
            sys.stdout.buffer.write(before)
            sys.stdout.buffer.write(f"tests: {line}\n".encode())
            sys.stdout.buffer.flush()


def main() -> int:
    """Exit status: 0 if all passed."""
    runs = Runs()
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as cores:
        found = [cores.submit(runs.passed, part) for part in PARTS]
        try:
            return not all([one.result() for one in found])
        except KeyboardInterrupt:
            runs.stop()
            return not all([one.result() for one in found])


if __name__ == "__main__":
    sys.exit(main())
