"""What a scaling round can decide."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """Give a service this many workers. terms: the numbers behind it, by name."""

    workload: str
    version: int  # the row version this decision saw
    workers: int
    message: str
    terms: tuple[tuple[str, float], ...] = ()
    leaving: tuple[int, ...] = ()  # ranks of the replicas that leave, ascending; made by `scale.resized`
    awake: int | None = None  # of a service with standby: how many of them are to serve; None: all
    asleep: tuple[int, ...] = ()  # ranks on standby from now on, ascending: loaded, but no request comes to them
    limit: int | None = None  # of its replicas on shared GPUs, milli-GPU, from now on; None: as before
