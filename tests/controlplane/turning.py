"""What the tests of the loops' threads share: what a thread tells of its rounds, and rounds for it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from controlplane.loops.lease import Report
from controlplane.loops.wiring import Wiring
from controlplane.runtime import wake

Round = Callable[[Wiring], Report]


@dataclass
class Told:
    """What the loops say of their rounds, in order."""

    results: list[tuple[str, str]] = field(default_factory=list)
    at: list[float] = field(default_factory=list)

    def __call__(self, loop: str, result: str, seconds: float) -> None:
        self.results.append((loop, result))
        self.at.append(time.monotonic())

    def has(self, loop: str, result: str, times: int = 1) -> bool:
        """Whether it was told so often; the loop is hinted, as it else waits for its period."""
        wake.bells[loop].set()
        return self.results.count((loop, result)) >= times


def well(name: str) -> Round:
    return lambda wired: Report(name, did=1, took=0.25)
