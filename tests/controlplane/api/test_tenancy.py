"""What the cluster would refuse of a team's pods is refused at the submission, and said by the preview."""

from typing import Any

import pytest

from controlplane.models import Event, PodSecurity, Team, Workload
from controlplane.services.tenancy import teams
from tests.controlplane.api.conftest import People, body_of, job


def refused(api: People, **fields: object) -> tuple[str, str]:
    """The field and the sentence by which both the preview and the submission refuse a job."""
    said = []
    for path in ("/workloads:preview", "/workloads"):
        (error,) = body_of(api.member.post(path, job(**fields)), 422)["errors"]
        said.append((error["field"], error["message"]))
    assert said[0] == said[1]
    assert not Workload.objects.exists()
    return said[0]


def test_root_is_refused_until_the_team_is_at_baseline(api: People) -> None:
    field, message = refused(api, run_as_user=0)
    assert field == "run_as_user"
    assert message.startswith("run_as_user is 0, which is root, but team red runs at PodSecurity level restricted.")
    teams.set_pod_security(team=Team.objects.get(name="red"), level=PodSecurity.BASELINE, actor="root")
    made = body_of(api.member.post("/workloads", job(run_as_user=0)), 201)
    assert made["spec"]["run_as_user"] == 0
    assert Event.objects.get(kind="PodSecurityChanged").data == {"level": "baseline", "before": "restricted"}


def test_an_image_comes_from_an_allowed_registry(api: People, settings: Any) -> None:
    settings.REGISTRIES = ("registry.example/",)
    field, message = refused(api, image="registry.example.evil.test/app:1")
    assert field == "image"
    assert message.endswith("which is from no allowed registry. Use one of: registry.example/.")
    body_of(api.member.post("/workloads:preview", job(image="registry.example/app:1")))


def test_other_devices_are_those_the_platform_gives_out(api: People) -> None:
    field, message = refused(api, resources={"gpus": 1, "extra": {"fpga.example/card": 1}})
    assert field == "resources.extra"
    assert message == (
        "resources.extra names fpga.example/card, which this platform does not give out. "
        "Remove it; allowed is what begins with rdma/."
    )
    body_of(api.member.post("/workloads:preview", job(resources={"gpus": 1, "extra": {"rdma/hca": 1}})))


@pytest.mark.django_db
def test_a_level_that_stays_is_no_event() -> None:
    team = Team.objects.create(name="red")
    teams.set_pod_security(team=team, level=PodSecurity.RESTRICTED, actor="root")
    assert not Event.objects.exists()
