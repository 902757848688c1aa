"""Whether a process of ours is alive: a file it touches while it makes progress, for container health checks.

    python -m controlplane.runtime.liveness worker 60

ends with 0 if `weft-worker.alive` was touched in the last 60 seconds. Standard library only: it runs every few
seconds beside each worker and beat. The folder is the machine's for temporary files, or WEFT_ALIVE.
"""

import os
import sys
import tempfile
import time
from pathlib import Path


def path(part: str) -> Path:
    """The file of one kind of process."""
    return Path(os.environ.get("WEFT_ALIVE") or tempfile.gettempdir()) / f"weft-{part}.alive"


def touch(part: str) -> None:
    """Say that this process makes progress."""
    path(part).touch()


def age_seconds(part: str) -> float | None:
    """How long ago it last said so; None if never."""
    try:
        return max(0.0, time.time() - path(part).stat().st_mtime)
    except FileNotFoundError:
        return None


def main(part: str, limit: str) -> int:
    """The exit code of a health check, with a line that says why."""
    age = age_seconds(part)
    if age is None:
        print(f"{part}: no progress yet ({path(part)})")
        return 1
    print(f"{part}: progress {age:.0f} s ago, at most {limit} s are allowed")
    return int(age > float(limit))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
