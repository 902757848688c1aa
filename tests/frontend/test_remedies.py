"""What would start a workload now, on its page and beside the form."""

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from controlplane import spec
from controlplane.models import Workload
from controlplane.services import policy
from frontend import forms
from frontend.remedies import asked_so, texts_of, with_links
from scheduler.workload import Kind
from tests.frontend.conftest import Visit
from tests.frontend.factory import World, document

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


def remedy(kind: str, before: Any, after: Any, target: str = "", pool: str = "") -> dict[str, Any]:
    return {"kind": kind, "text": "", "before": before, "after": after, "target": target, "pool": pool}


@pytest.mark.parametrize(
    ("job", "change", "path", "value"),
    [
        (JOB, remedy("workers", 4, 2), ("workers",), {"count": 2, "min": 2, "max": 2}),
        ({**JOB, "workers": {"count": 4, "min": 2, "max": 8}}, remedy("workers", 2, 1), ("workers", "min"), 1),
        (JOB, remedy("gpus", 4, 2), ("gpus",), 2),
        (JOB, remedy("cpu", 8000, 4500), ("cpu_milli",), 4500),
        (JOB, remedy("memory", 65536, 4096), ("memory_mib",), 4096),
        (JOB, remedy("model", "H100", "A100"), ("resources", "gpu_model"), ["H100", "A100"]),
        (SHARE, remedy("share", 250, 200), ("gpu_share", "guarantee"), 200),
        (SHARE, remedy("gpu_memory", 8192, 4096), ("gpu_share", "memory_mib"), 4096),
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
    assert asked_so(JOB, remedy("topology", "node", "rack"))["topology"] == {"require": "rack", "prefer": "nvlink"}
    assert asked_so(JOB, remedy("topology", "node", "any"))["topology"] == {"prefer": "nvlink"}
    assert asked_so(JOB, remedy("model", "H100", "any"))["resources"]["gpu_model"] == []
    assert asked_so(JOB, remedy("priority", 0, 100, "high"))["priority_class"] == "high"


def test_a_job_that_the_form_cannot_say_is_not_offered() -> None:
    assert texts_of(Kind.TRAINING, {**JOB, "nonsense": 1}) is None


def test_each_change_leads_to_the_page_that_does_it(world: World) -> None:
    w = Workload.objects.filter(kind="training").first()
    assert w is not None
    rows = [remedy("nominal", 0, 1000, "nlp", "a100"), remedy("stop", 0, 5, str(w.pk)), remedy("gpus", 2, 1)]
    links = [urlsplit(one["href"]).path for one in with_links(rows, w, may_submit=True)]
    assert links == ["/teams/", f"/workloads/{w.pk}/", "/submit/"]
    assert with_links(rows[2:], w, may_submit=False)[0]["href"] == ""
    hidden = {**rows[1], "target": ""}
    assert with_links([hidden], w, may_submit=True)[0]["action"] == ""


def test_the_page_of_what_waits_says_what_would_start_it(bare: World, visit: Visit) -> None:
    bare.fill(60)
    big = {"resources.gpus": "8"}
    visit("mel").post("/submit/", {**_form(), "name": "first", **big})
    w = Workload.objects.get(name="first")
    text = visit("mel").get(f"/workloads/{w.pk}/").content.decode()
    assert "What would start it now" in text
    assert "tested" in text
    href = text[text.index("/submit/?type=training") :].split('"')[0].replace("&amp;", "&")
    assert dict(parse_qsl(urlsplit(href).query))["name"] == "first-2"


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
    assert "fifo is in use; preview a job" in text
    shown = visit("mel").post("/submit/preview", {**_form(), "name": "second", "resources.gpus": "8"})
    assert "fifo is in use; preview a job" in shown.content.decode()


def _form() -> dict[str, str]:
    return {"type": "training", "team": "nlp", "image": "example/bert:1", "resources.gpus": "1"}
