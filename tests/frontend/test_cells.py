"""Cells on the pages: told where there are some, and nowhere else."""

import re
from html import unescape
from typing import Any

import pytest

from controlplane.models import Cycle, Heartbeat, Lease, Quota, User, Workload
from controlplane.services.scheduling import policy
from scheduler.model.workload import Kind
from tests.frontend.conftest import Visit
from tests.frontend.factory import World, document
from tests.frontend.test_submit import TRAINING

CELLS = {"north": {"pools": ["a100"]}, "south": {"pools": ["l40s"]}}
ONE = {**TRAINING, "resources.gpu_model": "A100", "workers.count": "1", "workers.min": "1", "workers.max": "1"}


def cut() -> None:
    policy.change(changes={"scheduling": {"cells": CELLS}}, author="admin")


def text_of(answer: Any, status: int = 200) -> str:
    assert answer.status_code == status
    return unescape(answer.content.decode())


@pytest.mark.parametrize("who", ["admin", "mel"])
def test_with_one_cell_no_page_tells_of_cells(world: World, visit: Visit, who: str) -> None:
    client = visit(who)
    for page in ("/", "/nodes/", "/teams/", *(f"/submit/?type={kind}" for kind in Kind)):
        text = text_of(client.get(page))
        assert "/cells/" not in text, page
        assert 'name="cell"' not in text, page
    assert "This cluster is one cell" in text_of(client.get("/cells/"))


def test_the_page_tells_of_each_cell_and_of_the_parts(world: World, visit: Visit) -> None:
    cut()
    text = text_of(visit("admin").get("/cells/"))
    for name in ("north", "rest", "south"):
        assert f"<tr><td>{name}<" in text
    assert text.count("no decider") == 3
    for quota in Quota.objects.filter(team__name="nlp"):
        assert f"in {quota.pool}" in text
    assert "not all of it is divided" not in text
    assert '<a href="/cells/" data-key="c" aria-current="page">Cells</a>' in text


def test_a_quota_whose_parts_are_on_their_way_says_so(world: World, visit: Visit) -> None:
    cut()
    quota = Quota.objects.filter(team__name="nlp", nominal__gt=0).first()
    assert quota is not None
    quota.parts.update(nominal=0)
    assert f"in {quota.pool}: not all of it is divided yet" in text_of(visit("admin").get("/cells/"))


def test_members_see_the_parts_of_their_own_teams_and_no_machine_of_a_worker(world: World, visit: Visit) -> None:
    cut()
    Lease.objects.update_or_create(
        name="schedule/north", defaults={"holder": "host-7", "expires_at": "2100-01-01T00:00Z"}
    )
    Heartbeat.objects.update_or_create(loop="schedule/north", defaults={"holder": "host-7", "error": "disk of host-7"})
    assert "host-7" in text_of(visit("admin").get("/cells/"))
    for who, mine, other in (("mel", "nlp", "vision"), ("out", "speech", "nlp")):
        text = text_of(visit(who).get("/cells/"))
        assert "host-7" not in text, who
        assert f"</i>{mine}</span>" in text, who
        assert f"</i>{other}</span>" not in text, who


def test_htmx_gets_the_part_alone(world: World, visit: Visit) -> None:
    cut()
    text = text_of(visit("mel").get("/cells/", headers={"HX-Request": "true"}))
    assert "<html" not in text
    assert "Quotas by cell" in text


@pytest.mark.parametrize("kind", list(Kind))
def test_the_form_offers_each_cell_by_its_shown_name(bare: World, visit: Visit, kind: Kind) -> None:
    cut()
    text = text_of(visit("mel").get(f"/submit/?type={kind}"))
    (select,) = re.findall(r'<select[^>]*name="cell".*?</select>', text, re.DOTALL)
    offered = re.findall(r'<option value="(\w*)"[^>]*>([^<]*)<', select)
    assert offered == [("", "Any cell"), ("north", "north"), ("rest", "rest"), ("south", "south")]
    assert text.index("<summary>More</summary>") < text.index('name="cell"')


def test_a_workload_goes_to_the_cell_that_the_form_names(bare: World, visit: Visit) -> None:
    cut()
    visit("mel").post("/submit/", {**ONE, "cell": "north"})
    made = Workload.objects.get(name="bert")
    assert (made.cell, made.spec["cell"]) == ("north", "north")
    again = text_of(visit("mel").get(f"/submit/?from={made.pk}"))
    assert '<option value="north" selected>north</option>' in again, "copy and edit keeps it"


def test_the_preview_has_the_cell_in_the_job_file(bare: World, visit: Visit) -> None:
    cut()
    text = text_of(visit("mel").post("/submit/preview", {**ONE, "cell": "north"}))
    assert "cell: north" in text
    assert "starts in the next round" in text
    assert not Cycle.objects.exists()


def test_a_cell_that_there_is_not_is_refused_at_its_field(bare: World, visit: Visit) -> None:
    cut()
    text = text_of(visit("mel").post("/submit/", {**ONE, "cell": "west"}), 422)
    told = text[text.index('name="cell"') :][:1200]
    assert "There is no cell west. The cells are rest, north, south." in told
    assert '<option value="west" selected>west</option>' in told
    assert "There is no cell west" in text_of(visit("mel").post("/submit/preview", {**ONE, "cell": "west"}))
    assert not Workload.objects.exists()


def test_a_cell_is_refused_where_there_are_none(bare: World, visit: Visit) -> None:
    text = text_of(visit("mel").post("/submit/", {**ONE, "cell": "north"}), 422)
    assert "this cluster is one cell" in text
    assert 'name="cell"' not in text


def test_the_page_of_quotas_is_turned(world: World, visit: Visit) -> None:
    cut()
    total = visit("admin").get("/cells/").context["total"]
    assert total == Quota.objects.count() > 1
    beyond = visit("admin").get(f"/cells/?from={total - 1}").context
    assert (len(beyond["quotas"]), beyond["older"], beyond["newer"]) == (1, "", "/cells/")


def test_a_person_without_a_team_sees_the_cells(world: World, visit: Visit) -> None:
    cut()
    User.objects.create_user("new", password="x" * 12)
    assert "No team that you may see has a quota." in text_of(visit("new").get("/cells/"))


def test_the_document_of_a_job_keeps_its_cell() -> None:
    from frontend import suggestions

    job = document("training", "one", "nlp", cell="north")
    assert (suggestions.texts_of(Kind.TRAINING, job) or {})["cell"] == "north"
