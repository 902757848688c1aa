"""Random numbers that depend on nothing but what they are for: the same at any speed, in any order of calls."""

import math
from hashlib import blake2b


def uniform(*key: object) -> float:
    """A number in [0, 1) that belongs to this key."""
    digest = blake2b("\0".join(map(str, key)).encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64


def normal(*key: object) -> float:
    """A standard normal number that belongs to this key (Box-Muller)."""
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform("radius", *key)))
    return radius * math.cos(2.0 * math.pi * uniform("angle", *key))


def lognormal(median: float, sigma: float, *key: object) -> float:
    """A lognormal number of this median; sigma is the standard deviation of its logarithm."""
    return median * math.exp(sigma * normal(*key))


def exponential(mean: float, *key: object) -> float:
    """An exponential number of this mean."""
    return -mean * math.log(1.0 - uniform(*key))
