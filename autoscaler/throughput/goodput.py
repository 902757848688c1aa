"""How much of an example's work counts with a batch, by the noise of the gradients: goodput is throughput times that.

Source: the gradient noise scale N of S. McCandlish et al., 2018 (arXiv:1812.06162): with a batch B it takes B + N
examples where it would take N with the least batch; its use as goodput: Pollux (OSDI'21).
"""

import math
from dataclasses import dataclass

SMOOTH = 0.2  # of an exponential mean: one estimate of the noise says little


@dataclass(frozen=True, slots=True)
class Gradients:
    """Means (of logarithms) over looks, above 0. noise: the gradient noise scale, examples; batch: of all workers in a
    step."""

    noise: float
    batch: float

    def efficiency(self, batch: float) -> float:
        """How much of an example's work counts with this batch of all workers, against the batch now; above 0."""
        return (self.noise + self.batch) / (self.noise + batch)

    def advantage(self, before: float, after: float) -> float:
        """How many times as much an example counts with the batch `after` as with `before`, of all workers; above 0."""
        return (self.noise + before) / (self.noise + after)


def seen(before: Gradients | None, noise: float | None, batch: float | None) -> Gradients | None:
    """What is known after a look that told these; what was known before, where one is unknown or not above 0."""
    if not noise or not batch or min(noise, batch) <= 0 or not math.isfinite(noise * batch):
        return before
    if before is None:
        return Gradients(noise, batch)
    return Gradients(_mean(before.noise, noise), _mean(before.batch, batch))


def _mean(before: float, now: float) -> float:
    return math.exp((1 - SMOOTH) * math.log(before) + SMOOTH * math.log(now))
