"""Tags of images that mean something to the simulated cluster, so that what goes wrong can be tried."""

from collections.abc import Mapping

BROKEN = ":broken"  # it starts and never answers
SLOW, SLOWNESS = ":slow", 20.0  # its requests take so many times as long


def is_broken(spec: Mapping[str, object]) -> bool:
    """Whether pods of this job file never become ready."""
    return str(spec.get("image", "")).endswith(BROKEN)


def slowness(spec: Mapping[str, object]) -> float:
    """How many times as long a request takes in them."""
    return SLOWNESS if str(spec.get("image", "")).endswith(SLOW) else 1.0
