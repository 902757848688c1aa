"""Small random clusters in which something waits for every reason there is: what `explanations` looks at.

A world has a theme, which makes one kind of shortage likely; all else is drawn from the same ranges. The same seed
gives the same world.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpushare.gpu import WHOLE, Share
from scheduler.model.snapshot import Node, Snapshot
from scheduler.model.team import Budget, Quota, Team, Use
from scheduler.model.workload import Assignment, Gang, Kind, Level, Phase, ResourceRequest, Topology, Workload

AT = 100_000.0
# How many worlds in a row have which theme.
_PARTS = {
    "room": 1, "quota": 3, "tree": 2, "firm": 1, "shares": 2, "share memory": 2, "models": 4, "device memory": 2,
    "topology": 5, "reserved": 2, "cores": 3, "host memory": 2, "fleet": 2, "gates": 4, "lent": 1, "behind": 2,
    "fragments": 3,
}  # fmt: skip
THEMES = tuple(theme for theme, parts in _PARTS.items() for _ in range(parts))
SMALL = ("shares", "share memory")  # themes of few GPUs, which shares fill soon
FIRM = ("topology", "reserved", "behind", "fragments")  # themes in which no workload can be preempted
TWO_NODES = (*SMALL, "cores", "host memory")
MODELS = {"t4": 16_384, "a100": 40_960, "h100": 81_920}  # MiB of a device
GIB = 1024
TEAMS = ("ann", "bob", "cid")


@dataclass
class _Draw:
    """A source of draws."""

    rng: np.random.Generator

    def of(self, *values: Any) -> Any:
        """One of these."""
        return values[int(self.rng.integers(len(values)))]

    def chance(self, ratio: float) -> bool:
        """True with this probability."""
        return bool(self.rng.random() < ratio)


def world(seed: int) -> Snapshot:
    """One cluster of 1 to 4 nodes with running work, and a handful of workloads that wait."""
    draw = _Draw(np.random.default_rng(seed))
    theme = THEMES[seed % len(THEMES)]
    nodes = _nodes(draw, theme)
    teams = [Team("org"), *(Team(name, "org" if theme == "tree" else None) for name in TEAMS)]
    quotas = _quotas(draw, theme, nodes)
    floor = _Floor({n.name: n for n in nodes})
    most = draw.of(2, 3) if theme in ("topology", "reserved") else draw.of(6, 9, 12)
    held = [_running(draw, theme, floor, number) for number in range(most)]
    running = [w for w in held if w is not None]
    leavers = [w for w in running if w.phase is Phase.CHECKPOINTING]
    reserved = [_reserved(draw, floor, w, number) for number, w in enumerate(leavers)] if theme == "reserved" else []
    waiting = [
        _waiting(draw, theme, number) for number in range(draw.of(1, 2) if theme == "topology" else draw.of(1, 2, 3, 4))
    ]
    use = [Use(q.team, q.pool, draw.of(0, 1000, 5000)) for q in quotas if draw.chance(0.3)]
    budgets = [Budget(team, "month", 100.0, 120.0, AT + 1000) for team in TEAMS[:2]] if theme == "gates" else []
    return Snapshot.build(AT, nodes, teams, quotas, [*running, *reserved, *waiting], use, budgets)


def _nodes(draw: _Draw, theme: str) -> list[Node]:
    count = {"topology": 4, "reserved": 1}.get(theme) or (2 if theme in TWO_NODES else draw.of(2, 3, 4))
    names = ("t4", "a100", "h100") if theme in ("models", "device memory") else (draw.of("t4", "a100"),)
    nodes = []
    for number in range(count):
        model = draw.of(*names)
        ready = not (theme == "fleet" and draw.chance(0.8))
        nodes.append(
            Node(
                name=f"n{number}",
                pool=model,
                model=model,
                gpus=_gpus(draw, theme),
                gpu_memory=MODELS[model],
                cpu_milli=draw.of(16_000, 32_000),
                memory=draw.of(64, 96, 128) * GIB,
                rack=f"r{number // 2}" if theme == "topology" else f"r{number % 3}",
                zone="z0" if theme == "topology" else f"z{number % 2}",
                nvlink=draw.of(0, 2, 4),
                ready=ready,
                schedulable=not draw.chance(0.05),
            )
        )
    return nodes


def _gpus(draw: _Draw, theme: str) -> int:
    if theme in SMALL:
        return int(draw.of(1, 2))
    return int(draw.of(2, 2, 4) if theme == "topology" else 8 if theme == "reserved" else draw.of(2, 4, 4, 8))


def _quotas(draw: _Draw, theme: str, nodes: list[Node]) -> list[Quota]:
    tight = theme in ("quota", "tree", "firm")
    quotas = []
    for pool in sorted({n.pool for n in nodes}):
        total = sum(n.gpus for n in nodes if n.pool == pool)
        for name in TEAMS:
            nominal = (
                draw.of(0, 1, 2, 3)
                if tight
                else total // 3
                if theme == "lent"
                else 16
                if theme in FIRM
                else draw.of(2, 4, 8, 16)
            )
            borrowing = draw.of(0, 1, 2, 4) if tight else draw.of(None, None, None, 2)
            lending = draw.of(None, 0, 1) if theme == "lent" else None
            if theme == "lent" or not draw.chance(0.05):
                quotas.append(Quota(name, pool, nominal * WHOLE, _milli(borrowing), _milli(lending)))
        if theme == "tree":
            quotas.append(Quota("org", pool, draw.of(2, 3, 4) * WHOLE, draw.of(0, 1, 2) * WHOLE))
            quotas = [q if q.team == "org" else replace(q, borrowing=draw.of(None, q.borrowing)) for q in quotas]
    return quotas


def _milli(gpus: int | None) -> int | None:
    return None if gpus is None else gpus * WHOLE


def _ask(draw: _Draw, theme: str) -> ResourceRequest:
    if theme == "shares" and draw.chance(0.8):
        return ResourceRequest(
            share=Share(draw.of(200, 350, 500, 700, 900), WHOLE, draw.of(0, 1024)), cpu_milli=draw.of(0, 1000)
        )
    if theme == "share memory":
        return ResourceRequest(share=Share(draw.of(100, 200, 300), WHOLE, draw.of(4096, 9000, 12_288, 15_000)))
    if theme == "cores":
        return ResourceRequest(gpus=draw.of(0, 1, 1), cpu_milli=draw.of(2000, 6000, 9000, 12_000))
    if theme == "host memory":
        return ResourceRequest(gpus=draw.of(0, 1, 1), memory=draw.of(10, 24, 40) * GIB)
    if theme in ("topology", "reserved"):
        return ResourceRequest(gpus=draw.of(1, 1, 2) if theme == "reserved" else 1)
    gpus = draw.of(2, 3, 3) if theme == "fragments" else draw.of(1, 1, 2, 2, 4)
    models = (draw.of(*MODELS),) if theme == "models" else ()
    memory = draw.of(0, 20_000, 50_000, 90_000) if theme == "device memory" else 0
    return ResourceRequest(gpus, None, memory, draw.of(0, 1000) * gpus, draw.of(0, 4) * GIB * gpus, models)


def _running(draw: _Draw, theme: str, floor: "_Floor", number: int) -> Workload | None:
    ask = replace(_ask(draw, theme), gpu_memory=0, models=())
    count = 1 if theme == "reserved" else draw.of(1, 1, 1, 2)
    places = [floor.take(ask) for _ in range(count)]
    if None in places:
        return None
    leaves = draw.chance(0.5 if theme == "reserved" else 0.05)
    placement = tuple(
        Assignment(rank, place[0], place[1], leaving=leaves) for rank, place in enumerate(places) if place is not None
    )
    started = AT - draw.of(30, 600, 5000, 40_000)
    return Workload(
        f"run-{number}", f"run-{number}", draw.of(*TEAMS), draw.of(Kind.TRAINING, Kind.TRAINING, Kind.NOTEBOOK),
        ask, Gang(count, draw.of(count, 1), count), priority=draw.of(0, 100, 200),
        preemptible=theme not in FIRM and not draw.chance(0.3), phase=Phase.CHECKPOINTING if leaves else Phase.RUNNING,
        seq=number, attempt=1, submitted_at=started, queued_at=started, started_at=started, placement=placement,
        checkpoint_interval=600.0, checkpointed_at=draw.of(None, AT - 20),
    )  # fmt: skip


def _reserved(draw: _Draw, floor: "_Floor", leaver: Workload, number: int) -> Workload:
    """One that was promised the place of one that leaves, and perhaps idle GPUs beside it."""
    first, *rest = leaver.placement
    idle = floor.idle(first.node) if not rest and leaver.ask.gpus else ()
    more = idle[: draw.of(1, 8, 8)]
    floor.hold(first.node, more)
    ask = replace(leaver.ask, gpus=leaver.ask.gpus + len(more))
    places = (replace(first, gpus=(*first.gpus, *more)), *rest)
    return replace(
        leaver, id=f"res-{number}", name=f"res-{number}", phase=Phase.RESERVED, ask=ask, after=(leaver.id,),
        placement=tuple(replace(a, leaving=False, reserved=True) for a in places),
        seq=50 + number, attempt=1, started_at=None, priority=draw.of(100, 300),
    )  # fmt: skip


def _waiting(draw: _Draw, theme: str, number: int) -> Workload:
    count = draw.of(3, 3, 4) if theme == "topology" else draw.of(1, 1, 1, 2, 3, 5)
    if theme in ("behind", "fragments"):
        count = 1
    least = draw.of(count, count, max(1, count - 1))
    kind = Kind.TRAINING if theme == "topology" else draw.of(*[Kind.TRAINING] * 3, Kind.INFERENCE)
    ask = _ask(draw, theme)
    if theme == "behind":
        ask = ResourceRequest(gpus=2)
    if theme in ("room", "fragments", "lent") and draw.chance(0.3):
        ask = replace(ask, gpus=draw.of(4, 8))
    gate = draw.of("unmet", "backoff", "team", "") if theme == "gates" else ""
    return Workload(
        f"wait-{number}", f"wait-{number}", _team(draw, theme, gate), kind, ask,
        Gang(count, 1 if kind is Kind.INFERENCE else least, count),
        Topology(draw.of(Level.NVLINK, *[Level.NODE] * 3, Level.RACK) if theme == "topology" else None),
        priority=draw.of(0, 0, 100, 200), preemptible=not draw.chance(0.7 if theme == "firm" else 0.1),
        seq=100 + number,
        submitted_at=AT - draw.of(10, 1000, 20_000), queued_at=AT - draw.of(10, 1000, 20_000),
        unmet=("data",) if gate == "unmet" else (), not_before=AT + 60 if gate == "backoff" else None,
    )  # fmt: skip


def _team(draw: _Draw, theme: str, gate: str) -> str:
    if gate == "team":
        return "nobody"
    return TEAMS[0] if theme == "behind" else str(draw.of(*TEAMS))


@dataclass
class _Floor:
    """First-fit for what runs already."""

    nodes: dict[str, Node]

    def __post_init__(self) -> None:
        self._milli: dict[tuple[str, int], int] = {}
        self._mib: dict[tuple[str, int], int] = {}
        self._host: dict[str, tuple[int, int]] = {}

    def take(self, ask: ResourceRequest) -> tuple[str, tuple[int, ...]] | None:
        """A place for one worker, taken, or None."""
        for name, node in self.nodes.items():
            cores, memory = self._host.get(name, (0, 0))
            if cores + ask.cpu_milli > node.cpu_milli or memory + ask.memory > node.memory or not node.is_usable:
                continue
            milli, mib = (ask.share.guarantee, ask.share.memory) if ask.share else (WHOLE, 0)
            fits = [
                i
                for i in range(node.gpus)
                if self._milli.get((name, i), 0) + milli <= WHOLE
                and self._mib.get((name, i), 0) + mib <= node.gpu_memory
            ]
            count = ask.gpus or int(ask.share is not None)
            if len(fits) < count:
                continue
            self._host[name] = (cores + ask.cpu_milli, memory + ask.memory)
            for index in fits[:count]:
                self._milli[name, index] = self._milli.get((name, index), 0) + milli
                self._mib[name, index] = self._mib.get((name, index), 0) + mib
            return name, tuple(fits[:count])
        return None

    def idle(self, name: str) -> tuple[int, ...]:
        """The devices of a node that no workload holds."""
        return tuple(i for i in range(self.nodes[name].gpus) if not self._milli.get((name, i)))

    def hold(self, name: str, devices: tuple[int, ...]) -> None:
        """Take whole devices."""
        self._milli |= {(name, index): WHOLE for index in devices}
