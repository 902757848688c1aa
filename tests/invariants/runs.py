"""Short runs in small worlds with something planted in them."""

from typing import Any

import pytest

from controlplane.simulator.chaos.run import InvariantBroken, Parts, Runner, World
from controlplane.simulator.worlds.mix import nodes

SMALL = {"nodes": nodes(8, 4), "largest_gang": 4, "ask_again_every": 3, "max_waiting": 12}


def broken_by(parts: Parts, events: int = 4000, seed: int = 1, **world: Any) -> set[str]:
    """The names of the invariants that the first broken event broke."""
    with pytest.raises(InvariantBroken) as caught:
        Runner(seed, World(**(SMALL | world)), parts).run(events)
    return {violation.name for violation in caught.value.violations}
