"""The numbers of the diagnosis, in one place."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Constants:
    """Parts are 0..1 unless a unit is said. They were fixed on seeds 0 to 4 of one half of the rows."""

    window: float = 15.0  # s: one scrape
    # The test of each class: a log odds that grows while the removable part of the step is above `least`.
    effect: float = 0.10  # the removable part that is to be told from none
    deviation: float = 0.07  # of one window's removable part
    step: float = 1.2  # one window adds or takes at most this, as a checkpoint lasts one or two
    floor: float = -2.0  # so that a new bottleneck is not held against a long healthy past
    alarm: float = math.log(0.95 / 0.005)  # name it: the odds for 5 % missed and 0.5 % false alarms
    windows: int = 4  # and not before so many
    least_wait: float = 0.09  # removable by input: a change that gains less than 10 % is not worth it
    least_sync: float = 0.18  # by a closer place or more parameter servers; any exchange costs some
    least_idle: float = 0.10  # by a smaller job
    # Levels say which class a wait belongs to; smoothed, as one scrape says little.
    smooth: float = 0.2
    cpu: float = 0.90
    throttled: float = 0.12
    disk: float = 0.70
    disk_full: float = 0.85  # so busy, it is the storage even where the CPU is throttled: much throttling is harmless
    nic: float = 0.12
    server_cpu: float = 0.20
    waits: float = 0.20  # a job is too small only where its steps wait for less
    busy: float = 0.40  # of an SM: the least of a job that is large enough
    sm_full: float = 0.85  # of an SM: so busy, nothing is to be gained
    # Stragglers: log of the workers' own time.
    straggler_smooth: float = 0.10
    straggler_low: float = 0.06
    straggler_high: float = 0.14
    straggler_errors: float = 2.2
    straggler_windows: int = 6


DEFAULT = Constants()
