"""A round of a small world: what places work is loaded by it, before a process has to decide.

The compiler and each compiled function are loaded at their first use. That takes one to two seconds of a processor,
which a decider that takes over would spend in its first round.
"""

from gpushare.gpu import Share
from scheduler.model.demand import Demand, Shape
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Node, Snapshot
from scheduler.model.team import Quota, Team
from scheduler.model.workload import Assignment, Gang, Kind, Level, Phase, ResourceRequest, Topology, Workload
from scheduler.policies import decide

AT = 1_000_000.0  # s
POOL = "p"
WHOLE, SHARE, NONE = (
    ResourceRequest(gpus=1, cpu_milli=1000, memory=1024),
    ResourceRequest(share=Share(500, 1000, 1024), cpu_milli=1000, memory=1024),
    ResourceRequest(cpu_milli=1000, memory=1024),
)


def warm() -> None:
    """Decide it, and forget what was decided."""
    nodes = tuple(Node(f"n{i}", POOL, "m", 2, 16_384, 32_000, 65_536, rack=f"r{i}", nvlink=2) for i in range(3))
    teams, quotas = (Team("a"), Team("b")), (Quota("a", POOL, 3000, 3000), Quota("b", POOL, 3000, 3000))
    demand = Demand(tuple(Shape(ask, 10, 1) for ask in (WHOLE, SHARE, NONE)))
    world = Snapshot.build(AT, nodes, teams, quotas, _workloads(), demand=demand)
    decide(world, Settings())


def _workloads() -> list[Workload]:
    runs = [
        Workload(
            f"r{i}", f"r{i}", "b", Kind.TRAINING, WHOLE, priority=100, phase=Phase.RUNNING, seq=i, attempt=1,
            started_at=0.0, placement=(Assignment(0, f"n{i // 2}", (i % 2,)),),
        )
        for i in range(5)
    ]  # fmt: skip
    asks = (WHOLE, SHARE, NONE, WHOLE)
    waits = [
        Workload(f"w{i}", f"w{i}", "a", Kind.TRAINING, ask, gang=Gang(size, size, size), priority=200, seq=10 + i)
        for i, (ask, size) in enumerate(zip(asks, (1, 1, 1, 2), strict=True))
    ]
    near = Workload("x", "x", "a", Kind.TRAINING, WHOLE, Gang(2, 2, 2), Topology(Level.NVLINK, None), seq=20)
    # Two that start beside the planned start of the ones before.
    beside = [Workload(f"y{i}", f"y{i}", "a", Kind.TRAINING, NONE, seq=21 + i) for i in range(2)]
    return [*runs, *waits, near, *beside]
