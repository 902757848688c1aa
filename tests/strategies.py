"""Hypothesis strategies: small random clusters with everything that can be in one."""

from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from gpushare.gpu import WHOLE, Share
from scheduler.model.snapshot import Node, Snapshot
from scheduler.model.team import Quota, Team, Use
from scheduler.model.workload import Assignment, Gang, Kind, Level, Phase, ResourceRequest, Role, Topology, Workload

AT = 100_000.0
SMALL_NODE_CORES, NODE_MEMORY = 16_000, 64_000

_Machine = tuple[int, str, str, int, tuple[int, ...], str]  # as _nodes draws it

_nodes = st.builds(
    lambda gpus, model, rack, nvlink, lost, state: (gpus, model, rack, nvlink, lost, state),
    gpus=st.sampled_from([4, 2, 3, 1, 0]),
    model=st.sampled_from(["t4", "t4", "t4", "h100"]),
    rack=st.sampled_from(["r1", "r2", ""]),
    nvlink=st.sampled_from([0, 2]),
    lost=st.sampled_from([(), (), (), (), (0,), (1, 2)]),
    state=st.sampled_from(["ok"] * 8 + ["down", "cordoned"]),
)

_asks = st.one_of(
    st.builds(
        lambda gpus, cpu, memory, models: ResourceRequest(gpus=gpus, cpu_milli=cpu, memory=memory, models=models),
        gpus=st.sampled_from([1, 1, 1, 2, 2, 4]),
        cpu=st.sampled_from([0, 0, 1000, 5000]),
        memory=st.sampled_from([0, 20_000]),
        models=st.sampled_from([(), (), (), ("h100", "t4"), ("h100",)]),
    ),
    st.builds(
        lambda milli, memory, cpu: ResourceRequest(share=Share(milli, WHOLE, memory), cpu_milli=cpu),
        milli=st.sampled_from([100, 300, 500, 700]),
        memory=st.sampled_from([0, 4000, 9000]),
        cpu=st.sampled_from([0, 1000]),
    ),
    st.builds(lambda cpu: ResourceRequest(cpu_milli=cpu, memory=1000), cpu=st.sampled_from([1000, 9000])),
)

_gangs = st.builds(
    lambda least, more, most: Gang(least + more, least, least + more + most),
    least=st.sampled_from([1, 1, 1, 2, 3]),
    more=st.sampled_from([0, 0, 1, 2]),
    most=st.sampled_from([0, 0, 1, 3]),
)


@dataclass(frozen=True)
class _Draft:
    """A workload before it is known whether it runs."""

    team: int
    kind: Kind
    ask: ResourceRequest
    gang: Gang
    require: Level | None
    priority: int
    preemptible: bool
    phase: Phase
    held: int  # replicas a running service has
    leaves: bool  # its last worker is being stopped
    started: float
    gate: str
    more: int  # workers of a running gang beyond its least, up to its most
    saves: bool  # checkpoints
    attained: int  # GPU hours
    failures: int
    deadline: float | None
    roles: tuple[Role, ...]


_roles = st.lists(
    st.builds(
        lambda ask, count: (ask, count),
        ask=st.sampled_from(
            [
                ResourceRequest(cpu_milli=1000, memory=1000),
                ResourceRequest(cpu_milli=9000),
                ResourceRequest(gpus=1),
                ResourceRequest(share=Share(300, WHOLE, 4000)),
            ]
        ),
        count=st.sampled_from([1, 1, 2]),
    ),
    min_size=1,
    max_size=2,
).map(lambda found: tuple(Role(f"role-{i}", ask, count) for i, (ask, count) in enumerate(found)))

_drafts = st.builds(
    _Draft,
    team=st.sampled_from([0, 0, 1, 1, 2, 3]),
    kind=st.sampled_from([Kind.TRAINING, Kind.TRAINING, Kind.NOTEBOOK, Kind.INFERENCE]),
    ask=_asks,
    gang=_gangs,
    require=st.sampled_from([None, None, None, Level.NODE, Level.RACK, Level.NVLINK]),
    priority=st.sampled_from([0, 100, 0, 200]),
    preemptible=st.sampled_from([True] * 5 + [False]),
    phase=st.sampled_from([Phase.QUEUED] * 3 + [Phase.RUNNING] * 4 + [Phase.CHECKPOINTING, Phase.STARTING]),
    held=st.integers(1, 3),
    leaves=st.sampled_from([False, False, True]),
    started=st.sampled_from([AT - 1000, AT - 50_000, AT - 5000, AT - 10]),
    gate=st.sampled_from([""] * 10 + ["unmet", "not_before"]),
    more=st.integers(0, 4),
    saves=st.booleans(),
    attained=st.sampled_from([0, 0, 0, 2, 10]),
    failures=st.sampled_from([0, 0, 0, 1]),
    deadline=st.sampled_from([None, None, None, AT + 1000, AT + 1e6]),
    roles=st.one_of(st.just(()), st.just(()), st.just(()), _roles),
)

_quotas = st.tuples(
    st.sampled_from([2, 1, 0, 3, 5]),
    st.sampled_from([None, None, None, 0, 1, 2]),
    st.sampled_from([None, None, None, 0, 1]),
    st.sampled_from([True, True, True, False]),
)


@st.composite
def worlds(
    draw: st.DrawFn,
    max_workloads: int = 12,
    machines: st.SearchStrategy[list[_Machine]] = st.lists(_nodes, min_size=1, max_size=3),  # noqa: B008
    first: st.SearchStrategy[list[_Draft]] = st.just([]),  # noqa: B008 (a strategy is a value)
) -> Snapshot:
    """A cluster of at most 3 nodes and 12 GPUs, a tree of teams with quotas, and work in every state.

    What runs was placed first-fit, without regard to quota: teams may hold more than they may. `first` gets its places
    before all others.
    """
    nodes = [
        Node(
            name=f"n{i}",
            pool=model if gpus else "cpu",
            model=model if gpus else "",
            gpus=gpus,
            gpu_memory=16_000 if model == "t4" else 40_000,
            cpu_milli=SMALL_NODE_CORES,
            memory=NODE_MEMORY,
            rack=rack,
            zone="z" if rack else "",
            nvlink=nvlink,
            ready=state != "down",
            schedulable=state != "cordoned",
            lost=tuple(index for index in lost if index < gpus),
        )
        for i, (gpus, model, rack, nvlink, lost, state) in enumerate(draw(machines))
    ]
    is_tree = draw(st.booleans())
    teams = [Team("t0"), Team("t1"), Team("t2", "t0" if is_tree else None), Team("t3", "t0" if is_tree else None)]
    quotas = []
    for pool in sorted({n.pool for n in nodes if n.gpus}):
        for team, (nominal, borrowing, lending, has_quota) in zip(
            teams, draw(st.lists(_quotas, min_size=4, max_size=4)), strict=True
        ):
            if has_quota:
                limits = [None if n is None else n * WHOLE for n in (borrowing, lending)]
                quotas.append(Quota(team.name, pool, nominal * WHOLE, *limits))
    pools = sorted({n.pool for n in nodes if n.gpus})
    lately = draw(st.lists(st.sampled_from([0, 1, 4]), min_size=4, max_size=4))
    use = [Use(t.name, pool, n * WHOLE) for pool in pools for t, n in zip(teams, lately, strict=True) if n]
    floor = _Floor({n.name: n for n in nodes})
    drafts = draw(first) + draw(st.lists(_drafts, min_size=min(7, max_workloads), max_size=max_workloads))
    return Snapshot.build(AT, nodes, teams, quotas, [_workload(floor, i, d) for i, d in enumerate(drafts)], use)


_lenders = st.builds(
    lambda draft, memory, held: replace(
        draft, kind=Kind.INFERENCE, ask=ResourceRequest(share=Share(WHOLE, WHOLE, memory)), gang=Gang(held, 1, held),
        phase=Phase.RUNNING, held=held, leaves=False, require=None, priority=200,
    ),
    draft=_drafts, memory=st.sampled_from([4000, 0, 9000]), held=st.integers(2, 3),
)  # fmt: skip
_borrowers = st.builds(
    lambda draft, memory, gang, phase: replace(
        draft, kind=Kind.TRAINING, ask=ResourceRequest(gpus=1, gpu_memory=memory), gang=gang, phase=phase, saves=True,
        more=0, roles=(), require=None, preemptible=True, gate="",
    ),
    draft=_drafts, memory=st.sampled_from([1, 4000, 9000]),
    gang=st.sampled_from([Gang(1, 1, 3), Gang(1, 1, 4), Gang(2, 2, 4)]),
    phase=st.sampled_from([Phase.RUNNING, Phase.RUNNING, Phase.QUEUED]),
)  # fmt: skip


_sharers = st.builds(
    lambda draft, kind, part, memory: replace(
        draft, kind=kind, ask=ResourceRequest(share=Share(part, WHOLE, memory)), gang=Gang(1, 1, 1),
        phase=Phase.RUNNING, held=1, leaves=False, require=None, roles=(), more=0,
    ),
    draft=_drafts, kind=st.sampled_from([Kind.NOTEBOOK, Kind.INFERENCE]), part=st.sampled_from([300, 500, 900]),
    memory=st.sampled_from([4000, 0, 6000]),
)  # fmt: skip


def worlds_with_shares() -> st.SearchStrategy[Snapshot]:
    """Worlds in which notebooks and services run on parts of GPUs, and gangs run or wait that may fit beside them."""
    drawn = st.tuples(st.lists(_sharers, min_size=1, max_size=3), st.lists(_borrowers, min_size=1, max_size=3))
    return worlds(max_workloads=3, first=drawn.map(lambda both: [*both[0], *both[1]])).map(_at_own_pace)


def _at_own_pace(world: Snapshot) -> Snapshot:
    """Half the gangs have workers that do not wait for each other."""
    some = [w for w in world.workloads.values() if w.kind is Kind.TRAINING and w.seq % 2]
    return world.replace(changed=[replace(w, asynchronous=True) for w in some])


def worlds_with_standby() -> st.SearchStrategy[Snapshot]:
    """Worlds in which a service has replicas asleep, and gangs run or wait that may fit beside its model.

    A replica of whole GPUs by a share is asleep from the second on, since the beginning of time.
    """
    sound = _nodes.map(lambda node: (max(4, node[0]), *node[1:4], (), "ok"))
    machines = st.tuples(sound, st.lists(_nodes, max_size=2)).map(lambda drawn: [drawn[0], *drawn[1]])
    first = st.tuples(_lenders, st.lists(_borrowers, min_size=2, max_size=4)).map(lambda drawn: [drawn[0], *drawn[1]])
    return worlds(max_workloads=4, machines=machines, first=first).map(_with_standby)


def _with_standby(world: Snapshot) -> Snapshot:
    services = [w for w in world.workloads.values() if w.ask.share is not None and w.ask.share.guarantee == WHOLE]
    return world.replace(changed=[_asleep(w) for w in services if w.phase is Phase.RUNNING])


def _asleep(w: Workload) -> Workload:
    placement = tuple(replace(a, asleep_at=0.0) if a.rank else a for a in w.placement)
    return replace(w, awake=1, standby=w.gang.max, placement=placement)


@dataclass
class _Floor:
    """First-fit bookkeeping of the strategy's own, independent of the code under test."""

    nodes: dict[str, Node]
    milli: dict[tuple[str, int], int] = field(default_factory=dict)
    mib: dict[tuple[str, int], int] = field(default_factory=dict)
    cores: dict[str, int] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)

    def take(self, ask: ResourceRequest, models: frozenset[str] = frozenset()) -> tuple[str, tuple[int, ...]] | None:
        """A place for one worker, taken, or None."""
        for name, node in self.nodes.items():
            if self.cores.get(name, 0) + ask.cpu_milli > node.cpu_milli:
                continue
            if self.memory.get(name, 0) + ask.memory > node.memory or (ask.models and node.model not in ask.models):
                continue
            if models and (ask.gpus or ask.share) and node.model not in models:
                continue
            devices = self._devices(node, ask)
            if devices is not None:
                self.cores[name] = self.cores.get(name, 0) + ask.cpu_milli
                self.memory[name] = self.memory.get(name, 0) + ask.memory
                for index in devices:
                    self.milli[name, index] = self.milli.get((name, index), 0) + (
                        ask.share.guarantee if ask.share else WHOLE
                    )
                    self.mib[name, index] = self.mib.get((name, index), 0) + (ask.share.memory if ask.share else 0)
                return name, devices
        return None

    def _devices(self, node: Node, ask: ResourceRequest) -> tuple[int, ...] | None:
        count = ask.gpus or (1 if ask.share else 0)
        milli, mib = (ask.share.guarantee, ask.share.memory) if ask.share else (WHOLE, 0)
        fits = [
            i
            for i in range(node.gpus)
            if i not in node.lost
            and self.milli.get((node.name, i), 0) + milli <= WHOLE
            and self.mib.get((node.name, i), 0) + mib <= node.gpu_memory
        ]
        return tuple(fits[:count]) if len(fits) >= count else None


def _workload(floor: _Floor, number: int, draft: _Draft) -> Workload:
    waiting = Workload(
        id=f"w{number}",
        name=f"w{number}",
        team=f"t{draft.team}",
        kind=draft.kind,
        ask=draft.ask,
        gang=draft.gang if draft.kind is not Kind.INFERENCE else replace(draft.gang, min=1),
        topology=Topology(draft.require),
        priority=draft.priority,
        preemptible=draft.preemptible,
        seq=number,
        submitted_at=AT - 100.5 + number,  # half a second: no rule's limit is passed just now
        queued_at=AT - 100.5 + number,
        unmet=("other",) if draft.gate == "unmet" else (),
        not_before=AT + 60 if draft.gate == "not_before" else None,
        checkpoint_interval=600.0 if draft.saves else None,
        attained=draft.attained * 3600 * WHOLE,
        failures=draft.failures,
        deadline=draft.deadline if draft.kind is Kind.TRAINING else None,
        roles=draft.roles if draft.kind is Kind.TRAINING else (),
        at_risk=draft.kind is Kind.INFERENCE and number % 3 == 0,
    )
    if draft.phase == Phase.QUEUED:
        return waiting
    gang = waiting.gang
    count = min(gang.count, draft.held) if draft.kind is Kind.INFERENCE else min(gang.min + draft.more, gang.max)
    asks = [role.ask for role in waiting.roles for _ in range(role.count)]
    models: frozenset[str] = frozenset()  # all roles of a gang are on one
    places = []
    for ask in [*asks, *[draft.ask] * count]:
        found = floor.take(ask, models if waiting.roles else frozenset())
        models = models or frozenset({floor.nodes[found[0]].model} if found and found[1] else ())
        places.append(found)
    got = [p for p in places if p is not None]
    if not got or (draft.kind is not Kind.INFERENCE and len(got) < gang.min + len(asks)):
        return waiting
    if waiting.roles and len(got) < len(places):
        return waiting  # its ranks would not be whose they are
    is_leaving = draft.phase == Phase.CHECKPOINTING
    shrinks = draft.kind is Kind.INFERENCE and draft.leaves
    placement = tuple(
        Assignment(rank, node, devices, leaving=is_leaving or (shrinks and rank == len(got) - 1))
        for rank, (node, devices) in enumerate(got)
    )
    started = None if draft.phase == Phase.STARTING else draft.started
    return replace(
        waiting, phase=draft.phase, placement=placement, attempt=1, started_at=started, unmet=(), not_before=None
    )
