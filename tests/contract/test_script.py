"""What a node answers to a resize, through the loops; whole stories of workloads are in test_stories.py."""

from typing import Any

import pytest

from controlplane.cluster.port import INFEASIBLE
from controlplane.cluster.unmeasured import Unmeasured
from controlplane.loops import actuate, audit, observe, schedule
from controlplane.loops.wiring import Wiring
from controlplane.models import Event, NodePool, PriorityClass, Quota, Team, Workload
from controlplane.services.workloads import submission, workloads
from controlplane.services.workloads.submission import Submission
from scheduler.model.workload import Kind
from tests.contract.drive import Drive
from tests.controlplane.state import job

pytestmark = pytest.mark.django_db(transaction=True)

TEAM = "nlp"
BRIEF = ("Starting",)  # may be over before it is seen


class Script:
    """The loops over one cluster, turned by hand."""

    def __init__(self, drive: Drive) -> None:
        self.drive = drive
        self.wiring = Wiring(drive.cluster, Unmeasured(), "test")
        team = Team.objects.create(name=TEAM)
        PriorityClass.objects.create(name="normal", value=100, is_default=True)
        self.turn()
        for pool in NodePool.objects.all():
            Quota.objects.create(team=team, pool=pool, nominal=24_000)

    def turn(self) -> None:
        for loop in (observe, schedule, actuate):
            report = loop.run_once(self.wiring)
            assert not report.skipped, report

    def submit(self, name: str, seconds: float | None, exit_code: int = 0, **asked: Any) -> Workload:
        file = self.drive.job_file(Kind.TRAINING, seconds, exit_code)
        extra = {part: file[part] for part in ("simulated", "kwok") if file.get(part)}
        at = self.drive.cluster.now()
        (made,) = submission.submit_all([Submission(job(name, TEAM, **asked), actor="alice", at=at, extra=extra)])
        return made

    def until(self, workload: Workload, phase: str, attempt: int = 1) -> None:
        def is_so() -> bool:
            self.turn()
            workload.refresh_from_db()
            return (workload.phase, workload.attempt) == (phase, attempt)

        self.drive.until(is_so, 600.0)
        self.audit()

    def resize(self, workload: Workload, **size: Any) -> None:
        workload.refresh_from_db()
        changes = {"resources": workload.spec["resources"] | size}
        workloads.patch(workload=workload, changes=changes, version=None, actor="alice")

    def until_told(self, workload: Workload, kind: str) -> None:
        def is_so() -> bool:
            for _ in range(3):  # told, refused, put back: a simulated cluster answers at once
                self.turn()
            return (kind, "") in self.story(workload)

        self.drive.until(is_so, 600.0)
        workload.refresh_from_db()

    def audit(self) -> None:
        """Every pod has its place, and none outlives its workload; rows and pods may move meanwhile."""
        found, is_compared = audit.look(self.wiring.cluster, last_rounds=1)
        assert is_compared
        assert [violation for violation in found if violation.name in ("S2", "S5")] == []

    def story(self, workload: Workload) -> list[tuple[str, str]]:
        events = Event.objects.filter(workload=workload.pk).order_by("id")
        return [(e.kind, e.reason) for e in events if e.kind not in BRIEF]


@pytest.fixture
def script(drive: Drive) -> Script:
    return Script(drive)


def test_a_gang_whose_node_refuses_keeps_what_it_has(script: Script) -> None:
    gang = script.submit("train", None, workers=2)
    script.until(gang, "Running")
    uid = str(gang.pk)
    script.drive.refuse_resizes(uid, 1, 1, INFEASIBLE)
    script.resize(gang, cpu=2, memory="1Gi")
    script.until_told(gang, "Resized")
    assert [script.drive.size(uid, 1, rank) for rank in range(2)] == [(1000, 1024), (1000, 1024)]
    assert (gang.cpu_milli, gang.memory, gang.resize) == (1000, 1024, None)
    assert gang.spec["resources"]["cpu"] == 1
    assert script.story(gang)[-2:] == [("ResizeRefused", "Infeasible"), ("Resized", "")]
    script.audit()
