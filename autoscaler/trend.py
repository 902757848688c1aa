"""A straight line through what was measured, by least squares, and how sure its slope is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

FEWEST = 4  # points below which there is no trend to be told from noise
CLEAR = 2.0  # standard errors by which a slope must differ from none


@dataclass(frozen=True, slots=True)
class Trend:
    """The line `level + slope * (t - moment)`. error: standard error of the slope."""

    slope: float = 0.0
    error: float = 0.0
    moment: float = 0.0
    level: float = 0.0

    @property
    def certain(self) -> float:
        """The slope less one standard error of it; 0 where it may be noise."""
        return 0.0 if abs(self.slope) <= CLEAR * self.error else math.copysign(abs(self.slope) - self.error, self.slope)

    def at(self, moment: float) -> float:
        """The line's value."""
        return self.level + self.slope * (moment - self.moment)


def fitted(points: Sequence[tuple[float, float]]) -> Trend:
    """The trend of (moment, value); none where there are too few points or they are all of one moment."""
    count = len(points)
    if count < FEWEST:
        return Trend()
    moment = math.fsum(t for t, _ in points) / count
    level = math.fsum(y for _, y in points) / count
    spread = math.fsum((t - moment) ** 2 for t, _ in points)
    if spread <= 0:
        return Trend()
    slope = math.fsum((t - moment) * (y - level) for t, y in points) / spread
    rest = math.fsum((y - level - slope * (t - moment)) ** 2 for t, y in points)
    return Trend(slope, math.sqrt(rest / (count - 2) / spread), moment, level)
