"""Which claimants were found to be possible: on an empty cluster they could start, and their teams may hold as much."""

from scheduler.model.snapshot import Inventory
from scheduler.model.workload import Workload
from scheduler.quota.tree import Tree

MAX_KEPT = 100_000  # claimants, most of which have started since


class Possible:
    """Those that were, on these nodes and under these quotas; what waits is asked about in each round."""

    def __init__(self) -> None:
        self._of: tuple[Inventory, Tree] | None = None
        self._known: dict[str, Workload] = {}

    def holds(self, workload: Workload, inventory: Inventory, tree: Tree) -> bool:
        """Whether it was possible when it was as it is now."""
        of = self._of
        is_same = of is not None and of[0] is inventory and of[1] is tree
        return is_same and self._known.get(workload.id) is workload

    def note(self, workload: Workload, inventory: Inventory, tree: Tree) -> None:
        """It is possible."""
        of = self._of
        if of is None or of[0] is not inventory or of[1] is not tree or len(self._known) > MAX_KEPT:
            self._of, self._known = (inventory, tree), {}
        self._known[workload.id] = workload
