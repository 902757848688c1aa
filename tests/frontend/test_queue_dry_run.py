"""The queue's what-if: another priority is tried on a copy, by name or by the place a row is dragged to."""

import pytest

from controlplane.models import Workload
from tests.frontend.conftest import Visit
from tests.frontend.factory import World, document


@pytest.fixture
def line(bare: World) -> list[Workload]:
    """Three that wait for more GPUs than there are, of one team and one priority."""
    ask = {"resources": {"gpus": 8, "cpu": 1, "memory": "1Gi"}, "workers": {"count": 40}}
    return [bare.add(document("training", f"job-{i}", "nlp", **ask), age=900 - i) for i in range(3)]


def test_a_class_is_tried_and_nothing_is_written(line: list[Workload], visit: Visit) -> None:
    answer = visit("admin").post("/queue/try", {"uid": str(line[2].pk), "priority_class": "high"})
    dry_run = answer.context["dry_run"]
    assert (dry_run.before, dry_run.after, dry_run.starts) == (3, 1, False)
    assert [(one.name, one.before, one.after) for one in answer.context["overtaken"]] == [
        ("job-0", 1, 2),
        ("job-1", 2, 3),
    ]
    assert Workload.objects.get(pk=line[2].pk).priority_class.name == "normal"


def test_a_dragged_row_gets_the_nearest_class_that_brings_it_there(line: list[Workload], visit: Visit) -> None:
    client = visit("admin")
    up = client.post("/queue/try", {"uid": str(line[2].pk), "target": str(line[0].pk)}).context["dry_run"]
    assert (up.priority_class, up.after) == ("high", 1)
    down = client.post("/queue/try", {"uid": str(line[0].pk), "target": str(line[2].pk)}).context["dry_run"]
    assert (down.priority_class, down.after) == ("low", 3)


def test_what_was_tried_can_be_given(line: list[Workload], visit: Visit) -> None:
    page = visit("admin").post("/queue/apply", {"uid": str(line[2].pk), "priority_class": "high"}, follow=True)
    assert "job-2 has priority high now (before: normal)." in page.content.decode()
    assert Workload.objects.get(pk=line[2].pk).priority == 300


@pytest.mark.parametrize("who", ["ada", "mel", "vic"])
def test_it_is_for_platform_admins(line: list[Workload], visit: Visit, who: str) -> None:
    client, asked = visit(who), {"uid": str(line[0].pk), "priority_class": "high"}
    assert client.get("/queue/try", asked).status_code == 403
    assert client.post("/queue/apply", asked).status_code == 403
    assert "/queue/try" not in client.get("/queue/").content.decode()
    assert "draggable" in visit("admin").get("/queue/").content.decode()


def test_odd_questions_are_answered(line: list[Workload], visit: Visit) -> None:
    client, uid = visit("admin"), str(line[0].pk)
    assert client.post("/queue/try", {"uid": "x"}).status_code == 404
    assert client.post("/queue/try", {}).status_code == 404
    for more in ({"priority_class": "none"}, {"target": "x"}, {"target": uid}):
        answer = client.post("/queue/try", {"uid": uid, **more})
        assert answer.status_code == 200
        assert answer.context["dry_run"] is None
    assert client.post("/queue/apply", {"uid": uid, "priority_class": "none"}, follow=True).status_code == 200
    assert Workload.objects.get(pk=line[0].pk).priority_class.name == "normal"
