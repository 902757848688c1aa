"""Clusters as text: `parse(text)` gives a snapshot, `facts(decisions)` gives decisions back as short facts.

One fact a line, or several with three spaces between them; # starts a comment. Words in any order
after the fixed ones; numbers of GPUs may be fractions in quotas (0.5 = 500 milli-GPU).

    at 5000                                      the cluster's clock; 100000 if not said
    node a 8 gpus                                a node; `node a,b,c 8 gpus` = three alike; `cpu-node d` = without GPUs
      model h100  memory 80000  pool big         pool = model = "gpu" and 16000 MiB if not said
      rack r1  zone z1  nvlink 4                 topology
      cpu 64  ram 256000                         cores and MiB of the node
      down  cordoned  lost 3,5                   health
      only-whole  only-shares                    what its GPUs may be taken for; both if not said
      advisory                                   nothing there holds shares to their parts
      by mig                                     what holds shares there; nothing if not said
    team red                                     a team
      nominal 4  borrowing 2  lending 1          its quota, in GPUs
      pool big                                   ... in this pool; without it in every pool
      parent research
      alone                                      its shares lie beside those of no other team
    quota red pool big nominal 2 borrowing 0     a quota for one more pool
      weight 2                                   its weight among borrowers
    use red 1.5  pool big                        decayed use, in GPUs; without a pool in every pool
    budget red month 100 120 200000              a used-up budget: period, GPU hours, used, until

    b1 red training 2 ...                        id, team, kind (training, notebook, inference), GPUs of a worker
      x 3   x 2..4   x 2..3..4                   workers: count, min..count, min..count..max
      share 0.5  limit 1.0  smem 8000            instead of whole GPUs (`b1 red notebook share 0.5`)
      demand                                     on demand: smem is booked of its node's memory, beside ram
      affinity web  apart ps  exclusion red      labels of its share; apart: anti-affinity
      demands memory,time                        what its team demands of what holds its shares
      models h100,a100  gpumem 40000             which GPUs
      cpu 4  ram 16000                           of one worker
      role ps*2/cpu=4/ram=8000                   role members: name, how many, what each asks (gpus, cpu, ram, share,
                                                 smem, models, gpumem); may be repeated; their places come first
      require rack  prefer node                  topology (nvlink, node, rack, zone, cluster)
      priority 100  firm                         firm = may not be preempted
      pending | held | running a b:0,1 | ...     phase and one place a worker (a place alone is for all workers);
                                                 admitted, starting, scaling, stopping alike; leaving = Checkpointing
      reserved a after r1,r2                     its place, and who must leave it first
      leaves 1,2                                 ranks that are being stopped
      since 100  started 200  checkpointed 300   times; since = queued
      unmet x,y   notbefore 6000                 gates
      preempted 900 by r1                        once, then; may be repeated
      saves 600                                  seconds between its checkpoints
      attained 4   failures 2                    GPU hours it held in earlier attempts; failures of its own
      deadline 105000   scaled 99990             when it expires; when an elastic gang last changed
      standby 2   awake 1   asleep 1,2           a service with standby; ranks that are on standby, since 1,000 s ago
      spread node                                over what replicas of a service are spread (gpu, node, rack, zone)
      late                                       a service at risk of missing its objective
      offloads   host 1   tohost 2   todevice 3  weights may wait in host memory; ranks of those there, or moving
      lent s1 2,3                                ranks on devices that s1 lends; places say the device
      goes 2,2   off c,d                         asks to run with so many workers on each node, and on none of these
      moving   finishing                         was consolidated: a place is kept for it; one of its workers is done

Places without device numbers take the lowest devices that are not held, whole ones unless it is a share.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from gpushare.gpu import WHOLE
from scheduler.model.decision import Decision, Evict, EvictReason, Offload, Place, Reason, Shrink, Wait
from scheduler.model.snapshot import Node, Snapshot
from scheduler.model.team import Budget, Quota, Team, Use
from scheduler.model.workload import (
    LEAVING,
    Assignment,
    Kind,
    Level,
    Phase,
    ResourceRequest,
    Topology,
    Weights,
    Workload,
)
from tests.worldwords import PHASES, ask_of, gang_of, lines_of, milli_of, options_of, ranks_of

AT = 100_000.0
Fact = tuple[str, ...]


def place(workload: str, *nodes: str, after: tuple[str, ...] = ()) -> Fact:
    """The fact that a workload is placed on these nodes, one a worker."""
    return (
        ("place", workload, " ".join(nodes), "after", *sorted(after)) if after else ("place", workload, " ".join(nodes))
    )


def evict(workload: str, reason: EvictReason, by: str) -> Fact:
    """The fact that a workload has to leave for another."""
    return ("evict", workload, reason.value, by)


def shrink(workload: str, *ranks: int) -> Fact:
    """The fact that these workers of a gang leave."""
    return ("shrink", workload, *map(str, ranks))


def wait(workload: str, reason: Reason) -> Fact:
    """The fact that a workload is told why it waits."""
    return ("wait", workload, reason.value)


def facts(decisions: Iterable[Decision]) -> list[Fact]:
    """Decisions as `place`, `evict` and `wait` give them."""
    return [_fact(decision) for decision in decisions]


def _fact(decision: Decision) -> Fact:
    match decision:
        case Place():
            return place(decision.workload, *(w.node for w in decision.workers), after=decision.after)
        case Evict():
            return evict(decision.workload, decision.reason, decision.by)
        case Shrink():
            return ("shrink", decision.workload, *map(str, decision.ranks))
        case Offload():
            return ("offload", decision.workload, decision.to.value, *map(str, decision.ranks))
        case Wait():
            return wait(decision.workload, decision.reason)


def moves(decisions: Iterable[Decision]) -> list[Fact]:
    """The facts that change something: all but the waiting reasons."""
    return [_fact(d) for d in decisions if not isinstance(d, Wait)]


def reasons(decisions: Iterable[Decision]) -> dict[str, Reason]:
    """The waiting reason each workload was given."""
    return {d.workload: d.reason for d in decisions if isinstance(d, Wait)}


def messages(decisions: Iterable[Decision]) -> dict[str, str]:
    """The waiting sentence each workload was given."""
    return {d.workload: d.message for d in decisions if isinstance(d, Wait)}


@dataclass
class _World:
    at: float = AT
    nodes: list[Node] = field(default_factory=list)
    teams: list[Team] = field(default_factory=list)
    quotas: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    workloads: list[Workload] = field(default_factory=list)
    use: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    budgets: list[Budget] = field(default_factory=list)
    held: dict[tuple[str, int], int] = field(default_factory=dict)  # milli by device


def parse(text: str) -> Snapshot:
    """Build the snapshot that the text describes; see the module's docstring for the words."""
    world = _World()
    lines = list(lines_of(text))
    for words in lines:
        _add_fact(world, words)
    for words in lines:
        if words[0] not in _FACTS:
            world.workloads.append(_workload(world, words))
    pools = sorted({n.pool for n in world.nodes})
    quotas = [q for team, options in world.quotas for q in _quotas(team, options, pools)]
    use = [
        Use(team, pool, milli_of(gpus) or 0)
        for team, gpus, options in world.use
        for pool in ([options["pool"]] if "pool" in options else pools)
    ]
    return Snapshot.build(world.at, world.nodes, world.teams, quotas, world.workloads, use, world.budgets)


_FACTS = {"at", "node", "cpu-node", "team", "quota", "use", "budget"}


def _add_fact(world: _World, words: list[str]) -> None:
    match words[0]:
        case "at":
            world.at = float(words[1])
        case "node" | "cpu-node":
            _add_nodes(world, words)
        case "team":
            options = options_of(words[2:])
            world.teams.append(Team(words[1], options.get("parent"), "alone" not in options))
            if "nominal" in options:
                world.quotas.append((words[1], options))
        case "use":
            world.use.append((words[1], words[2], options_of(words[3:])))
        case "budget":
            hours, used, until = map(float, words[3:])
            world.budgets.append(Budget(words[1], words[2], hours, used, until))
        case "quota":
            world.quotas.append((words[1], options_of(words[2:])))


def _add_nodes(world: _World, words: list[str]) -> None:
    if words[0] == "node":
        names, gpus, rest = words[1], int(words[2]), words[4:]
    else:
        names, gpus, rest = words[1], 0, words[2:]
    o = options_of(rest)
    model = o.get("model", "gpu") if gpus else ""
    for name in names.split(","):
        world.nodes.append(
            Node(
                name=name,
                pool=o.get("pool", model or "cpu"),
                model=model,
                gpus=gpus,
                gpu_memory=int(o.get("memory", 16_000)) if gpus else 0,
                cpu_milli=int(float(o.get("cpu", 128)) * 1000),
                memory=int(o.get("ram", 1_000_000)),
                rack=o.get("rack", ""),
                zone=o.get("zone", ""),
                nvlink=int(o.get("nvlink", 0)),
                ready="down" not in o,
                schedulable="cordoned" not in o,
                lost=tuple(int(i) for i in o["lost"].split(",")) if "lost" in o else (),
                takes_whole="only-shares" not in o,
                takes_shares="only-whole" not in o,
                enforces_limits="advisory" not in o,
                enforcer=o.get("by", ""),
            )
        )


def _quotas(team: str, o: dict[str, Any], pools: list[str]) -> Iterator[Quota]:
    for pool in [o["pool"]] if "pool" in o else pools:
        nominal, weight = milli_of(o.get("nominal", "0")) or 0, int(o.get("weight", 1))
        yield Quota(team, pool, nominal, milli_of(o.get("borrowing")), milli_of(o.get("lending")), weight)


def _workload(world: _World, words: list[str]) -> Workload:
    name, team, kind, rest = words[0], words[1], Kind(words[2]), words[3:]
    gpus = int(rest.pop(0)) if rest and rest[0].isdigit() else 0
    o = options_of(rest)
    phase = PHASES[o.get("phase", "pending")]
    queued = float(o.get("since", world.at if phase == Phase.QUEUED else 0))
    workload = Workload(
        id=name,
        name=name,
        team=team,
        kind=kind,
        ask=ask_of(gpus, o),
        gang=gang_of(o.get("x", "1")),
        topology=Topology(_level(o.get("require")), _level(o.get("prefer"))),
        priority=int(o.get("priority", 0)),
        preemptible="firm" not in o,
        phase=phase,
        seq=len(world.workloads) + 1,
        submitted_at=queued,
        queued_at=queued,
        checkpointed_at=float(o["checkpointed"]) if "checkpointed" in o else None,
        not_before=float(o["notbefore"]) if "notbefore" in o else None,
        checkpoint_interval=float(o["saves"]) if "saves" in o else None,
        attained=round(float(o.get("attained", 0)) * 3600 * WHOLE),
        failures=int(o.get("failures", 0)),
        deadline=float(o["deadline"]) if "deadline" in o else None,
        scaled_at=float(o["scaled"]) if "scaled" in o else None,
        finishing="finishing" in o,
        moving="moving" in o,
        at_risk="late" in o,
        unmet=tuple(o["unmet"].split(",")) if "unmet" in o else (),
        after=tuple(o["after"].split(",")) if "after" in o else (),
        preempted_at=tuple(at for at, _ in o["preempted"]),
        preempted_by=tuple(by for _, by in o["preempted"]),
        roles=tuple(o["role"]),
        awake=int(o["awake"]) if "awake" in o else None,
        standby=int(o.get("standby", 0)),
        goes_to=tuple(int(count) for count in o["goes"].split(",")) if "goes" in o else (),
        off=tuple(o["off"].split(",")) if "off" in o else (),
        offloads="offloads" in o,
        spread=o.get("spread", ""),
    )
    if not o.get("places"):
        return workload
    started = float(o["started"]) if "started" in o else queued
    is_started = phase not in (Phase.RESERVED, Phase.ADMITTED, Phase.STARTING)
    lender, lent = o.get("lent", ("", frozenset()))
    placement = _placement(world, workload, o["places"], ranks_of(o.get("leaves", "")), lent)
    asleep = ranks_of(o.get("asleep", ""))
    placement = tuple(
        replace(a, asleep_at=world.at - 1000 if a.rank in asleep else None, lender=lender if a.rank in lent else "")
        for a in placement
    )
    where = {rank: to for word, to in _WEIGHTS.items() for rank in ranks_of(o.get(word, ""))}
    placement = tuple(replace(a, weights=where.get(a.rank, Weights.DEVICE)) for a in placement)
    return replace(workload, placement=placement, attempt=1, started_at=started if is_started else None)


_WEIGHTS = {"host": Weights.HOST, "tohost": Weights.TO_HOST, "todevice": Weights.TO_DEVICE}


def _placement(
    world: _World, workload: Workload, places: list[str], leaves: frozenset[int], lent: frozenset[int]
) -> tuple[Assignment, ...]:
    if len(places) == 1:
        places = places * (
            1 if workload.kind is Kind.INFERENCE and ":" in places[0] else workload.gang.count + workload.role_members
        )
    is_reserved, is_leaving = workload.phase is Phase.RESERVED, workload.phase in LEAVING
    out = []
    for rank, text in enumerate(places):
        node, _, given = text.partition(":")
        ask = workload.ask_of(rank)
        gpus = tuple(int(i) for i in given.split(",")) if given else _lowest(world, workload.id, ask, node)
        milli = ask.share.guarantee if ask.share else WHOLE
        for index in gpus if not is_reserved and rank not in lent else ():
            world.held[node, index] = world.held.get((node, index), 0) + milli
        out.append(Assignment(rank, node, gpus, leaving=is_leaving or rank in leaves, reserved=is_reserved))
    return tuple(out)


def _lowest(world: _World, uid: str, ask: ResourceRequest, node: str) -> tuple[int, ...]:
    spec = next((n for n in world.nodes if n.name == node), None)
    if spec is None:
        return tuple(range(ask.gpus or bool(ask.share)))
    milli, count = (ask.share.guarantee, 1) if ask.share else (WHOLE, ask.gpus)
    fits = [i for i in range(spec.gpus) if i not in spec.lost and world.held.get((node, i), 0) + milli <= WHOLE]
    if len(fits) < count:
        raise ValueError(f"{uid}: {node} has no room for it; say the devices, as in {node}:0,1")
    return tuple(fits[:count])


def _level(text: str | None) -> Level | None:
    return None if text is None else Level[text.upper()]
