"""A person's path in a real browser, against a real `manage.py up`."""

import re
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe

from tests.flows.processes import up

SECONDS = 1000  # Playwright counts milliseconds
LONG = 90 * SECONDS  # for what the cluster has to do first, on a machine that does other things as well


def sign_in(page: Any, url: str, user: str, password: str) -> None:
    page.goto(f"{url}/login/")
    page.get_by_label("User name").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_role("heading", name="Dashboard").wait_for()


def sign_out(page: Any) -> None:
    page.get_by_role("button", name="Sign out", exact=True).click()
    page.get_by_role("button", name="Sign in", exact=True).wait_for()


def fill_in(page: Any, name: str, **fields: str) -> None:
    page.get_by_role("link", name="Submit", exact=True).first.click()
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Image").fill("example/train:1")
    for label, text in fields.items():
        page.get_by_label(label.replace("_", " "), exact=True).fill(text)


def assert_accessible(page: Any) -> None:
    found = Axe().run(page).response["violations"]
    assert not [(v["id"], [node["html"] for node in v["nodes"]]) for v in found], page.url


def submit_and_watch_it_run(page: Any) -> None:
    fill_in(page, "mine", Expected_duration="6h")  # unsaid it is drawn, and may be over in seconds
    page.get_by_label("Priority", exact=True).select_option("high")
    page.locator("#preview .headline").wait_for(timeout=LONG)  # the answer to "will it start?"
    assert_accessible(page)
    assert "name: mine" in page.locator("#as-yaml").inner_text()
    page.locator("#job").get_by_role("button", name="Submit").click()
    page.get_by_role("heading", name="mine").wait_for()
    address = page.url
    page.locator("#head .state", has_text="Running").wait_for(timeout=LONG)
    assert page.url == address  # it came by itself
    assert page.locator("#live").inner_text() == "live"
    page.get_by_role("link", name="Placement").click()
    page.locator("#tab table tbody tr").first.wait_for()
    assert page.locator("#tab table tbody tr").count() == 1
    page.get_by_role("link", name="Logs").click()
    page.locator("#log li, .empty").first.wait_for()


def see_why_another_waits_and_stop_it(page: Any) -> None:
    fill_in(page, "wide", Workers="9", GPUs_each="8", GPU_model="A100")
    page.locator("#preview .reason").wait_for(timeout=LONG)
    page.locator("#job").get_by_role("button", name="Submit").click()
    page.locator("#head .state", has_text="Queued").wait_for()
    page.locator("#tab .checks .mark.bad").first.wait_for(timeout=LONG)  # what blocks it
    assert_accessible(page)
    said = page.locator("#tab .checks li", has=page.locator(".mark.bad")).first.inner_text()
    assert any(figure.isdigit() for figure in said), said  # with numbers
    page.locator("#head").get_by_role("link", name="Stop").click()
    dialog = page.locator("#dialog")
    dialog.get_by_role("heading", name="Stop wide?").wait_for()
    dialog.get_by_role("button", name="Stop").click()
    page.locator("#head .state", has_text="Stopped").wait_for(timeout=LONG)


def take_the_quota_away(page: Any, team: str) -> None:
    page.locator(".side").get_by_role("link", name="Admin").click()
    page.get_by_role("link", name="Quotas", exact=True).first.click()
    row = page.locator("#result_list tbody tr", has_text=team).filter(has_text="a100")
    row.get_by_role("link").first.click()
    page.get_by_label("Nominal, GPUs").fill("0")
    page.get_by_label("Borrowing limit, GPUs").fill("0")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("Tick to save it anyway").first.wait_for()  # somebody loses GPUs by it
    page.get_by_label("Save anyway").check()
    page.get_by_role("button", name="Save", exact=True).click()
    page.locator("#result_list").wait_for()


def test_a_person_submits_watches_understands_stops_and_an_admin_changes_a_quota(home: Path, page: Any) -> None:
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("response", lambda answer: faults.append(f"{answer.status} {answer.url}") if answer.status >= 500 else None)
    with up(home) as weft:
        password = (home / "password").read_text().strip()
        page.goto(weft.url)
        assert "First time here?" in page.inner_text("main")
        assert_accessible(page)
        sign_in(page, weft.url, "mel", password)
        assert_accessible(page)
        submit_and_watch_it_run(page)
        see_why_another_waits_and_stop_it(page)
        team = page.locator(".crumbs a").last.inner_text()
        sign_out(page)

        sign_in(page, weft.url, "admin", password)
        take_the_quota_away(page, team)
        page.goto(f"{weft.url}/teams/")
        ours = page.locator("#tree tr", has=page.get_by_role("link", name=team, exact=True))
        row = ours.locator("xpath=following-sibling::tr[contains(., 'in a100')][1]")
        assert row.locator("td.num").nth(1).inner_text() == "0"
        page.context.clear_cookies()

        sign_in(page, weft.url, "mel", password)
        fill_in(page, "capped", GPU_model="A100")
        page.locator("#job").get_by_role("button", name="Submit").click()
        page.locator("#head .headline", has_text=re.compile(r"\b0\b.* in a100")).wait_for(timeout=LONG)
        page.goto(f"{weft.url}/workloads/?phase=waiting&by=mel")  # the dashboard shows only the first that wait
        page.locator("#rows", has_text="capped").wait_for(timeout=LONG)
    assert not faults
