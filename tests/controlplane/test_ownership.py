"""One owner per workload and team: what kubectl made is changed by kubectl, and read-only elsewhere."""

from typing import Any

import pytest

from controlplane.models import NodePool, Quota, Team, Workload
from controlplane.services.errors import Refused
from controlplane.services.intake.ownership import CODE, CULLED, Hand
from controlplane.services.tenancy import quotas, teams
from controlplane.services.workloads import applying, bulkactions, idle, submission, workloads
from controlplane.services.workloads.submission import Submission
from tests.controlplane.state import START, World, job

pytestmark = pytest.mark.django_db
OBJECT = "workloads.weft.dev"


@pytest.fixture
def world() -> World:
    return World()


def of_kubectl(world: World, name: str = "job", **fields: Any) -> Workload:
    (made,) = submission.submit_all([Submission(job(name, **fields), None, "ana", START, managed_by=OBJECT)])
    return made


def refusal(call: Any, **asked: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        call(**asked, actor="ana")
    return caught.value


@pytest.mark.parametrize(
    ("verb", "command"),
    [
        ("stop", "kubectl delete workloads.weft.dev job -n weft-red"),
        ("delete", "kubectl delete workloads.weft.dev job -n weft-red"),
        ("suspend", """kubectl patch workloads.weft.dev job -n weft-red --type merge -p '{"spec":{"suspend":true}}'"""),
        ("resume", """kubectl patch workloads.weft.dev job -n weft-red --type merge -p '{"spec":{"suspend":false}}'"""),
    ],
)
def test_people_are_told_the_command_in_place_of_the_action(world: World, verb: str, command: str) -> None:
    made = of_kubectl(world)
    no = refusal(getattr(workloads, verb), workload=made)
    assert (no.status, no.code, no.field) == (409, CODE, "managed_by")
    assert no.message == f"job was made by kubectl and is changed there: {command}"
    assert Workload.objects.get().version == made.version


def test_what_the_job_file_says_is_changed_by_kubectl_alone(world: World) -> None:
    made = of_kubectl(world)
    change = {"workload": made, "changes": {"max_duration": "1h"}, "version": None}
    assert "kubectl edit workloads.weft.dev job -n weft-red" in refusal(workloads.patch, **change).message
    wanted = {"spec": job("job", max_duration="1h"), "live": made, "user": None}
    assert refusal(applying.apply, **wanted).code == CODE
    workloads.patch(**change, actor="ana", hand=Hand.OBJECT)
    assert Workload.objects.get().max_seconds == 3600


def test_its_object_may_do_all_of_it(world: World) -> None:
    made = of_kubectl(world)
    workloads.suspend(workload=made, actor="ana", hand=Hand.OBJECT)
    assert Workload.objects.get().phase == "Held"
    workloads.resume(workload=made, actor="ana", hand=Hand.OBJECT)
    assert Workload.objects.get().phase == "Queued"
    workloads.stop(workload=made, actor="ana", hand=Hand.OBJECT)
    assert Workload.objects.get().phase == "Stopped"


def test_a_platform_admin_keeps_the_emergency_stop_and_nothing_more(world: World) -> None:
    made = of_kubectl(world)
    assert refusal(workloads.suspend, workload=made, hand=Hand.ADMIN).code == CODE
    workloads.stop(workload=made, actor="root", hand=Hand.ADMIN)
    assert Workload.objects.get().phase == "Stopped"


def test_what_the_object_does_not_say_may_be_done_anywhere(world: World) -> None:
    made = of_kubectl(world)
    workloads.requeue(workload=made, actor="ana")
    Workload.objects.update(phase="Suspended", reason=CULLED)
    workloads.resume(workload=Workload.objects.select_related("team").get(), actor="ana")
    assert Workload.objects.get().phase == "Queued"
    assert idle.REASON == CULLED


def test_several_are_acted_on_where_they_may_be(world: World) -> None:
    ours, theirs = world.submit("ours"), of_kubectl(world)
    chosen = list(Workload.objects.select_related("team", "priority_class").order_by("seq"))
    both = bulkactions.act(verb="stop", chosen=chosen, allowed=[ours.pk, theirs.pk], actor="ana")
    assert [one.refused and one.refused.code for one in both] == [None, CODE]
    assert dict(Workload.objects.values_list("name", "phase")) == {"ours": "Stopped", "job": "Queued"}


def test_a_step_of_kubectl_stays_ended_when_what_it_starts_after_is_submitted_again(world: World) -> None:
    first = world.submit("first")
    of_kubectl(world, "second", after=["first"])
    world.submit("third", after=["first"])
    workloads.stop(workload=first, actor="ana")
    assert set(Workload.objects.exclude(name="first").values_list("phase", "reason")) == {
        ("Stopped", "DependencyFailed")
    }
    world.submit("first")
    live = Workload.objects.exclude(phase="Stopped").values_list("name", flat=True)
    assert sorted(live) == ["first", "third"]


def test_a_team_of_kubectl_is_changed_by_its_object_alone() -> None:
    made = teams.create(name="nlp", parent=None, actor="root", managed_by="teams.weft.dev")
    pool = NodePool.objects.create(name="a100")
    sentence = "Team nlp is managed by kubectl and is changed there: kubectl edit teams.weft.dev nlp"
    quota = {"team": made, "pool": pool, "nominal": 8000}
    above = Team.objects.create(name="above")
    for no in (
        refusal(quotas.save, **quota),
        refusal(teams.move, team=made, parent=above),
        refusal(teams.set_pod_security, team=made, level="baseline"),
    ):
        assert (no.status, no.code, no.message) == (409, CODE, sentence)
    quotas.save(**quota, actor="root", by_object=True)
    assert refusal(quotas.remove, quota=Quota.objects.get()).code == CODE
    teams.hand_over(team=made, managed_by="", actor="root")
    quotas.remove(quota=Quota.objects.get(), actor="root")
    assert not Quota.objects.exists()
