"""Beginning from a template or from another workload, and saving a template from the form."""

from controlplane.models import Template, Workload
from scheduler.model.workload import Phase
from tests.frontend.conftest import Visit
from tests.frontend.factory import World, document

FORM = {"type": "training", "team": "nlp", "resources.gpus": "2", "expected_duration": "6h", "name": "job", "image": ""}


def saved(visit: Visit, who: str = "mel", **fields: str) -> str:
    given = {**FORM, "template_name": "two GPUs", "template_for": "nlp", **fields}
    return visit(who).post("/templates/save", given, follow=True).content.decode()


def test_the_form_is_saved_as_a_template_and_opened_from_it(bare: World, visit: Visit) -> None:
    page = saved(visit, template_about="For a try")
    template = Template.objects.get()
    assert template.job == {"type": "training", "resources": {"gpus": 2}, "expected_duration": "6h"}
    assert "The template two GPUs is saved." in page
    assert 'name="resources.gpus" value="2"' in page
    assert 'name="image" value=""' in page  # what the template does not say stays to be filled in
    assert 'name="name" value=""' in page
    listed = visit("vic").get("/templates/").content.decode()
    assert "two GPUs" in listed
    assert "For a try" in listed
    assert "/delete" not in listed


def test_the_same_name_is_replaced_only_when_asked(bare: World, visit: Visit) -> None:
    saved(visit)
    refused = saved(visit, **{"resources.gpus": "4"})
    assert "Team nlp has a template two GPUs already." in refused
    assert 'name="resources.gpus" value="4"' in refused  # what was typed is still there
    saved(visit, template_replace="1", **{"resources.gpus": "4"})
    assert Template.objects.get().job["resources"] == {"gpus": 4}


def test_a_fault_of_the_form_stands_at_its_field(bare: World, visit: Visit) -> None:
    page = saved(visit, **{"resources.gpus": "-1", "template_name": ""})
    assert not Template.objects.exists()
    assert 'id="h-template-name"' in page
    assert "name is" in page
    page = saved(visit, **{"resources.gpus": "-1"})
    assert 'name="resources.gpus" value="-1"' in page
    assert 'aria-invalid="true"' in page


def test_only_ones_own_teams_and_admins_for_everybody(bare: World, visit: Visit) -> None:
    given = {**FORM, "template_name": "x"}
    assert visit("mel").post("/templates/save", {**given, "template_for": "speech"}).status_code == 404
    assert visit("mel").post("/templates/save", {**given, "template_for": "*"}).status_code == 403
    assert visit("admin").post("/templates/save", {**given, "template_for": "*"}).status_code == 302
    assert Template.objects.get().team is None
    number = Template.objects.get().pk
    assert visit("ada").post(f"/templates/{number}/delete").status_code == 403
    assert "Delete the template x?" in visit("admin").get(f"/templates/{number}/delete").content.decode()
    visit("admin").post(f"/templates/{number}/delete")
    assert not Template.objects.exists()


def test_another_teams_template_does_not_exist(bare: World, visit: Visit) -> None:
    saved(visit)
    number = Template.objects.get().pk
    for path in (f"/submit/?template={number}", f"/templates/{number}/delete"):
        assert visit("out").get(path).status_code == 404
    assert visit("mel").get("/submit/?template=x").status_code == 404


def test_a_workload_is_copied_into_the_form_and_edited(bare: World, visit: Visit) -> None:
    w = bare.add(document("training", "bert", "nlp", command=["torchrun", "train.py"], env={"A": "1"}), Phase.SUCCEEDED)
    assert f"/submit/?from={w.pk}" in visit("mel").get(f"/workloads/{w.pk}/").content.decode()
    page = visit("mel").get(f"/submit/?from={w.pk}").content.decode()
    assert 'name="name" value="bert-2"' in page
    assert 'value="torchrun train.py"' in page
    assert visit("out").get(f"/submit/?from={w.pk}").status_code == 404
    for odd in ("x", "nlp/bert", "%00"):
        assert visit("mel").get(f"/submit/?from={odd}").status_code == 404


def test_a_workload_that_the_form_cannot_say_is_shown_as_its_file(bare: World, visit: Visit) -> None:
    volumes = [{"claim": "data", "path": "/data"}]
    w = bare.add(document("training", "bert", "nlp", volumes=volumes), Phase.RUNNING)
    answer = visit("mel").get(f"/submit/?from={w.pk}")
    assert answer["Location"] == f"/workloads/{w.pk}/?tab=file"


def test_a_template_is_submitted_like_anything_else(bare: World, visit: Visit) -> None:
    saved(visit, image="example/train:1")
    fields = visit("mel").get(f"/submit/?template={Template.objects.get().pk}").context["groups"]
    values = {f.path: f.value for group in fields for f in group.fields if f.value}
    visit("mel").post("/submit/", {"type": "training", **values, "name": "begun"})
    assert Workload.objects.get(name="begun").gpus == 2
