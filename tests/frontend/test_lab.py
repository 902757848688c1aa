"""The What-if lab: for platform admins, each fault at its field, progress, and a table of what would change."""

import pytest
from django.core.management import call_command
from django.utils import timezone

from controlplane.models import PolicyVersion, Simulation, SimulationState
from frontend import lab
from tests.frontend.conftest import Visit
from tests.frontend.factory import World

TRACE = {"source": "trace", "trace": "demo", "hours": "1", "policy": "fifo"}


@pytest.mark.parametrize("who", ["ada", "mel", "vic", "out"])
def test_only_platform_admins_enter_and_see_the_link(bare: World, visit: Visit, who: str) -> None:
    assert visit(who).get("/what-if/").status_code == 403
    assert visit(who).post("/what-if/", TRACE).status_code == 403
    assert 'href="/what-if/"' not in visit(who).get("/").content.decode()
    assert 'href="/what-if/"' in visit("admin").get("/").content.decode()


def test_a_what_if_goes_from_the_form_over_its_progress_to_a_table(bare: World, visit: Visit) -> None:
    client = visit("admin")
    answer = client.post("/what-if/", TRACE)
    row = Simulation.objects.get()
    assert answer["Location"] == f"/what-if/{row.pk}/"
    assert row.asked == {"source": "trace", "trace": "demo", "hours": 1, "policy": {"scheduling": {"policy": "fifo"}}}
    Simulation.objects.update(progress=0.25, doing="Replaying")
    running = client.get(f"/what-if/{row.pk}/", headers={"HX-Request": "true"}).content.decode()
    assert "Replaying, 25 %" in running
    assert "every 2s" in running
    Simulation.objects.update(asked={**row.asked, "jobs": 20})
    call_command("simulation", str(row.pk))
    done = client.get(f"/what-if/{row.pk}/").content.decode()
    assert "every 2s" not in done
    assert "All teams" in done
    assert "weft → fifo" in done
    assert "policy fifo" in client.get("/what-if/").content.decode()
    client.post(f"/what-if/{row.pk}/delete")
    assert not Simulation.objects.exists()
    assert client.get(f"/what-if/{row.pk}/").status_code == 404
    assert not PolicyVersion.objects.exists()


def test_a_failed_what_if_says_why(bare: World, visit: Visit) -> None:
    client = visit("admin")
    client.post("/what-if/", {"policy": "fifo"})
    row = Simulation.objects.get()
    call_command("simulation", str(row.pk))
    assert "Fewer than two rounds" in client.get(f"/what-if/{row.pk}/").content.decode()


@pytest.mark.parametrize(
    ("given", "field", "sentence"),
    [
        ({"settings": "max_victims"}, "settings", "is not a setting. Write name = value."),
        ({"settings": "max_victims = 0"}, "settings", "Use a number from 1 to 10000"),
        ({"settings": "polcy = fifo"}, "settings", "scheduling.polcy is not a setting"),
        ({"quotas": "nlp a100"}, "quotas", "Write team, pool and GPUs"),
        ({"add": "a100-00 x"}, "add", "adds no nodes"),
        ({"policy": "fifo", "cycles": "1"}, "cycles", "at least 2"),
        ({}, "policy", "Nothing differs from the current settings"),
    ],
)
def test_each_fault_stands_at_its_field(
    bare: World, visit: Visit, given: dict[str, str], field: str, sentence: str
) -> None:
    answer = visit("admin").post("/what-if/", given)
    assert answer.status_code == 400
    (found,) = (f for _, fields in answer.context["groups"] for f in fields if f.path == field)
    assert sentence in found.fault
    assert not Simulation.objects.exists()


def test_a_second_one_is_told_to_wait(bare: World, visit: Visit) -> None:
    client = visit("admin")
    client.post("/what-if/", TRACE)
    answer = client.post("/what-if/", TRACE)
    assert (answer.status_code, "is running. Wait for its end" in answer.content.decode()) == (409, True)


def test_the_form_s_texts_become_the_request() -> None:
    given = {
        "cycles": "50", "settings": "restart_seconds = 90\nscheduling.max_victims=3", "quotas": "nlp, a100, 1.5",
        "add": "a100-00 2\na100-01", "remove": "a100-07, a100-08",
    }  # fmt: skip
    made, errors = lab.request(given)
    assert not errors
    assert made == {
        "source": "history",
        "cycles": 50,
        "policy": {"scheduling": {"restart_seconds": 90, "max_victims": 3}},
        "quotas": [{"team": "nlp", "pool": "a100", "nominal_milli": 1500}],
        "nodes": {
            "add": [{"like": "a100-00", "count": 2}, {"like": "a100-01", "count": 1}],
            "remove": ["a100-07", "a100-08"],
        },
    }
    assert lab.differs(made) == "restart_seconds = 90, max_victims = 3, nlp in a100, 3 nodes added, 2 nodes removed"


def done(asked: dict[str, object]) -> Simulation:
    at = timezone.now()
    side = {"jobs": 3, "started": 3, "wait_p50_seconds": 30.0, "wait_p95_seconds": 120.0, "preemptions": 0,
            "utilisation_percent": 50.0}  # fmt: skip
    team = {
        "team": "nlp",
        "before": side,
        "after": {**side, "wait_p95_seconds": None},
        "difference": dict.fromkeys(side),
    }
    result = {"teams": [team], "episode": {"jobs": 3, "hours": 1, "gpus": {"before": 8, "after": 8}}, "changes": [],
              "quotas_changed": 0, "rounds": {"before": 1, "after": 1}, "took_seconds": 1}  # fmt: skip
    return Simulation.objects.create(
        asked=asked, author="admin", at=at, seen_at=at, state=SimulationState.DONE, progress=1, result=result
    )


def test_the_chart_has_each_teams_waits_in_both_replays(bare: World, visit: Visit) -> None:
    row = done({"policy": {"scheduling": {"policy": "fifo"}}})
    assert f"/what-if/{row.pk}/chart" in visit("admin").get(f"/what-if/{row.pk}/").content.decode()
    bars = visit("admin").get(f"/what-if/{row.pk}/chart").json()["data"]
    assert [(bar["name"], bar["x"], bar["y"]) for bar in bars] == [
        ("current", ["nlp"], [2.0]), ("proposed", ["nlp"], [None]),
    ]  # fmt: skip
    assert visit("admin").get("/what-if/99/chart").status_code == 404
    assert visit("ada").get(f"/what-if/{row.pk}/chart").status_code == 403


def test_what_was_tried_is_put_in_force_as_a_new_version(bare: World, visit: Visit) -> None:
    row = done({"policy": {"scheduling": {"max_preemptions": 1}}})
    client = visit("admin")
    assert "Apply these settings" in client.get(f"/what-if/{row.pk}/").content.decode()
    assert visit("ada").post(f"/what-if/{row.pk}/apply", {"version": "0"}).status_code == 403
    client.post(f"/what-if/{row.pk}/apply", {"version": "0"})
    (made,) = PolicyVersion.objects.all()
    assert made.data["scheduling"]["max_preemptions"] == 1
    assert made.comment == f"As tried in what-if {row.pk}"
    again = client.post(f"/what-if/{row.pk}/apply", {"version": "0"}, follow=True).content.decode()
    assert "not 0, which you saw" in again
    assert PolicyVersion.objects.count() == 1


@pytest.mark.parametrize("asked", [{"quotas": [{"team": "nlp"}]}, {"policy": {"scheduling": {"policy": "native-k8s"}}}])
def test_what_cannot_be_put_in_force_is_said(bare: World, visit: Visit, asked: dict[str, object]) -> None:
    row = done(asked)
    answer = visit("admin").post(f"/what-if/{row.pk}/apply", {"version": "0"}, follow=True).content.decode()
    assert 'role="alert"' in answer or "toast" in answer
    assert not PolicyVersion.objects.exists()
