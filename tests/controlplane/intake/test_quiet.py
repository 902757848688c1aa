"""What the loop costs: as many statements for two hundred objects as for two, and hardly any while nothing happens."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.loops import intake
from controlplane.loops.wiring import Wiring
from controlplane.models import Workload
from controlplane.services.audit import events
from tests.controlplane.intake.conftest import ANA, workload
from tests.controlplane.intake.test_crash import Shelf, world
from tests.controlplane.state import World

pytestmark = pytest.mark.django_db
__all__ = ["world"]


def counted(wiring: Wiring) -> tuple[int, int]:
    """What a round did, in how many statements."""
    with CaptureQueriesContext(connection) as captured:
        report = intake.run_once(wiring)
    assert not report.skipped
    return report.did, len(captured)


@pytest.mark.parametrize("count", [2, 200])
def test_statements_do_not_grow_with_the_number_of_objects(world: World, count: int) -> None:
    shelf: Any = Shelf()
    wiring = Wiring(world.cluster, world.metrics, "test", objects=shelf)
    for number in range(count):
        shelf.put(workload(f"job-{number}"), ANA)
    assert counted(wiring)[1] < 45 * (1 + count // 200)  # a hundred in one transaction
    assert Workload.objects.count() == count
    counted(wiring)
    assert counted(wiring) == (0, 1)  # the newest event, and nothing is new
    Workload.objects.filter(name="job-1").update(phase="Stopped", reason="Stopped")
    events.record(kind="Stopped", actor="test")
    did, statements = counted(wiring)
    assert (did, statements < 12) == (1, True)
    assert shelf.things["job-1"]["status"]["phase"] == "Stopped"
