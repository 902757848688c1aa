"""Workers that train together and wait for their input: run in a container as `python3 FILE HOW FOLDER`, with
weft/reporter.py and controlplane/testbed/realnode/elastic.py beside it.

They exchange gradients as those of elastic.py do, and report each step. HOW is `cpu`: the input is work for a CPU, so
it comes as fast as the CPU limit allows; or `elsewhere`: it comes from elsewhere, after a time that no CPU makes
shorter, while another thread uses up what CPU the limit allows in that time, to no harm.
"""

import sys
import threading
import time
from pathlib import Path

from controlplane.testbed.realnode import elastic
from weft import report

INPUT_SECONDS, COMPUTE_SECONDS = 0.015, 0.025  # of a step: of a CPU, and of a device
ELSEWHERE_SECONDS, USED_SECONDS = 0.32, 0.069  # until it comes; CPU of a step in all: 97 % of what the limit allows
CPU = {"cpu": 60, "elsewhere": 200}  # the limit of a worker, 1/1000 cores: an input takes three of the kernel's periods
RATE = 0.001  # so slowly that the loss still falls when the test ends


def busy(seconds: float) -> None:
    """Keep one CPU busy for so long, of its own time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class Course(elastic.Course):
    """Each step: input, the device, the gradient and the exchange; then it is reported."""

    rate = RATE

    def __init__(self, how: str) -> None:
        self._how, self._used = how, 0.0

    def begin(self) -> None:
        """Wait for the input, then for the device."""
        self._began = time.perf_counter()
        if self._how == "cpu":
            busy(INPUT_SECONDS)
        else:
            meanwhile = threading.Thread(target=self._use_up)
            meanwhile.start()
            time.sleep(ELSEWHERE_SECONDS)
            meanwhile.join()
        self._had_input = time.perf_counter()
        time.sleep(COMPUTE_SECONDS)

    def _use_up(self) -> None:
        while time.process_time() - self._used < USED_SECONDS:
            pass
        self._used = time.process_time()

    def done(self, exchange: float) -> None:
        """Tell where its time went."""
        step, data = time.perf_counter() - self._began, self._had_input - self._began
        report(step_time=step, data_wait=data, sync_time=exchange)


if __name__ == "__main__":
    elastic.train(Path(sys.argv[2]), Course(sys.argv[1]))
