"""Harvest: workers of elastic gangs compute in the time that the shares on a device leave.

Such a worker takes memory of the device, and no part of its time that anything was promised: it has no guarantee, and
what holds shares to their parts gives it a turn when no share wants one (gpushare/tokens.py). So it comes only where
something on the node says that it holds them so. It leaves when the share that it came to does, and for any share that
lacks the memory which it has.
Source: our own; KubeShare (HPDC'20) lets shares use what others leave, of which a gang's worker is one with nothing
of its own. Its gain is measured by `manage.py benchmark mixed`.
"""

from collections import defaultdict
from collections.abc import Iterator

from gpushare.gpu import WHOLE, Enforcer
from scheduler.fit.claim import claim, fits
from scheduler.model.decision import EvictReason, Whose
from scheduler.model.mention import counted, mention
from scheduler.model.sharing import is_on_part
from scheduler.model.snapshot import FUTURE_IDLE, MEMORY, Ints
from scheduler.model.workload import Assignment, Phase, Workload
from scheduler.preemption.borrowed import goes_on_without, leaves
from scheduler.preemption.growth import GATED, Growth, Refused
from scheduler.preemption.seats import Seat, borrowed_places, open_seats
from scheduler.state.session import Session

Device = int  # index over all nodes


def may_have_seats(session: Session) -> bool:
    """Whether there is anything to look at: a replica asleep, or a share. A quick no to most rounds."""
    return bool(session.plan.ledger.sleeping) or len(_parts(session)) > 0


def all_seats(session: Session, growth: Growth) -> Iterator[Seat]:
    """All that may be lent now; beside shares nothing is where another workload could use the room of a worker."""
    yield from open_seats(session) if session.plan.ledger.sleeping else ()
    yield from (seat for seat in harvest_seats(session) if not growth.usable_by_others[seat.node])


def harvest_seats(session: Session) -> Iterator[Seat]:
    """Devices on which shares have settled and no gang computes: one seat each, lent by the share that came first."""
    plan, parts = session.plan, _parts(session)
    if not len(parts):
        return
    skip = _touched(session) | {_device(session, node, gpus) for node, gpus in borrowed_places(session)}
    sharers: dict[Device, list[tuple[Workload, int, int]]] = defaultdict(list)
    for slot, device, milli, _, rank in parts.tolist():
        if device not in skip and (workload := plan.ledger.slots[slot]) is not None:
            sharers[device].append((workload, rank, milli))
    for device in sorted(sharers):
        there = sorted(sharers[device], key=lambda one: (one[0].seq, one[1]))
        # Of a gang only a role may have shares. It does not live as long as a worker beside one of its members could.
        is_settled = all(workload.phase is Phase.RUNNING and is_on_part(workload) for workload, _, _ in there)
        if _is_open(session, device) and is_settled:
            yield _seat(session, device, there)


def make_way(session: Session, refused: Refused) -> None:
    """Have workers leave whose memory or CPU is all that a waiting share lacks, and place it there after them."""
    plan = session.plan
    harvesters = list(_harvesters(session)) if plan.ledger.borrowing else []
    tries = session.settings.max_victims
    for waiting, refusal in refused if harvesters else ():
        if not waiting.ask.share or refusal.reason in GATED or session.is_full or fits(session, waiting, FUTURE_IDLE):
            continue
        for gang, worker in harvesters:
            if tries and plan.workload(gang.id) is gang:
                tries -= 1
                mark = plan.mark()
                _leave(session, gang, worker, waiting)
                if claim(session, waiting, FUTURE_IDLE, [gang.id]):
                    break
                plan.rollback(mark)


def beside_shares(session: Session, gang: Workload) -> list[int]:
    """The ranks of its workers on devices with shares, those that are told to leave not counted."""
    known = session.plan.snapshot.workloads
    return [a.rank for a in gang.placement if a.lender in known and not a.leaving and is_on_part(known[a.lender])]


def _parts(session: Session) -> Ints:
    """Rows of the ledger that are workers with a part of a device, none where the policy forbids harvest. [R, 5]."""
    rows = session.plan.ledger.rows.devices
    return rows[(rows[:, 2] > 0) & (rows[:, 2] < WHOLE)] if session.settings.harvest else rows[:0]


def _seat(session: Session, device: Device, there: list[tuple[Workload, int, int]]) -> Seat:
    inventory = session.plan.inventory
    lender, rank, _ = there[0]
    worker = next(a for a in lender.placement if a.rank == rank)
    open_part = WHOLE - sum(milli for _, _, milli in there)
    kept = int(inventory.gpu_capacity[MEMORY, device]) * open_part // WHOLE
    teams = tuple(sorted({workload.team for workload, _, _ in there}))
    return Seat(lender, worker, int(inventory.node_of[device]), device, kept, teams)


def _is_open(session: Session, device: Device) -> bool:
    inventory = session.plan.inventory
    at = int(inventory.node_of[device])
    node, index = inventory.nodes[at], device - int(inventory.offset[at])
    is_held = node.enforces_limits and node.enforcer != Enforcer.ON_DEMAND  # there memory comes and goes unannounced
    return node.is_usable and node.takes_shares and is_held and index not in node.lost


def _device(session: Session, node: str, gpus: tuple[int, ...]) -> Device:
    at = session.plan.inventory.index.get(node)
    return -1 if at is None or len(gpus) != 1 else int(session.plan.inventory.offset[at]) + gpus[0]


def _touched(session: Session) -> set[Device]:
    """The devices of all that this round has changed."""
    plan = session.plan
    changed = [w for uid in plan.view for w in (plan.view[uid], plan.snapshot.workloads.get(uid)) if w is not None]
    return {_device(session, a.node, (gpu,)) for w in changed for a in w.placement for gpu in a.gpus}


def _harvesters(session: Session) -> Iterator[tuple[Workload, Assignment]]:
    """Workers beside shares that nothing has told to leave, the last ones of each gang first."""
    plan = session.plan
    for uid in sorted(plan.ledger.borrowing):
        gang = plan.workload(uid)
        if gang is not plan.snapshot.workloads[uid]:
            continue  # a round decides once about each
        ranks = beside_shares(session, gang)
        yield from ((gang, worker) for worker in reversed(gang.placement) if worker.rank in ranks)


def _leave(session: Session, gang: Workload, worker: Assignment, share: Workload) -> None:
    why = f"{mention(share.id)} needs the memory that it has beside shares"
    if goes_on_without(gang, [worker.rank]):
        message = f"Gives {counted(1, 'worker')} back: {why}."
        session.plan.shrink(gang, [worker.rank], share.id, message, Whose.LENT)
    else:
        session.plan.evict(gang, EvictReason.TAKEN_BACK, share.id, leaves(gang, why))
