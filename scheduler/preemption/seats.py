"""Seats: devices of others that a gang may borrow: services' sleeping replicas', and those that shares leave idle.

A replica on standby keeps its model loaded and its GPU in every account; a gang's worker there takes of GPUs only
memory, beside the model, or all of it while the weights wait in the node's memory (offload.py). Beside shares it takes
memory too, and of the device's time what they leave (harvest.py). Gangs that run grow there (actions/lend.py), gangs
that wait start there (actions/start_on_lent.py).
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpushare.backends.gives import chooses_device
from gpushare.gpu import Enforcer
from scheduler.fit.gang import ranked
from scheduler.model.snapshot import COMPUTE, IDLE, MEMORY
from scheduler.model.workload import Assignment, Phase, ResourceRequest, Weights, Workload
from scheduler.preemption.growth import Spot
from scheduler.state.session import Session

Place = tuple[str, tuple[int, ...]]  # a node and devices there


class Seat(NamedTuple):
    """A sleeping replica's place that no gang borrows, or a device with shares.

    kept: MiB of the device that go with the part of it which no share has yet. beside: the teams of all shares on it.
    """

    lender: Workload
    worker: Assignment
    node: int  # index
    device: int  # index over all nodes
    kept: int = 0
    beside: tuple[str, ...] = ()

    @property
    def is_harvest(self) -> bool:
        """Whether shares are on it, of whose time the gang has the rest."""
        return bool(self.beside)

    @property
    def place(self) -> Place:
        """Where it is."""
        return self.worker.node, self.worker.gpus

    @property
    def model(self) -> int:
        """MiB of the model's weights on the device, or in the node's memory."""
        return self.lender.ask.on_device[1]

    @property
    def is_coming(self) -> bool:
        """Whether its weights are on their way off the device."""
        return self.worker.weights == Weights.TO_HOST

    @property
    def may_move(self) -> bool:
        """Whether its weights may be moved to the node's memory."""
        return self.lender.offloads and self.worker.weights == Weights.DEVICE


def may_borrow(ask: ResourceRequest) -> bool:
    """Whether a worker may run beside a loaded model: one whole GPU, of which it says how much memory it needs."""
    return ask.gpus == 1 and ask.share is None and ask.gpu_memory > 0


def open_seats(session: Session) -> Iterator[Seat]:
    """The places of sleeping replicas that may be lent now: loaded, settled and not lent."""
    plan, index = session.plan, session.plan.inventory.index
    taken = borrowed_places(session)
    until = plan.snapshot.at - session.settings.lend_after_seconds
    for service in sorted(plan.ledger.sleeping.values(), key=lambda w: w.seq):
        if service.phase is not Phase.RUNNING or plan.workload(service.id) is not service:
            continue  # some of its replicas still load
        for a in service.placement:
            at = index.get(a.node)
            if a.asleep_at is None or a.leaving or a.asleep_at > until or at is None or len(a.gpus) != 1:
                continue
            if a.weights == Weights.TO_DEVICE:
                continue
            node = plan.inventory.nodes[at]
            if chooses_device(Enforcer(node.enforcer or Enforcer.ADVISORY)):
                continue  # it may have given the replica another device than this one
            if (a.node, a.gpus) not in taken and node.is_usable and node.takes_shares and a.gpus[0] not in node.lost:
                yield Seat(service, a, at, int(plan.inventory.offset[at]) + a.gpus[0])


def borrowed_places(session: Session) -> set[Place]:
    """Nodes and devices where workers on lent GPUs are, those of this round and those that leave included."""
    plan = session.plan
    borrowers = (plan.workload(uid) for uid in {*plan.ledger.borrowing, *plan.view})
    return {(a.node, a.gpus) for gang in borrowers for a in gang.placement if a.lender}


def seats_for(session: Session, gang: Workload, spot: Spot, seats: Sequence[Seat]) -> list[Seat]:
    """The seats that this gang may borrow: those on which it has all the time first, then those of its own team.

    One on each device, the first: a replica that sleeps may have another beside it that does not.
    """
    flavor = spot.flavor
    if flavor is None:
        return []
    may = [s for s in seats if spot.near[s.node] and flavor.nodes[s.node] and _may_share(session, gang, s)]
    may.sort(key=lambda s: (s.is_harvest, s.lender.team != gang.team, s.lender.seq, s.worker.rank))
    first = {seat.device: seat for seat in reversed(may)}
    return [seat for seat in may if first[seat.device] is seat]


class Choice(NamedTuple):
    """Seats for some workers of a gang: those with room now; then those that have it once weights have moved."""

    now: list[Seat]
    coming: list[Seat]  # they are on their way off the device
    to_move: list[Seat]  # nothing has told them to yet

    @property
    def seats(self) -> list[Seat]:
        """All of them."""
        return [*self.now, *self.coming, *self.to_move]


def with_room(session: Session, gang: Workload, seats: Sequence[Seat], few: int) -> Choice:
    """The first few seats where its memory fits on the device, and its CPU and memory on the node.

    Seats come first where it fits as the device is now. Where weights have to move, both they and the worker have to
    fit into the node's memory.
    """
    plan, ask = session.plan, gang.ask
    used, most_of = plan.columns.gpu[:, MEMORY], plan.inventory.gpu_capacity[MEMORY]
    host = session.constraints.room_beside_all(IDLE).node.copy()
    left = {seat.device: int(most_of[seat.device] - used[:, seat.device].max()) - seat.kept for seat in seats}
    now = [s for s in seats if not s.is_coming and left[s.device] >= ask.gpu_memory]
    others = [s for s in seats if s not in now and left[s.device] + s.model >= ask.gpu_memory]

    def fitting(found: Collection[Seat], already: int, *, moves: bool) -> list[Seat]:
        chosen: list[Seat] = []
        for seat in found:
            needs = (ask.cpu_milli, ask.memory + (seat.model if moves else 0))
            fits = host[COMPUTE, seat.node] >= needs[COMPUTE] and host[MEMORY, seat.node] >= needs[MEMORY]
            if fits and already + len(chosen) < few:
                host[:, seat.node] -= needs
                chosen.append(seat)
        return chosen

    ready = fitting(now, 0, moves=False)
    coming = fitting([s for s in others if s.is_coming], len(ready), moves=False)
    to_move = fitting([s for s in others if s.may_move], len(ready) + len(coming), moves=True)
    return Choice(ready, coming, to_move)


def workers_on(session: Session, gang: Workload, seats: Sequence[Seat]) -> tuple[Assignment, ...]:
    """Its next workers, one on each of these seats."""
    workers = ranked(session.plan.inventory, gang, [(seat.node, seat.worker.gpus) for seat in seats])
    return tuple(replace(worker, lender=seat.lender.id) for worker, seat in zip(workers, seats, strict=True))


def _may_share(session: Session, gang: Workload, seat: Seat) -> bool:
    """Whether it may be on one device with all that is there: of one team, or of teams that both share with others.

    It has no label, so it keeps off shares with an exclusion.
    """
    tenants = session.plan.tenants
    if tenants is None:
        return True
    return not tenants.is_exclusive(seat.device) and all(
        tenants.may_share(gang.team, team) for team in seat.beside or (seat.lender.team,)
    )
