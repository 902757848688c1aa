"""When cells of simulated notebooks run: drawn minute by minute, so that it is the same whenever it is asked."""

from controlplane.cluster import draws
from controlplane.cluster.work import Work

NOTEBOOK_SECONDS = 60.0  # a person runs something in some minutes, and thinks in others


def notebook_duty(work: Work, seed: int, pod: str, started: float, at: float) -> float:
    """A person's use: bursts of cells, thinking between them, and nothing once the person has left it open."""
    profile = work.notebook
    session = draws.lognormal(profile.session_seconds, 0.5, seed, "session", pod)
    if at - started > session:
        return 0.0
    minute = at // NOTEBOOK_SECONDS
    if draws.uniform(seed, "cell", pod, minute) >= profile.active_ratio:
        return 0.0
    return profile.busy * (0.5 + draws.uniform(seed, "busy", pod, minute))
