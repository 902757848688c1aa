"""Shows how far the tests are: bars on a terminal, else a line a minute."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tests.progress.tally import Part, line

EVERY_SECONDS = 60.0


class Show(Protocol):
    """Where text goes that is to stay."""

    def say(self, text: str) -> None:
        """Print a text, as a whole."""


class Lines:
    """Plain text, for logs."""

    def __init__(self) -> None:
        self._lock = Lock()

    def say(self, text: str) -> None:
        """Print a text, as a whole."""
        with self._lock:
            print(text, flush=True)


class Bars:
    """A terminal with live bars below what is printed."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, text: str) -> None:
        """Print a text above the bars."""
        self._console.print(Text(text))


@contextmanager
def shown(parts: list[Part], began: float, every: float = EVERY_SECONDS) -> Iterator[Show]:
    """Show the parts while the block runs."""
    console = Console()
    if console.is_terminal:
        with Live(console=console, get_renderable=lambda: _bars(parts, began), refresh_per_second=2):
            yield Bars(console)
        return
    lines, is_over = Lines(), Event()

    def tell() -> None:
        while not is_over.wait(every):
            lines.say(f"tests: {line(parts, time.monotonic(), began)}")

    teller = Thread(target=tell, name="teller", daemon=True)
    teller.start()
    try:
        yield lines
    finally:
        is_over.set()
        teller.join()
        sys.stdout.flush()


def _bars(parts: list[Part], began: float) -> Table:
    """A row for each part that was collected, and a last one for all."""
    now = time.monotonic()
    table = Table.grid(padding=(0, 1))
    for part in parts:
        bar = ProgressBar(total=part.total or 1, completed=part.done, width=24)
        failed = Text(f"{part.outcomes['failed']} failed", "red") if part.outcomes["failed"] else Text()
        table.add_row(part.name, bar, f"{part.done:,}/{part.total:,}", failed, _doing(part, now))
    table.add_row(Text(line(parts, now, began).partition("; now")[0], "bold"))
    return table


def _doing(part: Part, now: float) -> Text:
    if part.test:
        return Text(f"{part.test.rpartition('/')[2][:60]} {now - part.test_began:.0f} s", "dim")
    if part.ended:
        return Text(f"done after {(part.ended - part.began) / 60:.1f} min", "dim")
    if part.began:
        return Text("ends its servers" if part.done >= part.total else "", "dim")
    return Text("waits for a core" if part.total else "looks for its tests", "dim")
