"""CPU and memory of what runs, by REST and by the page: asked, refused with the field, shown until it is done."""

from typing import Any

import pytest
from django.test import Client

from controlplane.cluster.port import DEFERRED
from controlplane.models import Workload
from tests.controlplane.api.conftest import People, body_of, fields_of, people
from tests.controlplane.state import open_actions

pytestmark = pytest.mark.django_db


@pytest.fixture
def crowd(settings: Any) -> People:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    return people()


@pytest.fixture
def running(crowd: People) -> Workload:
    made = crowd.world.submit("train")
    crowd.world.run(made, "a")
    return made


def signed_in(who: Any) -> Client:
    client = Client()
    client.force_login(who.user)
    return client


def page(crowd: People, workload: Workload) -> str:
    return signed_in(crowd.admin).get(f"/workloads/{workload.pk}/").content.decode()


def test_rest_tells_how_far_a_resize_is(crowd: People, running: Workload) -> None:
    path, resources = f"/workloads/{running.pk}", running.spec["resources"]
    told = body_of(crowd.admin.send("PATCH", path, {"resources": {**resources, "cpu": 4}}))
    assert (told["resize"]["cpu_milli"], told["resize"]["memory_mib"], told["resize"]["is_put_back"]) == (
        4000,
        1024,
        False,
    )
    assert (told["spec"]["resources"]["cpu"], told["phase"]) == (4, "Running")
    crowd.world.cluster.answer = DEFERRED
    crowd.world.actuate()
    crowd.world.observe()
    assert body_of(crowd.viewer.get(path))["resize"]["message"] == "Deferred: Full"
    crowd.world.cluster.answer = ""
    crowd.world.cluster.resize(str(running.pk), 1, 0, 4000, 1024)
    crowd.world.observe()
    done = body_of(crowd.viewer.get(path))
    assert (done["resize"], done["resources"]["cpu_milli"]) == (None, 4000)


def test_rest_refuses_what_has_no_room_with_the_field_and_the_fix(crowd: People, running: Workload) -> None:
    other = crowd.world.submit("other", resources={"cpu": 60, "memory": "1Gi"})
    crowd.world.run(other, "a")
    changes = {"resources": {**running.spec["resources"], "cpu": 5}}
    refused = crowd.admin.send("PATCH", f"/workloads/{running.pk}", changes)
    assert fields_of(refused, 409) == ["resources.cpu"]
    assert "at most 4000 1/1000 cores" in body_of(refused, 409)["detail"]
    assert crowd.viewer.send("PATCH", f"/workloads/{running.pk}", changes).status_code == 403


def test_the_page_asks_has_it_done_and_shows_it_until_it_is_done(crowd: People, running: Workload) -> None:
    client, path = signed_in(crowd.admin), f"/workloads/{running.pk}/resize"
    assert f'href="{path}"' in page(crowd, running)
    asked = client.get(path).content.decode()
    assert 'name="resources.cpu" value="1"' in asked
    answer = client.post(path, {"resources.cpu": "4", "resources.memory": "2Gi"})
    assert (answer.status_code, open_actions(running)) == (302, ["resize"])
    assert "Each worker is being given 4 cores and 2 GiB" in page(crowd, running)
    crowd.world.actuate()
    crowd.world.observe()
    assert "is being given" not in page(crowd, running)


def test_the_page_shows_what_is_wrong_at_its_field_and_keeps_what_was_typed(crowd: People, running: Workload) -> None:
    client, path = signed_in(crowd.admin), f"/workloads/{running.pk}/resize"
    wrong = client.post(path, {"resources.cpu": "much", "resources.memory": "2Gi"})
    assert wrong.status_code == 422
    text = wrong.content.decode()
    assert 'value="much"' in text
    assert 'aria-invalid="true"' in text
    full = client.post(path, {"resources.cpu": "65"})
    assert "no node has more than 64000" in full.content.decode()


def test_only_those_who_may_change_it_are_offered_it(crowd: People, running: Workload) -> None:
    assert signed_in(crowd.viewer).get(f"/workloads/{running.pk}/resize").status_code == 403
    assert signed_in(crowd.outsider).get(f"/workloads/{running.pk}/resize").status_code == 404
    waiting = crowd.world.submit("waits")
    assert f"/workloads/{waiting.pk}/resize" not in page(crowd, waiting)
