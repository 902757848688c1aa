"""Whether the machines there are could ever run what is asked; if not, it is refused at once.

Counted on empty machines, ready or not: what is broken today may run tomorrow.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.domain.sharedemands import words
from controlplane.jobspec.spec import Spec
from controlplane.models import Node, Team, bulk
from controlplane.services.errors import Refused
from controlplane.services.tenancy import sharing
from gpushare.backends.catalogue import demands_text, follows, meets
from gpushare.backends.gives import NotGiven, part
from gpushare.gpu import Enforcer
from scheduler.model.workload import Level, ResourceRequest


@dataclass(frozen=True, slots=True)
class Machines:
    """Nodes of one shape in one rack, and how many."""

    zone: str
    rack: str
    model: str
    gpus: int
    gpu_memory: int
    cpu_milli: int
    memory: int
    count: int


def machines() -> tuple[Machines, ...]:
    """All nodes by shape."""
    shape = ("zone", "rack", "gpu_model", "gpu_count", "gpu_memory", "cpu_milli", "memory")
    return tuple(Machines(*row) for row in bulk.count(Node, shape))


@dataclass(frozen=True, slots=True)
class Known:
    """The nodes there are, as one submission or several look at them."""

    machines: tuple[Machines, ...]
    sharing: tuple[sharing.Sharing, ...]


def known() -> Known:
    """What is known of the nodes now. Two queries."""
    return Known(machines(), sharing.kinds())


def check_spec(spec: Spec, team: Team, among: Known) -> None:
    """Raise Refused for a job file whose workers or role members could never run, or not as its team demands."""
    demands, require = words(team.share_demands), spec.topology.require
    check(ask=spec.resources, workers=max(1, spec.workers.min), require=require, among=among.machines)
    check_limit(spec.max_limit, among.sharing)
    if spec.on_demand:
        check_on_demand(among)
    check_share(ask=spec.resources, demands=demands, among=among.sharing)
    for number, role in enumerate(spec.roles):
        at = f"roles.{number}."
        check(ask=role.ask, workers=role.count, require=require, among=among.machines, at=at)
        check_share(ask=role.ask, demands=demands, among=among.sharing, at=at)


def check(
    *, ask: ResourceRequest, workers: int, require: Level | None, among: Sequence[Machines], at: str = ""
) -> None:
    """Raise Refused if `workers` of these could not run together on empty machines. No machines known: no answer.

    at: what stands before the fields' names, as `roles.0.` for the members of a role.
    """
    if not among:
        return
    if ask.models and not any(m.model in ask.models for m in among):
        have = ", ".join(sorted({m.model for m in among if m.model})) or "none"
        _refuse(f"{at}resources.gpu_model", f"No node has a GPU of model {', '.join(ask.models)}; there are: {have}.")
    room = [(m, _workers_on(m, ask)) for m in among if not ask.models or m.model in ask.models]
    if not any(fits for _, fits in room):
        misfit, message = _least_misfit(ask, [m for m, _ in room])
        _refuse(f"{at}{misfit}", message)
    most = _most_together(room, require)
    if most < workers:
        where = f"within one {require.name.lower()}" if require not in (None, Level.CLUSTER) else "in the cluster"
        field = "topology.require" if require not in (None, Level.CLUSTER) else f"{at}count" if at else "workers"
        _refuse(
            field, f"{workers} workers are asked for, but at most {most} such workers fit {where} when it is empty."
        )


def check_limit(max_limit: int, there: Sequence[sharing.Sharing]) -> None:
    """Raise Refused for a limit that is to be raised where no node holds a share to one. No machines known: no answer.

    max_limit: milli-GPU; 0: it is not to be raised.
    """
    if not max_limit:
        return
    if there and not any(follows(one.enforcer) for one in there):
        message = (
            "No node that takes shares of GPUs holds a share to its limit (advisory), so a larger one means nothing. "
            "Remove max_limit, or set limit to what it may use."
        )
        raise Refused(422, "Advisory", "resources.gpu_share.max_limit", message)


def check_on_demand(among: Known) -> None:
    """Raise Refused for a notebook on demand where no node can move its memory. No machines known: no answer."""
    if not among.machines or any(one.enforcer is Enforcer.ON_DEMAND for one in among.sharing):
        return
    have = ", ".join(sorted({f"{one.pool}: {one.enforcer}" for one in among.sharing})) or "none takes shares"
    message = (
        f"on_demand is given, but no node moves the memory of notebooks between GPUs and host memory (node pools: "
        f"{have}). Remove on_demand, or have a platform admin set nodes up for it (docs/notebooks.md)."
    )
    raise Refused(422, "NotGiven", "on_demand", message)


def check_share(
    *, ask: ResourceRequest, demands: Sequence[str], among: Sequence[sharing.Sharing], at: str = ""
) -> None:
    """Raise Refused for a share that no node could give, or not with what its team demands. None known: no answer.

    demands: words of the catalogue; at: what stands before the fields' names.
    """
    if ask.share is None or not among:
        return
    fit = [one for one in among if not ask.models or one.device.model in ask.models]
    held = [one for one in fit if meets(one.enforcer, demands)]
    if fit and not held:
        have = ", ".join(sorted({f"{one.pool}: {one.enforcer}" for one in fit}))
        message = (
            f"The team demands {demands_text(demands)} of what holds its shares, and no node pool that takes shares "
            f"gives that ({have}). Ask for whole GPUs, or have a platform admin choose another back-end for a pool."
        )
        raise Refused(422, "NotGiven", f"{at}resources.gpu_share", message)
    told = [part(one.enforcer, ask.share, one.device) for one in held]
    if told and all(isinstance(one, NotGiven) for one in told):
        first = next(one for one in told if isinstance(one, NotGiven))
        raise Refused(422, "NotGiven", f"{at}{first.field}", first.sentence)


def _workers_on(m: Machines, ask: ResourceRequest) -> int:
    """How many workers one such node holds when empty."""
    limits = [
        m.cpu_milli // ask.cpu_milli if ask.cpu_milli else None,
        m.memory // ask.memory if ask.memory else None,
    ]
    if ask.share:
        per_gpu = min(1000 // ask.share.guarantee, m.gpu_memory // ask.share.memory if ask.share.memory else 1000)
        limits.append(m.gpus * per_gpu if m.gpu_memory >= ask.share.most_memory else 0)
    elif ask.gpus:
        limits.append(m.gpus // ask.gpus if m.gpu_memory >= ask.gpu_memory else 0)
    return min((limit for limit in limits if limit is not None), default=1_000_000)


def _most_together(room: Sequence[tuple[Machines, int]], require: Level | None) -> int:
    if require in (Level.NODE, Level.NVLINK):
        return max(fits for _, fits in room)
    groups: dict[tuple[str, ...], int] = {}
    for m, fits in room:
        key = (m.zone, m.rack) if require == Level.RACK else (m.zone,) if require == Level.ZONE else ()
        groups[key] = groups.get(key, 0) + fits * m.count
    return max(groups.values(), default=0)


def _least_misfit(ask: ResourceRequest, among: Sequence[Machines]) -> tuple[str, str]:
    """The field that no node satisfies, and what the best node has."""
    memory_of_gpu = ask.share.most_memory if ask.share else ask.gpu_memory
    gpus = ask.gpus or (1 if ask.share else 0)
    bounds = (
        ("resources.gpus", gpus, max(m.gpus for m in among), "GPUs"),
        ("resources.gpu_memory", memory_of_gpu, max(m.gpu_memory for m in among), "MiB of GPU memory"),
        ("resources.cpu", ask.cpu_milli, max(m.cpu_milli for m in among), "1/1000 cores"),
        ("resources.memory", ask.memory, max(m.memory for m in among), "MiB of memory"),
    )
    for field, wanted, best, unit in bounds:
        if wanted > best:
            return (
                field,
                f"One worker asks for {wanted} {unit}, but no node has more than {best}. Ask for at most {best}.",
            )
    return "resources", "No single node has all that one worker asks for. Ask for less of GPUs, CPU or memory."


def _refuse(field: str, message: str) -> None:
    raise Refused(422, "NeverPlaceable", field, message)
