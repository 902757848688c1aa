"""A cell as the API answers it: a part of a cluster with a decider of its own."""

from dataclasses import dataclass, field

from weft.answers import Answer, Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell(Answer):
    """A part of a cluster with a decider of its own, in milli-GPU.

    `decider` is {state, holder, seconds_since_round, round_ms, error}; `quotas` are its parts of the teams' quotas.
    """

    name: str = ""
    node_pools: tuple[str, ...] | list[str] = ()
    racks: tuple[str, ...] | list[str] = ()
    nodes: int = 0
    capacity_milli: int = 0
    allocated_milli: int = 0
    running: int = 0
    waiting: int = 0
    decider: Json = field(default_factory=dict)
    quotas: tuple[Json, ...] | list[Json] = ()
