"""`accessibility`: axe on every page, in light, dark and at phone width, while the demo runs.

The pages are all that the navigation names, all tabs of a workload that runs, waits and has ended, forms, dialogs, the
pages without signing in, and those that say that something is not there. Every rule of axe counts, of any impact; the
flows by keyboard alone are tests (tests/flows/test_keyboard.py).
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import httpx

from controlplane.benchmarks.harness import processes
from controlplane.benchmarks.harness.figure import Figure, Options, Progress, Result
from controlplane.testbed import chromium
from controlplane.testbed.processes import MissingError, wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PORT = 8769
LOOKS: Mapping[str, tuple[str, tuple[int, int]]] = {
    "light": ("light", chromium.DESKTOP),
    "dark": ("dark", chromium.DESKTOP),
    "phone": ("light", chromium.PHONE),
}
PHASES = ("Running", "Queued", "Succeeded")
ALWAYS = ("/search?q=a", "/templates/", "/submit/?type=notebook", "/submit/?type=inference", "/?tour=1", "/?view=table",
          "/workloads/?phase=ended&sort=name", "/workloads/?q=nothing-has-this-name", "/nowhere/")  # fmt: skip
LINKS = "(which) => [...document.querySelectorAll(which)].map((a) => a.getAttribute('href'))"
TOLD = 12  # violations that the notes name


def run(options: Options, progress: Progress) -> Result:
    """Start the demo, look at each page in each look. Raises MissingError."""
    found: list[str] = []
    pages = 0
    with processes.weft(PORT) as weft, chromium.browser() as browser:
        weft.ready()
        password = (weft.home / "password").read_text().strip()
        paths = _paths(weft, password)
        for number, (look, (scheme, size)) in enumerate(LOOKS.items()):
            for at, (path, page) in enumerate(_opened(browser, weft, password, paths, scheme, size)):
                pages += 1
                found += [f"{look} {path}: {told}" for told in _axe(page)]
                progress((number + at / len(paths)) / len(LOOKS), f"{look} {path}")
        weft.stop()
    return Result(
        (Figure("accessibility.violations", len(found), "", 0),),
        (f"{pages} pages: {len(paths) + 1} in light, dark and at {chromium.PHONE[0]} px", *found[:TOLD]),
    )


def _paths(weft: processes.Weft, password: str) -> list[str]:
    """What there is to look at, once the demo has work in each phase."""
    form = {"username": "admin", "password": password, "name": "benchmark"}
    answer = httpx.post(f"{weft.address}/api/v1/login", json=form, timeout=30, trust_env=False)
    headers = {"Authorization": f"Bearer {answer.raise_for_status().json()['token']}"}
    uids: dict[str, str] = {}

    def has_all() -> bool:
        for phase in PHASES:
            query = {"phase": phase, "page_size": "1"}
            rows = httpx.get(f"{weft.address}/api/v1/workloads", params=query, headers=headers, trust_env=False).json()
            for row in rows["results"]:
                uids[phase] = row["uid"]
        return len(uids) == len(PHASES)

    wait_until(has_all, "work in each phase", 180)
    workloads = [f"/workloads/{uid}/" for uid in uids.values()]
    return [*ALWAYS, *workloads, f"{workloads[0]}stop", f"{workloads[0]}priority", f"/submit/?from={uids['Running']}"]


def _opened(
    browser: "Browser", weft: processes.Weft, password: str, paths: list[str], scheme: Any, size: tuple[int, int]
) -> "Iterator[tuple[str, Page]]":
    """Each page in one look, settled; first the one for signing in."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": size[0], "height": size[1]})
    page = context.new_page()
    page.goto(f"{weft.address}/login/")
    yield "/login/", page
    page.get_by_label("User name").fill("admin")
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Dashboard").wait_for()
    named: list[str] = page.evaluate(LINKS, ".side nav a")
    todo = [*(path for path in named if not path.startswith("/admin")), *paths]
    for path in todo:
        page.goto(f"{weft.address}{path}", wait_until="load")
        tabs: list[str] = page.evaluate(LINKS, "nav.tabs a")
        yield path, page
        for tab in tabs if "?" not in path else []:
            page.goto(f"{weft.address}{path}{tab}", wait_until="load")
            yield path + tab, page
    page.goto(f"{weft.address}/workloads/", wait_until="load")
    page.keyboard.press("?")
    page.locator("#keys[open]").wait_for()
    yield "/workloads/ with the list of keys", page
    context.close()


def _axe(page: "Page") -> list[str]:
    """Each violation: the rule, its impact and the first place."""
    try:
        from axe_playwright_python.sync_playwright import Axe  # a requirement of development only
    except ImportError:
        raise MissingError("axe-playwright-python", "run scripts/setup dev") from None
    violations: list[dict[str, Any]] = Axe().run(page).response["violations"]
    return [f"{one['id']} ({one['impact']}), {one['nodes'][0]['html'][:120]}" for one in violations]
