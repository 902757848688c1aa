import json
import re
import shlex
from html import unescape

import pytest
import yaml

from controlplane.jobspec import spec
from controlplane.models import Event, Workload
from frontend import forms, layout
from scheduler.model.workload import Kind
from tests.frontend.conftest import Visit
from tests.frontend.factory import World

TRAINING = {
    "type": "training", "name": "bert", "team": "nlp", "image": "example/bert:1", "retries": "2",
    "command": "torchrun 'train me.py' --lr 1e-3", "env": "EPOCHS=3\nA=b=c", "checkpoint.interval": "10m",
    "resources.gpus": "2", "resources.gpu_model": "A100, L40S", "resources.cpu": "8", "resources.memory": "64Gi",
    "workers.count": "4", "workers.min": "2", "workers.max": "8", "topology.require": "rack",
}  # fmt: skip


@pytest.mark.parametrize("kind", list(Kind))
def test_every_field_of_the_form_is_one_of_the_job_file(kind: Kind) -> None:
    known = forms.fields_of(kind)
    paths = [path for _, group in layout.LAYOUT[kind] for path in group]
    assert set(paths) <= known.keys()
    assert len(paths) == len(set(paths))
    assert set(paths) <= layout.LABELS.keys()


@pytest.mark.parametrize("kind", list(Kind))
def test_every_example_is_accepted(kind: Kind) -> None:
    shown = {path for _, group in layout.LAYOUT[kind] for path in group}
    values = {path: text for path, text in layout.EXAMPLES.items() if path in shown} | dict(layout.STARTING[kind])
    values |= {"name": "x", "team": "nlp", "image": "example/x:1"}
    other = "gpu_share" if "resources.gpus" in values else "gpu_memory"  # whole GPUs or a share, not both
    values = {path: text for path, text in values.items() if other not in path}
    values.pop("objective.p95_first_token", None)  # or the latency
    assert spec.parse(forms.document(kind, values)).name == "x"


def test_the_form_makes_the_job_file_one_would_write() -> None:
    job = forms.document(Kind.TRAINING, TRAINING)
    assert job["command"] == ["torchrun", "train me.py", "--lr", "1e-3"]
    assert job["env"] == {"EPOCHS": "3", "A": "b=c"}
    assert job["resources"] == {"gpus": 2, "gpu_model": ["A100", "L40S"], "cpu": 8, "memory": "64Gi"}
    assert job["workers"] == {"count": 4, "min": 2, "max": 8}


def test_the_form_takes_roles_as_yaml() -> None:
    job = forms.document(Kind.TRAINING, {**TRAINING, "roles": "- name: ps\n  count: 2\n  resources: {cpu: 4}"})
    assert job["roles"] == [{"name": "ps", "count": 2, "resources": {"cpu": 4}}]
    with pytest.raises(spec.SpecError, match="Give a list"):
        spec.parse(forms.document(Kind.TRAINING, {**TRAINING, "roles": "- {name: ps"}))


def test_what_the_form_makes_equals_what_its_copies_make() -> None:
    job = forms.document(Kind.TRAINING, TRAINING)
    (_, _, text), (_, _, cli), (_, _, curl) = forms.copies(job, "http://127.0.0.1:8000")
    assert yaml.safe_load(text) == job
    assert yaml.safe_load(cli.split("<<'EOF'\n")[1].removesuffix("EOF")) == job
    words = shlex.split(curl.replace("\\\n", " "))
    assert json.loads(words[words.index("-d") + 1]) == job


def test_a_submission_queues_a_workload(bare: World, visit: Visit) -> None:
    answer = visit("mel").post("/submit/", TRAINING)
    made = Workload.objects.get(name="bert")
    assert answer["Location"] == f"/workloads/{made.pk}/"
    assert (made.phase, made.workers, made.gpus, made.created_by.username) == ("Queued", 4, 2, "mel")
    assert Event.objects.get(workload=made.pk).actor == "mel"


def test_each_fault_stands_at_its_field_in_the_words_of_rest(bare: World, visit: Visit) -> None:
    given = {**TRAINING, "workers.min": "9", "resources.memory": "64 lemons", "name": "Bert!"}
    answer = visit("mel").post("/submit/", given)
    assert answer.status_code == 400
    text = unescape(answer.content.decode())
    try:
        spec.parse(forms.document(Kind.TRAINING, given))
    except spec.SpecError as error:
        told = {e.field: e.message for e in error.errors}
    assert {"workers.min", "resources.memory", "name"} <= told.keys()
    for field, message in told.items():
        place = text.index(f'name="{field}"')
        assert message in text[place : place + 1200], field
    assert not Workload.objects.exists()


def test_what_can_never_be_placed_is_refused_at_its_field(bare: World, visit: Visit) -> None:
    answer = visit("mel").post("/submit/", {**TRAINING, "resources.gpus": "64"})
    assert answer.status_code == 422
    text = answer.content.decode()
    assert re.search(r'aria-invalid="true"', text[text.index('name="resources.gpus"') :][:300])


def test_values_survive_a_fault(bare: World, visit: Visit) -> None:
    text = visit("mel").post("/submit/", {**TRAINING, "workers.min": "9"}).content.decode()
    assert 'value="example/bert:1"' in text
    assert "EPOCHS=3" in text


def test_the_preview_says_whether_it_would_start_and_writes_nothing(bare: World, visit: Visit) -> None:
    text = visit("mel").post("/submit/preview", TRAINING).content.decode()
    assert "starts in the next round" in text
    assert "position 1 of 1 in the queue" in text
    assert "worker 0 on a100-" in text
    assert not Workload.objects.exists()
    assert not Event.objects.exists()


def test_the_preview_says_why_it_would_wait(bare: World, visit: Visit) -> None:
    bare.fill(60)
    text = visit("mel").post("/submit/preview", {**TRAINING, "workers.count": "8", "workers.min": "8"}).content.decode()
    assert re.search(r'<code class="reason">\w+</code>', text)


def test_nobody_submits_for_a_team_that_is_not_theirs(bare: World, visit: Visit) -> None:
    client = visit("mel")
    for path in ("/submit/", "/submit/preview"):
        text = unescape(client.post(path, {**TRAINING, "team": "vision"}).content.decode())
        assert "There is no team vision, or you are not in it." in text
    assert not Workload.objects.exists()


def test_the_form_needs_its_token(bare: World) -> None:
    from django.test import Client

    client = Client(enforce_csrf_checks=True)
    client.force_login(bare.people["mel"])
    assert client.post("/submit/", TRAINING).status_code == 403
    assert not Workload.objects.exists()


def test_what_is_yes_or_no_is_chosen_and_no_is_left_out() -> None:
    known = forms.fields_of(Kind.NOTEBOOK)["on_demand"]
    assert forms.options("on_demand", known) == (("", "no"), ("true", "yes"))
    given = {"name": "n", "team": "nlp", "resources.gpu_share.guarantee": "0.2", "resources.gpu_share.memory": "8Gi"}
    job = forms.document(Kind.NOTEBOOK, {**given, "on_demand": "true"})
    assert job["on_demand"] is True
    assert spec.parse(job).on_demand
    assert "on_demand" not in forms.document(Kind.NOTEBOOK, {**given, "on_demand": ""})
    assert forms.document(Kind.NOTEBOOK, {**given, "on_demand": "maybe"})["on_demand"] == "maybe", "it is refused"
