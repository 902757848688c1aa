"""A small world for notebooks on demand: one node of four GPUs on which twelve of them live, and one more waits.

Each may have 30 GiB on a GPU of 48 GiB, so no two have their memory on one at a time: without it four would run. What
they book of the node's memory is what ends it (docs/notebooks.md#on-demand).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from controlplane.simulator.worlds.presets import START, Arrival, Document, Pool
from gpushare.gpu import WHOLE, Enforcer
from scheduler.model.snapshot import Node
from scheduler.model.team import Quota, Team

POOL = Pool("notebooks", "L40S", "1.90")
GPUS, FIT = 4, 12  # notebooks that fit, by the node's memory
OWN, ON_GPU = 8, 30  # GiB of each: beside what it has on a GPU, and that
TEAMS = (Team("nlp"), Team("vision"))
EACH = 300.0  # s from one to the next


def nodes() -> tuple[Node, ...]:
    """The one node."""
    memory = FIT * (OWN + ON_GPU) + OWN
    return (
        Node(
            "l40s-00", POOL.name, POOL.gpu_model, GPUS, 48 * 1024, 64_000, memory * 1024, rack="rack-0", zone="zone-a",
            enforcer=Enforcer.ON_DEMAND.value,
        ),
    )  # fmt: skip


def quotas() -> tuple[Quota, ...]:
    """Half of the GPUs for each team; both may borrow."""
    return tuple(Quota(team.name, POOL.name, nominal=GPUS * WHOLE // len(TEAMS)) for team in TEAMS)


@dataclass(frozen=True)
class Opened:
    """Most of the notebooks are there at the start, the last ones come one by one."""

    start: float = START

    def __iter__(self) -> Iterator[Arrival]:
        """All arrivals."""
        early = FIT - 3
        yield Arrival(self.start, tuple(map(_notebook, range(early))), "ada")
        for number in range(early, FIT + 1):
            yield Arrival(self.start + EACH * (number - early + 1), (_notebook(number),), "omar")


def _notebook(number: int) -> Document:
    return {
        "type": "notebook",
        "name": f"explore-{number:02}",
        "team": TEAMS[number % len(TEAMS)].name,
        "image": "registry.example/notebook:2",
        "on_demand": True,
        "resources": {
            "gpu_share": {"guarantee": 0.2, "limit": 1.0, "memory": f"{ON_GPU}Gi"},
            "cpu": 4,
            "memory": f"{OWN}Gi",
        },
        "simulated": {"duration": 20 * 3600.0},
    }
