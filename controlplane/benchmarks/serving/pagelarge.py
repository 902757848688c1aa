"""`page-large`: pages in a real browser with 8,000 workloads, 1,200 nodes and 200 teams.

Paint is the browser's own `first-contentful-paint` and `largest-contentful-paint`, from the start of the navigation to
a cold page with a warm cache of files; interaction is its Event Timing: from the input to the next paint, for each of
the inputs below. One web process serves SQLite, and no loop runs beside it: this is what the pages cost.
"""

import gzip
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from controlplane.benchmarks.harness import processes
from controlplane.benchmarks.harness.figure import Figure, Options, Progress, Result
from controlplane.benchmarks.scheduling import largeworld
from controlplane.testbed import chromium
from controlplane.testbed.processes import free_port, running, wait_until

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

FIRST_PAINT_SECONDS, INTERACTION_MS, JS_KIB = 1.0, 200.0, 200.0
VISITS = 5  # of each page; the median counts
PASSWORD = "a benchmark's own"  # noqa: S105
RUNNING_JOB = "00000000-0000-0000-0000-000000000001"
PAGES = {
    "dashboard": "/",
    "workloads": "/workloads/",
    "workload": f"/workloads/{RUNNING_JOB}/?tab=timeline",
    "queue": "/queue/",
    "map": "/map/",
    "teams": "/teams/",
}
WITH_CHARTS = ("dashboard",)
# What a person does on each page, besides what is done on all of them: (what, selector or key).
INPUTS: Mapping[str, Sequence[tuple[str, str]]] = {
    "workloads": (("click", "#choose-all"), ("press", "j"), ("press", "x"), ("click", ".menu > summary")),
    "dashboard": (("click", '#history nav a:has-text("1h")'),),
}
EVERYWHERE = (("press", "?"), ("press", "Escape"), ("type", "job"), ("press", "Escape"), ("theme", ""), ("theme", ""))
WATCH = """
window.seen = {events: [], largest: 0};
const note = (e) => { if (e.interactionId) seen.events.push([e.name, e.duration]); };
new PerformanceObserver((list) => list.getEntries().forEach(note))
  .observe({type: "event", buffered: true, durationThreshold: 16});
new PerformanceObserver((list) => { for (const e of list.getEntries()) seen.largest = e.startTime; })
  .observe({type: "largest-contentful-paint", buffered: true});
"""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
SCRIPTS = "[...document.scripts].map((one) => one.src).filter(Boolean)"


@dataclass
class Seen:
    """One page: seconds of each visit, milliseconds of each input, KiB of its scripts."""

    first: list[float] = field(default_factory=list)
    largest: list[float] = field(default_factory=list)
    inputs: list[float] = field(default_factory=list)
    kib: float = 0.0


def run(options: Options, progress: Progress) -> Result:
    """Fill a database, serve it, look at each page. Raises MissingError."""
    visits = options.repeat or VISITS
    with tempfile.TemporaryDirectory(prefix="weft-large-") as name, chromium.browser() as browser:
        home = Path(name)
        progress(0.0, "filling the database")
        env = processes.environment(home)
        processes.run_quietly(env, "migrate", "--skip-checks", "--verbosity=0")
        count = options.jobs or largeworld.WORKLOADS
        made = processes.run(
            {**env, "ADMIN_PASSWORD": PASSWORD}, "benchmark_process", "pages-prepare", "--count", str(count)
        )
        with _served(home, env) as url:
            context = browser.new_context(viewport={"width": 1280, "height": 800})
            context.add_init_script(WATCH)
            _sign_in(context, url)
            seen = {}
            for number, (page, path) in enumerate(PAGES.items()):
                progress(0.4 + 0.6 * number / len(PAGES), page)
                seen[page] = _page(context, page, url + path, visits)
            context.close()
    return _result(seen, made)


@contextmanager
def _served(home: Path, env: Mapping[str, str]) -> Iterator[str]:
    """The web process alone."""
    port = free_port()
    server = ("uvicorn", "controlplane.asgi:application", "--lifespan", "off", "--log-level", "warning")
    command = [sys.executable, "-m", *server, "--port", str(port)]
    url = f"http://127.0.0.1:{port}"
    with running(command, log=home / "web.log", env=env):
        wait_until(lambda: _answers(url), "the web process", 60)
        yield url


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/login/", timeout=5, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def _sign_in(context: "BrowserContext", url: str) -> None:
    page = context.new_page()
    page.goto(f"{url}/login/")
    page.get_by_label("User name").fill("admin")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Dashboard").wait_for()
    page.locator('[data-tour="end"]').click()
    page.close()


def _page(context: "BrowserContext", name: str, url: str, visits: int) -> Seen:
    """Visit it once for what is kept, then so often for the figures, then use it."""
    seen = Seen()
    for visit in range(visits + 1):
        page = context.new_page()
        page.goto(url, wait_until="load")
        page.locator("[data-later]").wait_for(state="detached")  # what it fetches by itself is a part of it
        page.wait_for_timeout(300)  # for the last of its paints
        if visit:
            seen.first.append(float(page.evaluate(PAINT)) / 1000)
            seen.largest.append(float(page.evaluate("seen.largest")) / 1000)
        if visit == visits:
            seen.kib = _scripts(page)
            seen.inputs = _used(page, name)
        page.close()
    return seen


def _used(page: "Page", name: str) -> list[float]:
    """Milliseconds from each input to the next paint; what took less than a frame is not told by the browser."""
    for what, target in (*EVERYWHERE, *INPUTS.get(name, ())):
        if what == "click":
            page.locator(target).first.click()
        elif what == "type":
            page.locator("#search").press_sequentially(target, delay=60)
            page.locator("#hits:not([hidden])").wait_for()
        elif what == "theme":
            page.get_by_role("button", name="Light / dark").click()
        else:
            page.keyboard.press(target)
        page.wait_for_timeout(400)  # for the paint, and so that one input does not wait for another's work
    found: list[list[Any]] = page.evaluate("seen.events")
    return [float(duration) for _, duration in found]


def _scripts(page: "Page") -> float:
    """KiB of all its scripts, gzipped."""
    urls: list[str] = page.evaluate(SCRIPTS)
    return sum(len(gzip.compress(page.request.get(url).body())) for url in urls) / 1024


def _result(seen: Mapping[str, Seen], made: Mapping[str, Any]) -> Result:
    first = {name: statistics.median(one.first) for name, one in seen.items()}
    largest = {name: statistics.median(one.largest) for name, one in seen.items()}
    worst = {name: max(one.inputs, default=0.0) for name, one in seen.items()}
    kib = {name: one.kib for name, one in seen.items() if name not in WITH_CHARTS}
    return Result(
        (
            Figure("page-large.first_paint_seconds", round(max(first.values()), 3), "s", FIRST_PAINT_SECONDS),
            Figure("page-large.interaction_ms", max(worst.values()), "ms", INTERACTION_MS),
            Figure("page-large.js_kib", round(max(kib.values()), 1), "KiB", JS_KIB),
            Figure("page-large.largest_paint_seconds", round(max(largest.values()), 3), "s"),
        ),
        (
            f"{made['workloads']} workloads ({made['waiting']} wait), {made['nodes']} nodes, {made['teams']} teams",
            "first paint, s: " + _each(first, 2),
            "largest paint, s: " + _each(largest, 2),
            "slowest input to the next paint, ms: " + _each(worst, 0),
            f"medians of {len(next(iter(seen.values())).first)} visits; files from the browser's cache; no loop beside",
        ),
    )


def _each(values: Mapping[str, float], digits: int) -> str:
    return ", ".join(f"{name} {value:.{digits}f}" for name, value in values.items())
