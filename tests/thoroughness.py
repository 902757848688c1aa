"""How long the runs at random are: whole in CI and at night, a part of that in `make test` elsewhere.

A seed is the same in both, so what a short run finds the whole one finds as well; what differs is how much more the
whole one looks at. `scripts/alltests.py` says at its end that runs were short, and how to have them whole.
"""

from tests.servers import must_have_all

SHORT_SENTENCE = (
    "tests: runs at random were shorter than in CI; WEFT_REQUIRE_ALL=1 makes them whole, "
    "and what the machine lacks a failure"
)


def at_least(whole: int, some: int) -> int:
    """How much of something at random is tried: `whole` in CI, where nothing may lack, `some` of it else."""
    return whole if must_have_all() else some
