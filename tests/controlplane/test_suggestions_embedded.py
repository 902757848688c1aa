"""A suggestion applied in the embedded world: the very next round of its driver starts the workload."""

import pytest

from controlplane.jobspec.spec import parse
from controlplane.loops.embedded import Driver
from controlplane.models import Team, User, Workload
from controlplane.queries.workloads import workloads as queries
from controlplane.services.workloads import suggestions
from controlplane.services.workloads.submission import submit
from scheduler.explain.change import ChangeKind, Choice
from tests.controlplane.quietdemo import quiet_demo

pytestmark = [pytest.mark.django_db, pytest.mark.embedded]


@pytest.fixture
def driver() -> Driver:
    """The demo's machines and teams, with no work but what a test submits."""
    return quiet_demo()


def submitted(driver: Driver, name: str, user: User) -> Workload:
    """A gang that asks for all nodes, after a round has looked at it."""
    team = Team.objects.filter(quotas__nominal__gt=0).order_by("name").first()
    assert team is not None
    asked = {"workers": {"count": 10}, "resources": {"gpus": 8, "cpu": 1, "memory": "1Gi"}}
    job = {"type": "training", "name": name, "team": team.name, "image": "example/a:1", **asked}
    w = submit(spec=parse(job), user=user)
    driver.round(driver.now, woken=True)
    w.refresh_from_db()
    return w


def test_an_applied_suggestion_starts_the_workload_in_the_drivers_next_round(driver: Driver) -> None:
    admin = User.objects.filter(is_superuser=True).first()
    assert admin is not None
    w = submitted(driver, "first", admin)
    if w.phase != "Queued":  # its team may hold everything; then a second one waits
        w = submitted(driver, "second", admin)
    told = queries.explanation(admin, w)
    assert (w.phase, told["will_start"]) == ("Queued", False), told
    assert told["suggestions"], told
    one = told["suggestions"][0]
    choice = Choice(ChangeKind(one["kind"]), str(one["after"]), one["target"], one["pool"])
    suggestions.apply(workload=w, verdict=queries.verdict(admin, w, choice), version=w.version, actor="admin")
    driver.round(driver.now, woken=True)
    w.refresh_from_db()
    assert w.phase in ("Admitted", "Reserved", "Starting"), one
