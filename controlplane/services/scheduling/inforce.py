"""What is in force: the newest policy, and the cells that it has."""

import json
from functools import lru_cache
from typing import NamedTuple

from controlplane.domain.policy import Policy
from controlplane.models import PolicyVersion, bulk
from scheduler.model.cell import Cell


class InForce(NamedTuple):
    """A policy and its version; the defaults have none. cells_number: how often the cells had changed by then."""

    policy: Policy
    version: int | None
    cells_number: int

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells that have a name; none where there is one cell only."""
        return self.policy.scheduling.cells


def now() -> InForce:
    """The policy in force."""
    rows = bulk.select(PolicyVersion, ("id", "cells_number"), order=("-id",), limit=1, extra=('"data"',))
    return InForce(_parsed(rows[0][2]), rows[0][0], rows[0][1]) if rows else InForce(Policy(), None, 0)


def cells_number() -> int:
    """How often the cells have changed."""
    rows = bulk.select(PolicyVersion, ("cells_number",), order=("-id",), limit=1)
    return int(rows[0][0]) if rows else 0


@lru_cache(maxsize=8)
def _parsed(text: str) -> Policy:
    """A policy as stored: every round of every loop asks for it."""
    return Policy.stored(json.loads(text))
