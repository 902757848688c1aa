"""What would start a workload now, on its page and beside the form."""

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from controlplane.jobspec import spec
from controlplane.models import Node, Placement, Workload
from controlplane.services.scheduling import policy
from frontend import forms
from frontend.suggestions import asked_so, texts_of, with_links
from scheduler.model.workload import Kind
from tests.frontend.conftest import Visit
from tests.frontend.factory import NOW, World, document

JOB = document(
    "training",
    "bert",
    "nlp",
    command=["torchrun", "train.py", "--name", "a b"],
    env={"EPOCHS": "3"},
    workers={"count": 4, "min": 4, "max": 4},
    topology={"require": "node", "prefer": "nvlink"},
    resources={"gpus": 4, "gpu_model": ["H100"], "cpu": 8, "memory": "64Gi"},
)
SHARE = document("notebook", "lab", "nlp")


def suggestion(
    kind: str, before: Any, after: Any, target: str = "", pool: str = "", may: bool = False
) -> dict[str, Any]:
    named = {"kind": kind, "text": "", "before": before, "after": after, "target": target, "pool": pool}
    return {**named, "may_apply": may}


@pytest.mark.parametrize(
    ("job", "change", "path", "value"),
    [
        (JOB, suggestion("workers", 4, 2), ("workers",), {"count": 2, "min": 2, "max": 2}),
        ({**JOB, "workers": {"count": 4, "min": 2, "max": 8}}, suggestion("workers", 2, 1), ("workers", "min"), 1),
        (JOB, suggestion("gpus", 4, 2), ("gpus",), 2),
        (JOB, suggestion("cpu", 8000, 4500), ("cpu_milli",), 4500),
        (JOB, suggestion("memory", 65536, 4096), ("memory_mib",), 4096),
        (JOB, suggestion("model", "H100", "A100"), ("resources", "gpu_model"), ["H100", "A100"]),
        (SHARE, suggestion("share", 250, 200), ("gpu_share", "guarantee"), 200),
        (SHARE, suggestion("gpu_memory", 8192, 4096), ("gpu_share", "memory_mib"), 4096),
    ],
)
def test_the_form_is_filled_with_what_the_change_says(job: Any, change: Any, path: Any, value: Any) -> None:
    kind = Kind(job["type"])
    texts = texts_of(kind, asked_so(job, change))
    assert texts is not None
    read = spec.parse(forms.document(kind, texts))
    found: Any = {**read.normalised(), "resources": read.text["resources"]}
    assert read.command == tuple(job.get("command", ()))
    for name in path:
        found = found[name]
    assert found == value
    assert texts["name"] == f"{job['name']}-2"


def test_a_looser_level_and_another_class_are_asked() -> None:
    assert asked_so(JOB, suggestion("topology", "node", "rack"))["topology"] == {"require": "rack", "prefer": "nvlink"}
    assert asked_so(JOB, suggestion("topology", "node", "any"))["topology"] == {"prefer": "nvlink"}
    assert asked_so(JOB, suggestion("model", "H100", "any"))["resources"]["gpu_model"] == []
    assert asked_so(JOB, suggestion("priority", 0, 100, "high"))["priority_class"] == "high"


def test_a_job_that_the_form_cannot_say_is_not_offered() -> None:
    assert texts_of(Kind.TRAINING, {**JOB, "nonsense": 1}) is None


def test_each_change_leads_to_the_page_that_does_it(world: World) -> None:
    w = Workload.objects.filter(kind="training").first()
    assert w is not None
    rows = [
        suggestion("nominal", 0, 1000, "nlp", "a100"),
        suggestion("stop", 0, 5, str(w.pk)),
        suggestion("gpus", 2, 1),
    ]
    links = [urlsplit(one["href"]).path for one in with_links(rows, w, may_submit=True)]
    assert links == ["/teams/", f"/workloads/{w.pk}/", "/submit/"]
    assert with_links(rows[2:], w, may_submit=False)[0]["href"] == ""
    hidden = {**rows[1], "target": ""}
    assert with_links([hidden], w, may_submit=True)[0]["action"] == ""
    asked = with_links([{**one, "may_apply": True} for one in rows], w, may_submit=False)
    assert {urlsplit(one["href"]).path for one in asked} == {f"/workloads/{w.pk}/suggestion"}
    assert all(one["asks"] for one in asked)


@pytest.fixture
def waiting(bare: World, visit: Visit) -> Workload:
    """Mel's job of 8 GPUs, where no node has 8 left."""
    bare.fill(60)
    visit("mel").post("/submit/", {**_form(), "name": "first", "resources.gpus": "8"})
    return Workload.objects.get(name="first")


def _address(text: str, start: str) -> str:
    return text[text.index(start) :].split('"')[0].replace("&amp;", "&")


def test_the_page_of_what_waits_asks_before_it_applies_what_would_start_it(waiting: Workload, visit: Visit) -> None:
    text = visit("mel").get(f"/workloads/{waiting.pk}/").content.decode()
    assert "What would start it now" in text
    assert "tested" in text
    href = _address(text, f"/workloads/{waiting.pk}/suggestion?kind=gpus")
    less = int(dict(parse_qsl(urlsplit(href).query))["after"])
    asked = visit("mel").get(href, headers={"HX-Request": "true"}).content.decode()
    assert f"Request {less} GPU" in asked
    assert "keeps its position and age in the queue" in asked
    assert Workload.objects.get(pk=waiting.pk).gpus == 8
    visitor = visit("mel")
    page = visitor.post(href, follow=True).content.decode()
    assert "Applied to first: Request" in page
    now = Workload.objects.get(pk=waiting.pk)
    assert (now.gpus, now.queued_at, now.seq) == (less, waiting.queued_at, waiting.seq)
    assert "What would start it now" not in page
    assert "starts with the next round as it is" in visitor.post(href, follow=True).content.decode()
    assert Workload.objects.get(pk=waiting.pk).version == now.version


def test_the_address_of_before_does_the_same_until_the_next_version(waiting: Workload, visit: Visit) -> None:
    old = f"/workloads/{waiting.pk}/remedy?kind=gpus&after=1"
    asked = visit("mel").get(old, headers={"HX-Request": "true"}).content.decode()
    assert "keeps its position and age in the queue" in asked
    assert "Applied to first" in visit("mel").post(old, follow=True).content.decode()


def test_who_may_not_change_it_is_offered_another_job_instead(waiting: Workload, visit: Visit) -> None:
    Workload.objects.filter(pk=waiting.pk).update(created_by=None)
    text = visit("mel").get(f"/workloads/{waiting.pk}/").content.decode()
    assert f"/workloads/{waiting.pk}/suggestion?kind=gpus" not in text
    assert dict(parse_qsl(urlsplit(_address(text, "/submit/?type=training")).query))["name"] == "first-2"
    href = f"/workloads/{waiting.pk}/suggestion?kind=gpus&after=1"
    assert [visit(name).post(href).status_code for name in ("mel", "vic", "out")] == [403, 403, 404]
    assert Workload.objects.get(pk=waiting.pk).gpus == 8


def test_quotas_and_stops_are_applied_by_who_may(waiting: Workload, visit: Visit) -> None:
    at = f"/workloads/{waiting.pk}/suggestion"
    other = Workload.objects.filter(team__name="speech", phase="Running").first()
    assert other is not None
    assert visit("ada").get(f"{at}?kind=nominal&after=99000&target=nlp&pool=a100").status_code == 403
    assert visit("ada").post(f"{at}?kind=stop&target={other.pk}").status_code == 404
    assert Workload.objects.get(pk=other.pk).phase == "Running"


def test_the_stop_of_another_is_asked_for_and_done(bare: World, visit: Visit) -> None:
    node = Node.objects.order_by("name").first()
    assert node is not None
    Node.objects.exclude(pk=node.pk).delete()
    visit("mel").post("/submit/", {**_form(), "name": "first", "resources.gpus": "8"})
    first = Workload.objects.get(name="first")
    Workload.objects.filter(pk=first.pk).update(phase="Running", started_at=NOW)
    held = {"state": "Bound", "gpus": list(range(8)), "milli": 8000, "bound_at": NOW}
    Placement.objects.create(workload=first, attempt=1, rank=0, node=node.name, pool=node.pool.name, **held)
    visit("mel").post("/submit/", {**_form(), "name": "second", "resources.gpus": "8"})
    at = f"/workloads/{Workload.objects.get(name='second').pk}/"
    href = _address(visit("mel").get(at).content.decode(), f"{at}suggestion?kind=stop")
    asked = visit("mel").get(href, headers={"HX-Request": "true"}).content.decode()
    assert "first is stopped permanently" in asked
    assert "Stop first" in asked
    visit("mel").post(href)
    assert Workload.objects.get(pk=first.pk).phase == "Stopping"


def test_a_change_that_does_not_start_it_is_answered_with_one_that_does(waiting: Workload, visit: Visit) -> None:
    at = f"/workloads/{waiting.pk}/suggestion"
    asked = visit("mel").get(f"{at}?kind=cpu&after=1", headers={"HX-Request": "true"}).content.decode()
    assert "would not start with that" in asked
    assert "This would: " in asked
    assert "<form" not in asked
    for odd, status in (("kind=magic", 302), ("kind=stop&target=nlp/%00", 302), ("", 302), ("kind=stop&target=x", 404)):
        assert visit("mel").get(f"{at}?{odd}").status_code == status, odd


def test_what_waits_without_a_suggestion_says_so(bare: World, visit: Visit) -> None:
    visit("mel").post("/submit/", {**_form(), "name": "first"})
    visit("mel").post("/submit/", {**_form(), "name": "second", "after": "first"})
    w = Workload.objects.get(name="second")
    text = visit("mel").get(f"/workloads/{w.pk}/").content.decode()
    assert "What would start it now" in text
    assert "Neither capacity nor quota" in text


def test_what_starts_anyway_lists_no_change(bare: World, visit: Visit) -> None:
    visit("mel").post("/submit/", {**_form(), "name": "first"})
    w = Workload.objects.get(name="first")
    assert "What would start it now" not in visit("mel").get(f"/workloads/{w.pk}/").content.decode()


def test_under_a_reference_policy_the_page_says_what_to_do_instead(bare: World, visit: Visit) -> None:
    bare.fill(60)
    policy.change(changes={"scheduling": {"policy": "fifo"}}, author="ada")
    visit("mel").post("/submit/", {**_form(), "name": "first", "resources.gpus": "8"})
    w = Workload.objects.get(name="first")
    text = visit("mel").get(f"/workloads/{w.pk}/").content.decode()
    assert "What would start it now" in text
    assert "fifo is in use; preview the job" in text
    shown = visit("mel").post("/submit/preview", {**_form(), "name": "second", "resources.gpus": "8"})
    assert "fifo is in use; preview the job" in shown.content.decode()


def _form() -> dict[str, str]:
    return {"type": "training", "team": "nlp", "image": "example/bert:1", "resources.gpus": "1"}
