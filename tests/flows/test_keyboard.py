"""Every flow of the README's tour by keyboard alone: the mouse is never used."""

from pathlib import Path
from typing import Any

from tests.flows.processes import up

SECONDS = 1000
LONG = 90 * SECONDS  # for what the cluster has to do first, on a machine that does other things as well
MAX_TABS = 250  # a list of fifty rows has three stops each


def reach(page: Any, what: Any) -> None:
    """Press Tab until this has the focus, and see that it shows."""
    what.wait_for(timeout=LONG)
    for _ in range(MAX_TABS):
        if what.evaluate("(element) => element === document.activeElement && element.matches(':focus-visible')"):
            break
        page.keyboard.press("Tab")
    else:
        raise AssertionError(f"{what} cannot be reached by Tab, with its focus shown, on {page.url}")


def enter(page: Any, what: Any) -> None:
    """Reach it and press Enter."""
    reach(page, what)
    page.keyboard.press("Enter")


def write(page: Any, what: Any, text: str) -> None:
    """Reach a field and type over what is in it."""
    reach(page, what)
    page.keyboard.press("Control+a")
    page.keyboard.type(text)


def go(page: Any, key: str, heading: str) -> None:
    """`g` and a letter."""
    page.keyboard.press("g")
    page.keyboard.press(key)
    page.get_by_role("heading", name=heading, exact=True, level=1).wait_for(timeout=LONG)


def sign_in(page: Any, url: str, name: str, password: str) -> None:
    page.goto(url)
    write(page, page.get_by_label("User name"), name)
    write(page, page.get_by_label("Password"), password)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Dashboard").wait_for()


def is_in_sight(page: Any) -> bool:
    """Whether what the tour talks about begins where the tour does not lie over it."""
    top: float = page.locator(".toured").bounding_box()["y"]
    return 0 <= top < page.locator("#tour").bounding_box()["y"]


def take_the_tour(page: Any) -> None:
    tour = page.locator("#tour")
    assert "Allocated is not computing" in tour.inner_text()
    assert is_in_sight(page)
    enter(page, tour.get_by_role("button", name="Next"))
    assert "Each waiting workload says why" in tour.inner_text()
    assert is_in_sight(page)
    page.keyboard.press("Enter")
    assert "Preview before you submit" in tour.inner_text()
    assert is_in_sight(page)
    page.keyboard.press("Enter")
    tour.wait_for(state="detached")
    page.reload()
    assert tour.count() == 0  # remembered


def submit(page: Any, name: str) -> None:
    go(page, "s", "Submit")
    write(page, page.get_by_label("Name", exact=True), name)
    write(page, page.get_by_label("Image"), "example/train:1")
    write(page, page.get_by_label("Expected duration"), "6h")  # unsaid it is drawn, and may be over in seconds
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=name).wait_for(timeout=LONG)


def see_why_something_waits(page: Any) -> None:
    go(page, "d", "Dashboard")
    page.locator("#waiting a.name").first.wait_for(timeout=LONG)
    enter(page, page.locator("#waiting header a"))  # all of them
    page.get_by_role("heading", name="Queue").wait_for()
    enter(page, page.locator("#rows a.name").first)
    page.locator("#tab h2").first.wait_for(timeout=LONG)  # why it waits, or where it has got to meanwhile


def look_at_every_tab(page: Any) -> None:
    page.locator("#head .state", has_text="Running").wait_for(timeout=LONG)
    for name in ("Timeline", "Events", "Placement", "Metrics", "Logs", "Cost", "Job file"):
        enter(page, page.locator("nav.tabs").get_by_role("link", name=name, exact=True))
        page.locator("nav.tabs a[aria-current]", has_text=name).wait_for(timeout=LONG)


def stop_it(page: Any, name: str) -> None:
    enter(page, page.locator("#head").get_by_role("link", name="Stop"))
    page.locator("#dialog").get_by_role("heading", name=f"Stop {name}?").wait_for()
    page.keyboard.press("Escape")  # changes one's mind
    page.locator("#dialog[open]").wait_for(state="detached")
    enter(page, page.locator("#head").get_by_role("link", name="Stop"))
    page.locator("#dialog").get_by_role("button", name="Stop").wait_for()
    page.keyboard.press("Enter")  # the button has the focus
    page.locator("#head .state", has_text="Stop").wait_for(timeout=LONG)


def find(page: Any, text: str, name: str) -> None:
    page.keyboard.press("/")
    page.keyboard.type(text)
    page.locator("#hits a", has_text=name).first.wait_for(timeout=LONG)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=name).wait_for(timeout=LONG)


def suspend_two_at_once(page: Any) -> None:
    page.goto(page.url.split("/workloads/")[0] + "/workloads/?phase=waiting&by=mel")
    page.locator("#rows a.name").first.wait_for(timeout=LONG)
    for _ in range(2):
        page.keyboard.press("j")
        page.keyboard.press("x")
    assert page.locator("#chosen-count").inner_text() == "2 chosen"
    enter(page, page.locator(".bulk").get_by_role("button", name="Suspend"))
    dialog = page.locator("#dialog")
    dialog.get_by_role("heading", name="Suspend wide-").wait_for()
    page.keyboard.press("Enter")
    dialog.get_by_role("heading", name="2 of 2 workloads done").wait_for(timeout=LONG)
    page.keyboard.press("Escape")
    page.locator("#rows .state", has_text="Held").nth(1).wait_for(timeout=LONG)


def press_before_anybody_could(page: Any) -> None:
    """A dialog's form works from the moment it is there: who is quick is not taken to another page."""
    page.evaluate("""() => {
        const dialog = document.querySelector("#dialog");
        new MutationObserver((_, observer) => {
            const form = dialog.querySelector("form");
            if (form) { observer.disconnect(); form.requestSubmit(); }
        }).observe(dialog, { childList: true });
    }""")
    page.locator("#rows a.name").first.wait_for(timeout=LONG)
    page.keyboard.press("j")
    page.keyboard.press("x")
    enter(page, page.locator(".bulk").get_by_role("button", name="Resume"))
    page.locator("#dialog").get_by_role("heading", name="1 of 1 workload done").wait_for(timeout=LONG)
    page.keyboard.press("Escape")


def keep_the_view(page: Any) -> None:
    enter(page, page.locator(".menu > summary"))
    write(page, page.get_by_label("Name", exact=True).locator("visible=true"), "Mine that wait")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Mine that wait").wait_for(timeout=LONG)


def change_a_quota(page: Any) -> None:
    go(page, "t", "Teams & quotas")
    enter(page, page.locator("#tree a[title='Change it']").first)
    write(page, page.locator("#dialog").get_by_label("Nominal quota"), "3")
    page.keyboard.press("Enter")  # saves: what Enter does in a form must not be another button's
    page.get_by_text("is 3 GPUs.").wait_for(timeout=LONG)


def try_another_priority(page: Any) -> None:
    """The queue's what-if: what the mouse does by dragging."""
    go(page, "q", "Queue")
    page.locator("#rows tr[data-uid]").first.wait_for(timeout=LONG)
    enter(page, page.locator("#rows a[aria-label^='Try ']").first)
    dialog = page.locator("#dialog")
    reach(page, dialog.get_by_label("Priority"))  # it has the focus
    page.keyboard.type("high")
    enter(page, dialog.get_by_role("button", name="Try it"))
    dialog.get_by_text("with high.").wait_for(timeout=LONG)
    page.keyboard.press("Escape")
    page.locator("#dialog[open]").wait_for(state="detached")


def test_the_readmes_tour_needs_no_mouse(home: Path, page: Any) -> None:
    with up(home) as weft:
        password = (home / "password").read_text().strip()
        sign_in(page, weft.url, "mel", password)
        take_the_tour(page)
        page.keyboard.press("?")
        page.locator("#keys[open]").wait_for()
        page.keyboard.press("Escape")
        see_why_something_waits(page)
        submit(page, "mine")
        look_at_every_tab(page)
        find(page, "mine", "mine")
        stop_it(page, "mine")
        for number in (1, 2):  # what asks for more than there is waits
            go(page, "s", "Submit")
            write(page, page.get_by_label("Name", exact=True), f"wide-{number}")
            write(page, page.get_by_label("Image"), "example/train:1")
            write(page, page.get_by_label("GPUs each", exact=True), "8")
            write(page, page.get_by_label("Workers", exact=True), "9")
            page.keyboard.press("Enter")
            page.get_by_role("heading", name=f"wide-{number}").wait_for(timeout=LONG)
            page.locator("#tab .checks .mark.bad").first.wait_for(timeout=LONG)  # what blocks it
        suspend_two_at_once(page)
        press_before_anybody_could(page)
        keep_the_view(page)
        enter(page, page.get_by_role("button", name="Sign out"))
        page.get_by_label("User name").wait_for(timeout=LONG)
        sign_in(page, weft.url, "admin", password)
        page.keyboard.press("Escape")  # puts the tour away
        change_a_quota(page)
        try_another_priority(page)
