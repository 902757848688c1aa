"""A session that ends while a page is open: panels stop, one bar asks to sign in, and what was typed stays."""

from collections.abc import Iterator
from typing import Any

import pytest

from controlplane.models import Session, Workload
from tests.frontend.factory import PASSWORD, World
from tests.serving import serving

pytestmark = pytest.mark.django_db(transaction=True)
LONG = 20_000  # ms


@pytest.fixture
def url(transactional_db: None) -> Iterator[str]:
    World().base().fill(5)
    with serving() as address:
        yield address


def sign_in(page: Any, url: str) -> None:
    page.goto(f"{url}/login/")
    page.get_by_label("User name").fill("mel")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_role("heading", name="Dashboard").wait_for()


def asked_when_parts_are_due(page: Any) -> list[str]:
    """The addresses that the page asks for when all of its parts are told to fetch themselves."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate("['clock', 'workloads', 'usage', 'notices'].forEach((p) => htmx.trigger(document.body, `live-${p}`))")
    page.evaluate("fetch('/healthz').then((answer) => answer.text())")  # asked for after whatever they ask for
    return [address for address in asked if not address.endswith("/healthz")]


def test_a_half_filled_form_outlives_its_session(page: Any, url: str) -> None:
    sign_in(page, url)
    page.goto(f"{url}/submit/")
    page.locator("#live[data-state=live]").wait_for(timeout=LONG)
    page.locator("#id_name, [name=name]").first.fill("half-filled")
    page.locator("[name=image]").first.fill("registry.example/app:1")
    assert asked_when_parts_are_due(page)

    Session.objects.all().delete()
    bar = page.locator("#signed-out")
    bar.wait_for(timeout=LONG)
    assert page.locator("#live").inner_text() == "signed out"
    assert asked_when_parts_are_due(page) == []
    page.get_by_role("button", name="Submit", exact=True).click()
    assert page.locator("[name=name]").first.input_value() == "half-filled"
    assert page.url == f"{url}/submit/"
    assert page.locator("input[type=password]").count() == 0  # the page to sign in is in no panel
    assert bar.count() == 1

    with page.context.expect_page() as opened:
        bar.get_by_role("link", name="Sign in again").click()
    other = opened.value
    other.get_by_label("User name").fill("mel")
    other.get_by_label("Password").fill(PASSWORD)
    other.get_by_role("button", name="Sign in", exact=True).click()
    other.get_by_role("heading", name="Dashboard").wait_for()
    bar.wait_for(state="hidden", timeout=LONG)
    page.locator("#live[data-state=live]").wait_for(timeout=LONG)
    page.get_by_role("button", name="Submit", exact=True).click()
    page.locator(".toast", has_text="half-filled is queued.").wait_for(timeout=LONG)
    assert Workload.objects.filter(name="half-filled").exists()


def test_an_open_dashboard_never_shows_the_page_to_sign_in_in_a_panel(page: Any, url: str) -> None:
    """The stream may be late: a part that is refused says the same as the stream's end."""
    sign_in(page, url)
    page.locator("#live[data-state=live]").wait_for(timeout=LONG)
    before = page.locator("#waiting").inner_text()
    Session.objects.all().delete()
    page.evaluate("htmx.trigger(document.body, 'live-workloads')")
    page.locator("#signed-out").wait_for(timeout=LONG)
    assert page.locator("#waiting").inner_text() == before
    assert page.locator("input[type=password]").count() == 0
