"""What a story is played in: a cluster, the process of the loops over it, and the workloads that it speaks of."""

from typing import Any

from controlplane.loops.wiring import Wiring
from controlplane.models import Placement, PriorityClass, Team, Workload
from controlplane.services.scheduling import policy
from tests.contract.drive import Drive
from tests.contract.fed import Fed
from tests.contract.mortal import Mortal
from tests.contract.story import Story, seconds

FULL_CYCLE = 5.0  # story seconds


class Scene:
    """An empty database over an empty cluster, with the world of a story."""

    def __init__(self, drive: Drive, story: Story) -> None:
        self.drive = drive
        self.workloads: dict[str, Workload] = {}
        self.metrics = Fed(lambda: drive.cluster.now())
        self.begin()
        self._make(story)

    def begin(self) -> None:
        """A process with nothing in its memory."""
        self.cluster = Mortal(self.drive.cluster)
        full = self.drive.seconds(FULL_CYCLE)
        self.wiring = Wiring(self.cluster, self.metrics, "test", full_cycle_seconds=full)

    def die(self) -> None:
        """The process is killed, and another takes its place."""
        death = self.cluster.death
        self.drive.restart()
        self.begin()
        self.cluster.death = death

    def _make(self, story: Story) -> None:
        PriorityClass.objects.create(name="normal", value=100, is_default=True)
        for name, value in story.lines("class"):
            PriorityClass.objects.create(name=name, value=int(value))
        for name, _, _ in story.lines("team"):
            Team.objects.create(name=name)
        changes: dict[str, dict[str, Any]] = {}
        for path, text in story.lines("policy"):
            part, _, name = path.partition(".")
            changes.setdefault(part, {})[name] = self.drive.seconds(seconds(text)) if text.endswith("s") else int(text)
        if changes:
            policy.change(changes=changes, author="root")

    def fresh(self, name: str) -> Workload:
        """A workload as it is now."""
        workload = self.workloads[name]
        workload.refresh_from_db()
        return workload

    def uid(self, name: str) -> str:
        """Of a workload."""
        return str(self.workloads[name].pk)

    def seats(self, name: str) -> list[Placement]:
        """The places that a workload holds, by rank."""
        held = Placement.objects.filter(workload=self.workloads[name].pk, state__in=("Bound", "Leaving"))
        return list(held.order_by("rank"))
