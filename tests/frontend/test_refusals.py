"""What is refused: a page keeps its navigation, a part is told so by its status, and no log has a trace of it."""

import logging

import pytest
from django.test import Client

from controlplane.models import Node, User
from tests.frontend.conftest import Visit
from tests.frontend.factory import World

NAVIGATION = '<nav aria-label="Pages">'


@pytest.mark.parametrize("headers", [{"HX-Request": "true"}, {"Sec-Fetch-Dest": "empty"}])
@pytest.mark.parametrize("path", ["/parts/tiles", "/charts/gpus", "/workloads/", "/session", "/stream"])
def test_a_part_of_a_page_is_told_that_nobody_is_signed_in(bare: World, path: str, headers: dict[str, str]) -> None:
    answer = Client().get(path, headers=headers)
    assert answer.status_code == 401
    assert answer.content == b""


def test_who_goes_to_an_address_is_led_to_the_page_to_sign_in(bare: World) -> None:
    assert Client().get("/workloads/", headers={"Sec-Fetch-Dest": "document"})["Location"] == "/login/?next=/workloads/"
    assert Client().get("/workloads/").status_code == 302


def test_an_open_page_learns_who_is_signed_in_and_the_token_that_forms_need(bare: World, visit: Visit) -> None:
    answer = visit("mel").get("/session")
    assert answer["Cache-Control"] == "no-store"
    assert answer.json()["user"] == "mel"
    assert len(answer.json()["csrf"]) == 64


def test_a_refusal_keeps_the_navigation_and_leaves_no_trace(
    bare: World, visit: Visit, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node.objects.values_list("name", flat=True)[0]
    with caplog.at_level(logging.INFO):
        answer = visit("vic").get(f"/nodes/{node}/drain")
    assert answer.status_code == 403
    text = answer.content.decode()
    assert NAVIGATION in text
    assert "Your role does not allow this." in text
    refused = [record for record in caplog.records if record.name == "django.request"]
    assert [record.getMessage() for record in refused] == [f"Forbidden (Permission denied): /nodes/{node}/drain"]
    assert not [record for record in refused if record.exc_info or record.exc_text]


def test_the_console_refuses_a_person_without_the_role_on_a_page_with_the_navigation(bare: World, visit: Visit) -> None:
    for path in ("/admin/", "/admin/controlplane/team/"):
        answer = visit("vic").get(path, follow=True)
        assert answer.status_code == 403
        assert NAVIGATION in answer.content.decode()


def test_a_fault_of_the_program_leaves_its_trace(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise RuntimeError("a fault")
    except RuntimeError:
        logging.getLogger("django.request").error("Internal Server Error", exc_info=True, extra={"status_code": 500})
    assert caplog.records[-1].exc_info


def test_what_is_not_there_keeps_the_navigation_too(bare: World, visit: Visit) -> None:
    assert NAVIGATION in visit("vic").get("/nowhere").content.decode()
    assert NAVIGATION not in Client().get("/nowhere").content.decode()


def test_a_form_that_is_not_accepted_keeps_the_navigation(bare: World) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.get(username="mel"))
    answer = client.post("/notices/", {})
    assert answer.status_code == 403
    assert NAVIGATION in answer.content.decode()
    assert "was not accepted" in answer.content.decode()
