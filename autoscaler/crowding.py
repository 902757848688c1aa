"""How much longer requests take that share a replica with others, and how many may, so that they are still on time.

A replica of a language model runs several requests in one batch, and each further one makes all of them slower. That is
learned from looks: a line through the mean service time of those answered over the requests that a replica ran.
Where it cannot be told from noise, nothing follows.
Source: docs/algorithms.md#services.
"""

import math
from dataclasses import dataclass

CLEAR = 3.0  # standard errors by which the line must rise
CLEAR_LATE = 2.0  # the same where requests are late that did not wait: sharing is then the likely cause
FEWEST = 40  # looks, less what is forgotten, before a line is believed: ten minutes
KEPT = 0.5 ** (1 / 240)  # of what was seen, after each further look: half after an hour


@dataclass(frozen=True, slots=True)
class Crowding:
    """Sums over looks, each weighted by the requests answered in it: of the requests x that a replica ran, and of their
    mean service time y, s."""

    looks: float = 0.0
    weight: float = 0.0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0
    yy: float = 0.0

    def seen(self, running: float, seconds: float, answered: float) -> "Crowding":
        """With one look more: requests that a replica ran, the mean service time of those answered, and how many."""
        x, y, w = running, seconds, answered
        return Crowding(
            KEPT * self.looks + 1, KEPT * self.weight + w, KEPT * self.x + w * x, KEPT * self.y + w * y,
            KEPT * self.xx + w * x * x, KEPT * self.xy + w * x * y, KEPT * self.yy + w * y * y,
        )  # fmt: skip

    @property
    def mean(self) -> float:
        """Requests that a replica ran on average; 0 before any was seen."""
        return self.x / self.weight if self.weight else 0.0

    def growth(self, clear: float = CLEAR) -> float:
        """By what part of the mean service time one more makes all slower; 0 where that may be noise.

        clear: standard errors that the line must rise.
        """
        if self.looks < FEWEST or self.y <= 0:
            return 0.0
        spread = self.xx - self.x * self.x / self.weight
        together = self.xy - self.x * self.y / self.weight
        rest = self.yy - self.y * self.y / self.weight
        if spread <= 1e-9 * self.xx or together <= 0:
            return 0.0
        slope = together / spread
        error = math.sqrt(max(0.0, rest - slope * together) / (self.looks - 2) / spread)
        return slope * self.weight / self.y if slope > clear * error else 0.0
