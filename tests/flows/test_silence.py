"""A server that hangs keeps its connections open: a page notices all the same that it is told nothing any more."""

import signal
from pathlib import Path
from typing import Any

from tests.flows.processes import up
from tests.flows.test_browser import LONG, sign_in


def test_a_page_says_that_it_is_stale_while_the_server_hangs_and_goes_on_afterwards(home: Path, page: Any) -> None:
    with up(home, WEFT_STREAM_BEAT="1") as weft:
        sign_in(page, weft.url, "admin", (home / "password").read_text().strip())
        page.locator("#live[data-state=live]").wait_for(timeout=LONG)
        weft.process.send_signal(signal.SIGSTOP)
        try:
            page.locator("#live[data-state=stale]", has_text="last update").wait_for(timeout=LONG)
            page.locator("#stale", has_text="Weft has not answered since").wait_for()
        finally:
            weft.process.send_signal(signal.SIGCONT)
        page.locator("#live[data-state=live]").wait_for(timeout=LONG)
        assert not page.locator("#stale").is_visible()
