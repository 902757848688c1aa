"""The queue's what-if by mouse: what a place further up would take, taken, and taken back."""

from pathlib import Path
from typing import Any

from tests.flows.processes import up
from tests.flows.test_browser import LONG, assert_accessible, sign_in

WIDE = {"resources": {"gpus": 8}, "workers": {"count": 9}, "priority_class": "low"}


def test_a_row_dragged_before_another_is_tried_there(home: Path, page: Any) -> None:
    with up(home) as weft:
        sign_in(page, weft.url, "admin", (home / "password").read_text().strip())
        for name in ("first", "second"):
            assert weft.submit(name, **WIDE).status_code == 201
        page.locator("#clock").get_by_role("button", name="Pause").click()
        page.goto(f"{weft.url}/queue/?team=nlp")
        links = [page.get_by_role("link", name=f"nlp/{name}", exact=True) for name in ("first", "second")]
        first, second = (page.locator("#rows tr[data-uid]", has=link) for link in links)
        second.wait_for(timeout=LONG)
        drag(page, second, first)
        dialog = page.locator("#dialog")
        dialog.get_by_role("heading", name="nlp/second at another priority").wait_for(timeout=LONG)
        assert page.locator("#rows tr.over, #rows tr.dragged").count() == 0
        assert_accessible(page)
        dialog.get_by_role("button", name="Set priority normal").click()
        toast = page.locator(".toast", has_text="second has priority normal now (before: low).")
        toast.get_by_role("button", name="Undo").click()
        page.get_by_role("heading", name="second").wait_for(timeout=LONG)
        page.locator("#head", has_text="priority low").wait_for(timeout=LONG)


def drag(page: Any, what: Any, onto: Any) -> None:
    """Hold the mouse on a row, move it over another, and let it go there."""
    what.scroll_into_view_if_needed()
    start, end = what.bounding_box(), onto.bounding_box()
    assert start
    assert end
    page.mouse.move(start["x"] + 300, start["y"] + start["height"] / 2)
    page.mouse.down()
    page.mouse.move(end["x"] + 300, end["y"] + end["height"] / 2, steps=8)  # a drag is what the mouse moves over
    page.locator("#rows tr.dragged").wait_for()
    page.locator("#rows tr.over").wait_for()
    page.mouse.up()
