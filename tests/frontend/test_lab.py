"""The What-if lab: for platform admins, each fault at its field, progress, and a table of what would change."""

import pytest
from django.core.management import call_command

from controlplane.models import PolicyVersion, Simulation
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
        ({"settings": "max_victims"}, "settings", "is no setting. Write name = value."),
        ({"settings": "max_victims = 0"}, "settings", "Use a number from 1 to 10000"),
        ({"settings": "polcy = fifo"}, "settings", "scheduling.polcy is not a setting"),
        ({"quotas": "nlp a100"}, "quotas", "Write team, pool and GPUs"),
        ({"add": "a100-00 x"}, "add", "adds no nodes"),
        ({"policy": "fifo", "cycles": "1"}, "cycles", "at least 2"),
        ({}, "policy", "Nothing differs from what is in force"),
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
    assert lab.differs(made) == "restart_seconds = 90, max_victims = 3, 1 quota, 3 nodes more, 2 nodes less"
