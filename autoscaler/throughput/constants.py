"""The numbers of the step-time model, in one place. Deviations are of natural logarithms."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Constants:
    """None was changed for a figure of the measured tables; docs/reallocation.md repeats them.

    The expected parts are of a step as it was seen, with the GPUs and batch that it had then.
    """

    compute: float = 0.30  # the constant part, and the same again for the batch
    within: float = 0.06  # exchange on one node
    between: float = 0.35  # exchange between nodes
    growth: float = 0.05  # of either, for each GPU beyond two
    overlap: float = 0.30  # beyond 1
    crowd: float = 0.40
    input: float = 0.15  # of a step: input that CPUs prepare, at the CPU that it has
    floor: float = 0.05  # of a step: input that more CPU makes no shorter
    servers: float = 0.35  # exchange with parameter servers that goes with workers over servers
    each: float = 0.02  # of a step: what each worker and each server adds to it
    wide: float = 1.5  # deviation of each of these, unless said otherwise
    compute_wide: float = 1.0
    overlap_wide: float = 1.0
    crowd_wide: float = 0.5
    scale_wide: float = 0.7  # of all times together
    model: float = 0.05  # what the equations themselves are off by
    lent: float = 0.08  # what a step of another job of the template is off by
    visible: float = 0.005  # of a step: an exchange below it is not told from none
    least_error: float = 0.005  # of a mean of windows
    first_error: float = 0.10  # of one window, until a second was seen
    correlation: float = 0.5  # of windows that follow each other
    steps: int = 60  # of a fit, at most
    enough: float = 1e-7  # a step that makes the sum of squares smaller by a part below this is the last


DEFAULT = Constants()
