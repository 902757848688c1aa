"""All tests, as two lines of processes that share the machine's cores; options are passed on to pytest.

What needs servers and browsers goes in one line. Pure computing, and then the database's tests again on Postgres, go in
the other, whose words follow when both are done.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
COMPUTING = ("tests/autoscaler", "tests/chaos", "tests/gpushare", "tests/invariants", "tests/scheduler")
SERVING = tuple(f"--ignore={folder}" for folder in COMPUTING)
ON_POSTGRES = ("tests/controlplane", "--database=postgres")
INTERRUPTED = 2  # pytest's exit status


def passed(line: Sequence[Sequence[str]], output: IO[bytes] | None = None) -> bool:
    """Run pytest with each of these arguments, one after the other; whether all passed."""
    found = []
    for arguments in line:
        command = [sys.executable, "-m", "pytest", *arguments, *sys.argv[1:]]
        found.append(ended(subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)))
        if found[-1] == INTERRUPTED:
            break
    return not any(found)


def ended(process: "subprocess.Popen[bytes]") -> int:
    """Its exit status. Who interrupts us tells it too, by the group, and it is left to end its servers."""
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue


def main() -> int:
    """Exit status: 0 if all passed."""
    if len(os.sched_getaffinity(0)) < 2:
        return not passed([SERVING, COMPUTING, ON_POSTGRES])
    with tempfile.TemporaryFile() as said, ThreadPoolExecutor(1) as pool:
        beside = pool.submit(passed, [COMPUTING, ON_POSTGRES], said)
        first = passed([SERVING])
        second = beside.result()
        said.seek(0)
        sys.stdout.buffer.write(said.read())
    return not (first and second)


if __name__ == "__main__":
    sys.exit(main())
