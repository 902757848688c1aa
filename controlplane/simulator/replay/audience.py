"""The judges of a replay's services: told of their replicas, moved on minute by minute."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from autoscaler.bounds import Bounds
from autoscaler.limits import Limits
from autoscaler.settings import Settings
from autoscaler.standby import wakes_slowly
from controlplane.cluster.physics import START_MEDIAN
from controlplane.simulator.replay.judge import Judge, Tally
from controlplane.simulator.replay.serving import Service
from gpushare.gpu import WHOLE
from scheduler.model.snapshot import COMPUTE, IDLE, Snapshot
from scheduler.model.workload import ACTIVE, ON_DEVICE, Kind, Phase, Workload


@dataclass(slots=True)
class Judges:
    """One for each service that is there and whose traffic is known. start: of the replay, cluster clock."""

    start: float
    settings: Settings
    _of: dict[str, Judge] = field(default_factory=dict)

    def come(self, at: float, workload: Workload, service: Service) -> Tally:
        """A service comes; its requests will be counted here."""
        judge = self._of[workload.id] = Judge(service, at)
        self.show(at, workload)
        return judge.tally

    def show(self, at: float, workload: Workload) -> None:
        """Tell of its replicas as they are now. Those that run when the replay begins serve at once."""
        judge = self._of.get(workload.id)
        if judge is None:
            return
        there = [a for a in workload.placement if not (a.leaving or a.reserved)]
        names = [f"{workload.attempt}-{a.rank}" for a in there]
        asleep = [
            name for name, a in zip(names, there, strict=True) if a.asleep_at is not None or a.weights not in ON_DEVICE
        ]
        runs_already = at <= self.start and workload.phase in (Phase.RUNNING, Phase.SCALING)
        start = 0.0 if runs_already else START_MEDIAN[Kind.INFERENCE]
        beside = Counter((a.node, a.gpus) for a in there if a.gpus)
        limit = workload.ask.share.limit if workload.ask.share else 0
        judge.place(at, names, start, asleep, limit, max(beside.values(), default=1))

    def minute(self, at: float, workload: Workload, world: Callable[[], Snapshot]) -> tuple[int, int | None]:
        """A minute is over: its requests are counted. How many replicas the autoscaler has serve from now on, and
        another limit for them (None: as before). world: tells what else is on their devices."""
        judge, gang, serving = self._of[workload.id], workload.gang, workload.serving
        judge.to(at)
        if workload.phase not in ACTIVE:
            return serving, None
        bounds, limits = Bounds(max(1, gang.min), gang.max), room(workload, judge.service, world)
        loaded = [a.rank for a in workload.placement]
        is_slow = workload.standby > 0 and wakes_slowly(workload, loaded)
        return judge.wanted(
            at, serving, bounds, self.settings, has_standby=workload.standby > 0, is_slow=is_slow, limits=limits
        )

    def leave(self, at: float, uid: str) -> None:
        """It has ended: nothing comes any more."""
        judge = self._of.pop(uid, None)
        if judge is not None:
            judge.to(at)

    def close(self, at: float) -> None:
        """The replay has ended."""
        for uid in list(self._of):
            self.leave(at, uid)


def room(workload: Workload, service: Service, now: Callable[[], Snapshot]) -> Limits | None:
    """What the limit of a service's replicas may be: what their devices do not guarantee to others, the least of them.

    As queries/scheduling/rooms.py finds it in the database. None: it is not raised.
    """
    share = workload.ask.share
    if service.limits is None or share is None or workload.standby:
        return None
    world = now()
    inventory, taken = world.inventory, world.columns.gpu[IDLE, COMPUTE]
    least, most = service.limits
    found, advisory = [], []
    for worker in workload.placement:
        at = inventory.index.get(worker.node)
        if at is None or worker.leaving:
            continue
        found += [WHOLE - int(taken[int(inventory.offset[at]) + gpu]) + share.guarantee for gpu in worker.gpus]
        advisory += [] if inventory.nodes[at].enforces_limits else [worker.node]
    return Limits(least, most, min(found, default=least), min(advisory, default=""))
