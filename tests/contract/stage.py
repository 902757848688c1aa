"""Plays a story (story.py) on any cluster behind the port: production's loops turned by hand, every event audited."""

import time
from collections.abc import Callable

from controlplane.loops import account, actuate, audit, observe, publish, scale, schedule
from controlplane.models import Event, NodePool, Team
from controlplane.services.tenancy import quotas
from tests.contract import facts, steps
from tests.contract.drive import Drive
from tests.contract.mortal import Killed
from tests.contract.scene import Scene
from tests.contract.story import Happened, Step, Story

LOOPS = (observe, account, scale, schedule, actuate, publish)
BRIEF = "Starting"  # may be over before it is seen
WAITING = "Waiting"  # why it waits now: told again with the reason, which depends on when a round looks
SLICE = 5.0  # story seconds between two turns
PATIENCE = 600.0
JUDGED = 8.0  # times as long may a change take that is measured before and after
QUIET_TURNS = 3  # after what was expected: whatever else follows at once is one event too many


class Stage:
    """One story in an empty database over an empty cluster."""

    def __init__(self, drive: Drive, story: Story) -> None:
        self._story = story
        self._told: dict[str, int] = {}  # events of each workload that the story has spoken of
        self._audited = 0
        self.audits = 0
        self._scene = Scene(drive, story)
        self._turn()  # now the pools are known
        for name, _, gpus in story.lines("team"):
            for pool in NodePool.objects.all():
                quotas.save(team=Team.objects.get(name=name), pool=pool, nominal=int(gpus) * 1000, actor="root")

    def play(self) -> None:
        """All steps, one after the other."""
        for step in self._story.steps:
            try:
                self._play(step)
            except AssertionError as wrong:
                where = f"{self._story.name}, line {step.line}: {step.text}"
                raise AssertionError(f"{where}\n{wrong}\n{self._all_told()}") from wrong

    def _play(self, step: Step) -> None:
        steps.do(self._scene, step)
        is_judged = any(
            one.kind.startswith(("Change", "WorkersPlanned")) for wanted in step.events.values() for one in wanted
        )
        self._until(
            lambda: all(len(self._new(name, wanted)) >= len(wanted) for name, wanted in step.events.items()),
            longer=JUDGED if is_judged else 1.0,
        )
        self._until(lambda: not self._wrong(step))
        for _ in range(QUIET_TURNS):
            self._turn()
        for name in self._scene.workloads:
            wanted = step.events.get(name, ())
            assert [*map(str, self._new(name, wanted))] == [*map(str, wanted)], f"events of {name}"
            self._told[name] = len(self._all(name))
        assert not self._wrong(step)

    # --- time ---------------------------------------------------------------------------------

    def _turn(self) -> None:
        """One round of each loop; what each changed is audited."""
        for loop in LOOPS:
            try:
                report = loop.run_once(self._scene.wiring)
                assert not report.skipped, report
            except Killed:
                self._scene.die()
                return
            finally:
                self._audit()

    def _until(self, is_so: Callable[[], bool], longer: float = 1.0) -> None:
        """Turn the loops until it is so; let time pass meanwhile. The comparison afterwards says what is missing."""
        drive = self._scene.drive
        passed, deadline = 0.0, time.monotonic() + longer * drive.patience
        while not is_so():
            self._turn()
            if is_so() or (passed > PATIENCE and time.monotonic() > deadline):
                return
            passed += SLICE
            drive.wait(SLICE)

    def _audit(self) -> None:
        """Every invariant, after each event."""
        newest = Event.objects.order_by("-id").values_list("id", flat=True).first() or 0
        if newest == self._audited:
            return
        self._audited, self.audits = newest, self.audits + 1
        found, is_compared = audit.look(self._scene.drive.cluster, last_rounds=1)
        assert is_compared
        assert not found, found

    # --- what happened ------------------------------------------------------------------------

    def _new(self, name: str, wanted: tuple[Happened, ...]) -> list[Happened]:
        """Its events that the story has not spoken of yet; those that are brief only if it wants to see them."""
        found = self._all(name)[self._told.get(name, 0) :]
        is_seen = any(one.kind == BRIEF for one in wanted)
        return [one for one in found if one.kind != BRIEF or is_seen]

    def _all(self, name: str) -> list[Happened]:
        rows = Event.objects.filter(workload=self._scene.workloads[name].pk).exclude(kind=WAITING).order_by("id")
        return [Happened(*row) for row in rows.values_list("kind", "reason", "phase")]

    def _wrong(self, step: Step) -> list[str]:
        return [fact for fact in step.facts if not facts.holds(self._scene, fact)]

    def _all_told(self) -> str:
        """What happened to each workload, for one that reads why a story went otherwise."""
        lines = []
        for name in self._scene.workloads:
            now = self._scene.fresh(name)
            lines.append(
                f"  {name}: {', '.join(map(str, self._all(name)))}; now {now.phase}: {now.reason} {now.message}"
            )
        return "\n".join(lines)
