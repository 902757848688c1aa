"""The browser that tests and benchmarks drive."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from controlplane.testbed.processes import MissingError

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Chromium asks the network for updates and experiments at every start, which a closed network answers slowly.
FLAGS = (
    "--headless",
    "--no-sandbox",  # the sandbox refuses to run as root, as CI does
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DESKTOP, PHONE = (1280, 800), (390, 844)  # CSS pixels


def find() -> Path:
    """Return the browser to drive. Raises MissingError."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return Path(found)
    raise MissingError("Chromium", "install it (Debian: apt-get install chromium)")


@contextmanager
def browser() -> "Iterator[Browser]":
    """A browser for the time of a `with` block. Raises MissingError."""
    path = find()
    try:
        from playwright.sync_api import sync_playwright  # a requirement of development only
    except ImportError:
        raise MissingError("Playwright", "run scripts/setup dev") from None
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=str(path), args=list(FLAGS))
        try:
            yield opened
        finally:
            opened.close()
