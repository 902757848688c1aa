"""A training that waits for its input: run in a container as `python3 FILE HOW`, with weft/reporter.py beside it.

HOW is `cpu`: the input is work for a CPU, so it comes as fast as the CPU limit allows; or `elsewhere`: it comes from
elsewhere, after a time that no CPU makes shorter, while another thread keeps the CPU at its limit to no harm.
"""

import sys
import threading
import time

from weft.reporter import report

INPUT_SECONDS, COMPUTE_SECONDS = 0.02, 0.01  # of a step: of a CPU, and of a device
ELSEWHERE_SECONDS = 0.08


def busy(seconds: float) -> None:
    """Keep one CPU busy for so long, of its own time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def main(how: str) -> None:
    """Train until told to stop."""
    if how == "elsewhere":
        threading.Thread(target=busy, args=(1e9,), daemon=True).start()
    while True:
        began = time.perf_counter()
        busy(INPUT_SECONDS) if how == "cpu" else time.sleep(ELSEWHERE_SECONDS)
        had_input = time.perf_counter()
        time.sleep(COMPUTE_SECONDS)
        report(step_time=time.perf_counter() - began, data_wait=had_input - began, sync_time=0.0)


if __name__ == "__main__":
    main(sys.argv[1])
