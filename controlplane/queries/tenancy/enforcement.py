"""What holds a share to its part, as answers say it: the name, what it guarantees, and whether that was tried."""

from typing import Any

from gpushare.backends.catalogue import BACKENDS
from gpushare.gpu import Enforcer


def enforcement(name: str | None) -> dict[str, Any]:
    """Of what holds shares on a node or in a pool; None: it takes no shares."""
    row = None if name is None else BACKENDS[Enforcer(name)]
    return {
        "enforced_by": name,
        "guarantees": sorted(row.guarantees) if row else [],
        "follows_limit": bool(row and row.follows),
        "verified": bool(row and row.is_verified),
        "enforcement": row.told if row else "",
    }
