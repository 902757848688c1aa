"""Another image, environment or objective for a service, by REST and by its page: asked, refused, shown, undone."""

from typing import Any

import pytest
from django.test import Client

from controlplane.cluster.port import PodPhase
from controlplane.models import Quota, Workload
from tests.controlplane.api.conftest import People, body_of, fields_of, people

pytestmark = pytest.mark.django_db

OLD, NEW = "registry.example/app:1", "registry.example/app:2"


@pytest.fixture
def crowd(settings: Any) -> People:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    return people()


@pytest.fixture
def chat(crowd: People) -> Workload:
    made = crowd.world.submit("chat", kind="inference", replicas={"min": 2, "max": 2}, env={"KEEP": "1"})
    crowd.world.run(made, "a", "b")
    return made


def signed_in(who: Any) -> Client:
    client = Client()
    client.force_login(who.user)
    return client


def fresh(workload: Workload) -> Workload:
    return Workload.objects.get(pk=workload.pk)


# --- REST -------------------------------------------------------------------------------------


def test_rest_tells_how_far_a_revision_is_and_undoes_it(crowd: People, chat: Workload) -> None:
    at = f"/inferences/{chat.pk}"
    first = body_of(crowd.viewer.get(f"{at}/revisions"))
    assert (first["revision"], first["rollout"]) == (1, None)
    assert [(one["number"], one["image"], one["ready"]) for one in first["revisions"]] == [(1, OLD, 2)]
    assert body_of(crowd.admin.send("PATCH", at, {"image": NEW}))["spec"]["image"] == NEW
    told = body_of(crowd.viewer.get(f"{at}/revisions"))
    assert {name: told["rollout"][name] for name in ("to", "before", "ready", "of", "is_back")} == {
        "to": 2, "before": 1, "ready": 0, "of": 2, "is_back": False,
    }  # fmt: skip
    assert [(one["number"], one["is_wanted"], one["made_by"]) for one in told["revisions"]] == [
        (2, True, crowd.admin.user.username),
        (1, False, ""),
    ]
    back = body_of(crowd.admin.post(f"{at}/rollback", {"to": 1}))
    assert (back["revision"], fresh(chat).spec["image"]) == (1, OLD)
    assert body_of(crowd.admin.post(f"{at}/rollback"))["revision"] == 2


def test_rest_begins_weighs_and_promotes_a_canary(crowd: People, chat: Workload) -> None:
    at = f"/inferences/{chat.pk}"
    body_of(crowd.admin.send("PATCH", at, {"image": NEW, "rollout": {"weight": 10}}))
    told = body_of(crowd.viewer.get(f"{at}/revisions"))["rollout"]
    names = ("is_canary", "weight", "percent", "of", "judged_by", "own_requests")
    assert [told[name] for name in names] == [True, 10, None, 1, "nothing", None]
    assert fields_of(crowd.admin.send("PATCH", at, {"rollout": {"weight": 0}})) == ["rollout.weight"]
    assert fields_of(crowd.admin.send("PATCH", at, {"rollout": {"weight": 101}})) == ["rollout.weight"]
    body_of(crowd.admin.send("PATCH", at, {"rollout": {"weight": 100}}))
    told = body_of(crowd.viewer.get(f"{at}/revisions"))
    assert (told["rollout"]["is_canary"], told["revisions"][0]["weight"]) == (False, 100)


def test_rest_refuses_what_there_is_not_and_whom_it_must(crowd: People, chat: Workload) -> None:
    at = f"/inferences/{chat.pk}"
    assert fields_of(crowd.admin.post(f"{at}/rollback"), 409) == ["to"]
    assert fields_of(crowd.admin.post(f"{at}/rollback", {"to": 0})) == ["to"]
    assert fields_of(crowd.admin.post(f"{at}/rollback", {"so": 1})) == ["so"]
    assert fields_of(crowd.admin.send("PATCH", at, {"image": "No Image"})) == ["image"]
    assert fields_of(crowd.admin.send("PATCH", at, {"env": {"LD_PRELOAD": "x"}})) == ["env.LD_PRELOAD"]
    assert fields_of(crowd.admin.send("PATCH", at, {"objective": {"p95_latency": "0s"}})) == ["objective.p95_latency"]
    body_of(crowd.member.post(f"{at}/rollback"), 403)
    body_of(crowd.viewer.send("PATCH", at, {"image": NEW}), 403)
    assert fresh(chat).revision == 1


# --- the page ---------------------------------------------------------------------------------


def test_the_page_shows_revisions_and_how_far_the_newest_is(crowd: People, chat: Workload) -> None:
    body_of(crowd.admin.send("PATCH", f"/inferences/{chat.pk}", {"image": NEW}))
    chat.refresh_from_db()
    crowd.world.place(chat, "b")
    crowd.world.actuate()
    crowd.world.pods(chat, PodPhase.RUNNING, 2)
    text = signed_in(crowd.admin).get(f"/services/{chat.pk}/").content.decode()
    assert "Revision 2 replaces revision 1: 1 of 2 replicas ready." in text
    assert f"/services/{chat.pk}/rollback?to=1" in text
    seen = signed_in(crowd.viewer).get(f"/services/{chat.pk}/").content.decode()
    assert NEW in seen
    assert "rollback" not in seen


def test_the_form_changes_only_what_is_other(crowd: People, chat: Workload) -> None:
    client, url = signed_in(crowd.admin), f"/services/{chat.pk}/change"
    fields = {f.path: f.value for f in client.get(url).context["fields"]}
    assert fields == {
        "image": OLD, "env": "KEEP=1", "rollout.weight": "100", "rollout.steps": "", "rollout.step_minutes": "",
        "objective.p95_latency": "200ms", "objective.p95_first_token": "",
        "objective.availability": "99.9", "objective.window": "28d", "gateway.slots": "", "gateway.late_after": "",
        "gateway.waiting": "", "standby": "", "standby_memory": "", "replicas.spread": "",
    }  # fmt: skip
    client.post(url, fields)
    assert fresh(chat).version == chat.version or fresh(chat).revision == 1
    client.post(url, fields | {"env": "KEEP=1\nMORE=2"})
    changed = fresh(chat)
    assert (changed.revision, changed.spec["env"], changed.objective_since) == (2, {"KEEP": "1", "MORE": "2"}, None)
    client.post(url, fields | {"env": "KEEP=1\nMORE=2", "objective.availability": "99"})
    changed = fresh(chat)
    assert (changed.revision, changed.spec["objective"]["availability"]) == (2, 99)
    assert changed.objective_since is not None


def test_the_form_says_where_weights_wait_and_over_what_replicas_are_spread(crowd: People) -> None:
    whole = {"gpu_share": {"guarantee": 1, "memory": "8Gi"}}
    chat = crowd.world.submit("chat", kind="inference", replicas={"min": 1, "max": 2}, resources=whole)
    client, url = signed_in(crowd.admin), f"/services/{chat.pk}/change"
    fields = {f.path: f.value for f in client.get(url).context["fields"]}
    client.post(url, fields | {"replicas.spread": "rack", "standby": "1", "standby_memory": "host"})
    changed = fresh(chat)
    assert (changed.spread, changed.spec["replicas"]) == ("rack", {"min": 1, "max": 2, "spread": "rack"})
    assert (changed.offloads, changed.revision) == (True, 1), "no replica is replaced for that"
    shown = client.get(url).content.decode()
    assert all(f'<option value="{word}" selected>' in shown for word in ("rack", "host"))
    fields = {f.path: f.value for f in client.get(url).context["fields"]}
    client.post(url, fields | {"replicas.spread": "", "standby": "", "standby_memory": ""})
    assert (fresh(chat).spread, fresh(chat).offloads) == ("", False)


def test_the_form_says_what_standby_would_cost_before_it_is_saved(crowd: People) -> None:
    chat = crowd.world.submit("chat", kind="inference", replicas={"min": 1, "max": 4}, resources={"gpus": 1})
    client = signed_in(crowd.admin)
    question = client.get(f"/services/{chat.pk}/change").content.decode()
    assert "input changed delay:400ms from:#f-standby" in question

    def told(text: str) -> str:
        return str(client.get(f"/services/{chat.pk}/price", {"standby": text}).content.decode())

    assert "Standby holds up to 2 GPUs, 48 GPU hours a day." in told("2")
    assert "Standby holds up to 3 GPUs, 72 GPU hours a day." in told("auto")
    assert "Standby" not in told("") + told("0") + told("many")
    Quota.objects.filter(team=chat.team).update(nominal=2000, borrowing_limit=0)
    assert "Standby holds up to 1 GPU, 24 GPU hours a day, not 3: the team&#x27;s quotas let it hold 2" in told("auto")


def test_the_form_begins_a_canary_which_the_slider_weighs_and_a_hundred_promotes(crowd: People, chat: Workload) -> None:
    client, at = signed_in(crowd.admin), f"/services/{chat.pk}"
    fields = {f.path: f.value for f in client.get(f"{at}/change").context["fields"]}
    client.post(f"{at}/change", fields | {"image": NEW, "rollout.weight": "20"})
    assert (fresh(chat).revision, fresh(chat).spec["rollout"]["weight"]) == (2, 20)
    crowd.world.place(chat, "b")
    crowd.world.actuate()
    crowd.world.pods(chat, PodPhase.RUNNING, 2)
    page = client.get(f"{at}/").content.decode()
    assert 'type="range"' in page
    assert "Revision 2 gets 20 % of the requests: 1 of 1 replica ready." in page
    seen = signed_in(crowd.viewer).get(f"{at}/traffic").content.decode()
    assert "80 %" in seen
    assert 'type="range"' not in seen
    assert signed_in(crowd.viewer).post(f"{at}/traffic", {"weight": "50"}).status_code == 403
    for wrong in ("0", "101", "much", ""):
        answer = client.post(f"{at}/traffic", {"weight": wrong})
        assert (answer.status_code, fresh(chat).spec["rollout"]["weight"]) == (422, 20)
        assert "rollout.weight" in answer.content.decode()
    assert client.post(f"{at}/traffic", {"weight": "40"}).status_code == 200
    assert fresh(chat).rollout["weight"] == 40
    assert "Promote revision 2 of chat?" in client.get(f"{at}/promote").content.decode()
    answer = client.post(f"{at}/traffic", {"weight": "100"}, headers={"HX-Request": "true"})
    assert answer["HX-Redirect"] == f"{at}/"
    assert fresh(chat).rollout["weight"] == 100
    assert client.get(f"{at}/promote").status_code == 302, "there is nothing to promote any more"


def test_the_form_begins_steps_which_the_page_shows_and_a_share_by_hand_ends(crowd: People, chat: Workload) -> None:
    client, at = signed_in(crowd.admin), f"/services/{chat.pk}"
    fields = {f.path: f.value for f in client.get(f"{at}/change").context["fields"]}
    asked = fields | {"image": NEW, "rollout.steps": "10, 50", "rollout.step_minutes": "15"}
    client.post(f"{at}/change", asked)
    assert fresh(chat).spec["rollout"] == {"deadline": "10m", "weight": 100, "steps": [10, 50], "step_minutes": 15}
    crowd.world.place(chat, "b")
    crowd.world.actuate()
    crowd.world.pods(chat, PodPhase.RUNNING, 2)
    page = client.get(f"{at}/traffic").content.decode()
    assert "<strong>10 % (now)</strong>, 50 %, then it replaces revision 1. Next, at " in page
    assert "UTC at the soonest: 50 %." in page
    now = {f.path: f.value for f in client.get(f"{at}/change").context["fields"]}
    assert (now["rollout.weight"], now["rollout.steps"], now["rollout.step_minutes"]) == ("100", "10, 50", "15")
    version = fresh(chat).version
    client.post(f"{at}/change", now)
    assert fresh(chat).version == version, "nothing is other"
    client.post(f"{at}/traffic", {"weight": "30"})
    assert fresh(chat).spec["rollout"] == {"deadline": "10m", "weight": 30}
    answer = client.post(f"{at}/change", now | {"rollout.steps": "50, 10"})
    assert "which does not rise" in answer.content.decode()


def test_the_page_promotes_for_those_who_may(crowd: People, chat: Workload) -> None:
    at = f"/services/{chat.pk}"
    body_of(crowd.admin.send("PATCH", f"/inferences/{chat.pk}", {"image": NEW, "rollout": {"weight": 20}}))
    assert signed_in(crowd.member).post(f"{at}/promote").status_code == 403
    signed_in(crowd.admin).post(f"{at}/promote")
    assert fresh(chat).rollout["weight"] == 100


def test_the_form_says_what_is_wrong_at_the_field(crowd: People, chat: Workload) -> None:
    given = {"image": "", "env": "LD_PRELOAD=x", "objective.p95_latency": "soon"}
    answer = signed_in(crowd.admin).post(f"/services/{chat.pk}/change", given)
    faults = {f.path: f.fault for f in answer.context["fields"] if f.fault}
    assert answer.status_code == 422
    assert set(faults) == {"image", "env", "objective.p95_latency"}


def test_the_page_rolls_back_for_those_who_may(crowd: People, chat: Workload) -> None:
    body_of(crowd.admin.send("PATCH", f"/inferences/{chat.pk}", {"image": NEW}))
    url = f"/services/{chat.pk}/rollback?to=1"
    assert signed_in(crowd.member).post(url).status_code == 403
    assert "back to revision 1?" in signed_in(crowd.admin).get(url).content.decode()
    signed_in(crowd.admin).post(url)
    assert fresh(chat).revision == 1


def test_the_queue_in_front_of_a_service_is_changed_where_its_objective_is(crowd: People, chat: Workload) -> None:
    at = f"/inferences/{chat.pk}"
    queue = {"slots": 8, "late_after": "2s", "waiting": 70}
    told = body_of(crowd.admin.send("PATCH", at, {"gateway": queue}))
    assert told["spec"]["gateway"] == queue
    assert fresh(chat).spec["normalised"]["gateway"] == {"slots": 8, "late_after": 2.0, "waiting": 70}
    assert (fresh(chat).revision, fresh(chat).rollout, fresh(chat).objective_since) == (1, None, None)
    assert fields_of(crowd.admin.send("PATCH", at, {"gateway": {"slots": 0}})) == ["gateway.slots"]
    assert fields_of(crowd.admin.send("PATCH", at, {"gateway": {"waiting": 5}})) == ["gateway.slots"]
    job = crowd.world.submit("train")
    assert fields_of(crowd.admin.send("PATCH", f"/workloads/{job.pk}", {"gateway": queue})) == ["gateway"]

    client = signed_in(crowd.admin)
    form = client.get(f"/services/{chat.pk}/change").content.decode()
    assert 'name="gateway.slots" value="8"' in form
    typed = {
        "image": OLD, "env": "KEEP=1", "objective.p95_latency": "200ms", "objective.availability": "99.9",
        "objective.window": "28d", "gateway.slots": "9", "gateway.late_after": "2s", "gateway.waiting": "70",
    }  # fmt: skip
    assert client.post(f"/services/{chat.pk}/change", typed).status_code == 302
    assert fresh(chat).spec["gateway"] == {**queue, "slots": 9}
    assert fresh(chat).objective_since is None
    refused = client.post(f"/services/{chat.pk}/change", {**typed, "gateway.slots": "0"})
    assert refused.status_code == 422
    assert 'name="gateway.slots" value="0" ' in refused.content.decode()
    gone = {name: "" if name.startswith("gateway") else value for name, value in typed.items()}
    assert client.post(f"/services/{chat.pk}/change", gone).status_code == 302
    assert fresh(chat).spec.get("gateway") is None
    assert "gateway" not in fresh(chat).spec["normalised"]
