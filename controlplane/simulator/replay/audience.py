"""The judges of a replay's services: told of their replicas, moved on minute by minute."""

from dataclasses import dataclass, field

from autoscaler.bounds import Bounds
from autoscaler.settings import Settings
from controlplane.cluster.physics import START_MEDIAN
from controlplane.simulator.replay.judge import Judge, Tally
from controlplane.simulator.replay.serving import Service
from scheduler.model.workload import ACTIVE, Kind, Phase, Workload


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
        asleep = [name for name, a in zip(names, there, strict=True) if a.asleep_at is not None]
        runs_already = at <= self.start and workload.phase in (Phase.RUNNING, Phase.SCALING)
        judge.place(at, names, 0.0 if runs_already else START_MEDIAN[Kind.INFERENCE], asleep)

    def minute(self, at: float, workload: Workload) -> int:
        """A minute is over: its requests are counted. How many replicas the autoscaler has serve from now on."""
        judge, gang, serving = self._of[workload.id], workload.gang, workload.serving
        judge.to(at)
        if workload.phase not in ACTIVE:
            return serving
        return judge.wanted(
            at, serving, Bounds(max(1, gang.min), gang.max), self.settings, has_standby=workload.standby > 0
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
