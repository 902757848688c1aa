"""What `--wait` shows: a live line on a terminal, a plain line for each change elsewhere; always on stderr."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from weft import output
from weft.answers import Workload

if TYPE_CHECKING:
    from rich.status import Status


class Progress:
    """Tells the changes of the workloads that are waited for."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.status: Status | None = None

    def __enter__(self) -> Self:
        if output.has_colour(sys.stderr):
            from rich.console import Console

            self.status = Console(stderr=True, highlight=False, markup=False).status("waiting", spinner="dots")
            self.status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.status:
            self.status.stop()

    def tell(self, workload: Workload) -> None:
        """Say how a workload stands now."""
        why = f": {output.clean(workload.message)}" if workload.message else ""
        code = f" (exit code {workload.exit_code})" if workload.exit_code else ""
        again = f", attempt {workload.attempt}" if workload.attempt > 1 else ""  # that it had to leave may go unseen
        self.note(f"{workload.path} is {workload.phase}{again}{code}{why}")
        if self.status:
            self.status.update(f"{workload.path} {workload.phase}; Ctrl-C stops waiting, not the workload")

    def note(self, text: str) -> None:
        """Say something with the seconds since the start."""
        line = f"{output.span(time.monotonic() - self.began):>6}  {text}"
        if self.status:
            self.status.console.print(line)
        else:
            output.note(line)
