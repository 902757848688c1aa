"""A GPU as the API answers it: who holds what of it."""

from dataclasses import dataclass

from weft.answers import Answer, Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu(Answer):
    """One GPU with who holds what of it.

    `tenants` are {team, workload, name, milli, hold, may_use_milli, may_use_memory_mib, measured_duty,
    measured_memory_mib, is_leaving, on_gpu, in_host_memory}: milli is the guarantee; hold is whole, share, on-demand,
    standby, lent or harvest; the last two say where a notebook on demand is. duty is 0 to 1; None is not known.
    """

    node: str = ""
    index: int = 0
    pool: str = ""
    gpu_model: str = ""
    gpu_memory_mib: int = 0
    healthy: bool = True
    duty: float | None = None
    memory_used_mib: int | None = None
    allocated_milli: int = 0
    neighbours: int = 0
    enforced_by: str | None = None
    tenants: tuple[Json, ...] | list[Json] = ()

    @property
    def name(self) -> str:
        """`NODE/INDEX`."""
        return f"{self.node}/{self.index}"
