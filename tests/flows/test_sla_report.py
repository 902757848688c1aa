"""The SLA report on paper: Chromium's own PDF of the page, in a dark theme, of the demo's week."""

import re
from pathlib import Path
from typing import Any

from tests.flows.processes import up
from tests.flows.test_browser import assert_accessible, sign_in
from tests.servers import wait_until

A4 = (841.9, 595.0)  # points, landscape
PAPER = {"width": 1031, "height": 703}  # CSS pixels of A4 within its margins


def is_noted(page: Any) -> bool:
    """Whether the account loop has noted a whole day of the demo's past."""
    page.reload()
    return page.get_by_role("heading", name="By service").count() == 1


def test_a_month_is_printed_on_a4(home: Path, page: Any, tmp_path: Path) -> None:
    with up(home) as weft:
        sign_in(page, weft.url, "admin", (home / "password").read_text().strip())
        page.emulate_media(color_scheme="dark")
        page.goto(f"{weft.url}/services/report/")
        wait_until(lambda: is_noted(page), "the days of services", 90)
        assert_accessible(page)
        file = tmp_path / "report.pdf"
        page.pdf(path=file, prefer_css_page_size=True)
        printed = file.read_bytes()
        boxes = set(re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", printed))
        assert [tuple(round(float(side), 0) for side in box) for box in boxes] == [tuple(round(side, 0) for side in A4)]
        assert len(re.findall(rb"/Type /Page\b", printed)) >= 1

        page.emulate_media(media="print")
        page.set_viewport_size(PAPER)
        for what in (".side", ".filters", "#live", "#bell"):
            assert not page.locator(what).first.is_visible(), f"{what} is of no use on paper"
        assert page.get_by_role("columnheader", name="Worst minute").is_visible()
        widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert widths[0] <= widths[1], "a column is cut off"
        ground = page.evaluate("getComputedStyle(document.querySelector('.sheet .panel')).backgroundColor")
        assert ground == "rgb(255, 255, 255)", "paper is white, whatever the theme"
