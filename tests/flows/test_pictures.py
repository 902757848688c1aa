"""The README's pictures, taken of the running demo; `WEFT_PICTURES=1` puts them into docs/pictures."""

import base64
import os
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.flows.processes import Server, up
from tests.flows.test_browser import sign_in
from tests.servers import ROOT

SECONDS = 1000
LONG = 100 * SECONDS
MAX = 150 * 1024  # bytes of one picture
SIZE = {"width": 1280, "height": 800}
FOLDER = ROOT / "docs" / "pictures"
NAMES = ("dashboard", "why", "map", "submit")


def take(page: Any, folder: Path, name: str) -> None:
    """A picture of what the window shows, as WebP: a third of the same PNG."""
    page.mouse.move(0, 0)
    page.evaluate("document.fonts.ready")
    shot = page.context.new_cdp_session(page).send("Page.captureScreenshot", {"format": "webp", "quality": 82})
    (folder / f"{name}.webp").write_bytes(base64.b64decode(shot["data"]))


def let_it_live(weft: Server, page: Any) -> None:
    """Until there is history, and something waits and is told why."""
    page.locator("#waiting tbody tr").nth(2).wait_for(timeout=LONG)
    expect(page.locator("#clock-face")).to_have_text(re.compile(r"^(11:[3-5]\d|1[2-9]:\d\d):"), timeout=2 * LONG)
    page.reload()
    page.locator("#history .chart:not(.loading) svg").first.wait_for(timeout=LONG)


@pytest.mark.parametrize("name", NAMES)
def test_the_readme_shows_each_picture_with_a_text_for_those_who_do_not_see_it(name: str) -> None:
    line = next(line for line in (ROOT / "README.md").read_text().splitlines() if f"docs/pictures/{name}.webp" in line)
    assert len(line.split("![")[1].split("]")[0]) > 30
    assert 0 < (FOLDER / f"{name}.webp").stat().st_size <= MAX


def test_the_pictures_can_be_taken_of_a_running_demo(tmp_path: Path, browser: Any) -> None:
    folder = FOLDER if os.environ.get("WEFT_PICTURES") == "1" else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    home = tmp_path / "home"
    with up(home, "--speed", "120") as weft:
        context = browser.new_context(viewport=SIZE, color_scheme="light")
        page = context.new_page()
        sign_in(page, weft.url, "admin", (home / "password").read_text().strip())
        with page.expect_response("**/tour/done"):
            page.locator("#tour").get_by_role("button", name="Dismiss").click()
        let_it_live(weft, page)
        take(page, folder, "dashboard")
        page.locator("#clock").get_by_role(
            "button", name="Pause"
        ).click()  # or what waits has started by the time its page is there
        page.locator("#clock").get_by_role("button", name="Resume").wait_for(timeout=LONG)
        page.goto(f"{weft.url}/queue/")
        page.locator("#rows tr", has_text="Needs").last.locator("a.name").click()
        page.locator("#tab .checks").first.wait_for(timeout=LONG)
        take(page, folder, "why")
        page.locator("#clock").get_by_role("button", name="Resume").click()
        page.locator("#clock").get_by_role("button", name="Pause").wait_for(timeout=LONG)
        page.emulate_media(color_scheme="dark")
        page.goto(f"{weft.url}/map/")
        take(page, folder, "map")
        page.emulate_media(color_scheme="light")
        page.goto(f"{weft.url}/submit/")
        page.get_by_role("link", name="One GPU").click()
        page.get_by_label("Name", exact=True).fill("bert-base")
        page.locator("#preview .headline").wait_for(timeout=LONG)
        take(page, folder, "submit")
        context.close()
    sizes = {name: (folder / f"{name}.webp").stat().st_size for name in NAMES}
    assert max(sizes.values()) <= MAX, sizes
