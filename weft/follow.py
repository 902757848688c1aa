"""Waiting for workloads and following their logs, through restarts of the server."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from weft.answers import UP, LogLine, Logs, Workload
from weft.errors import NotReachable, WaitTimeout, WeftError

FIRST_PAUSE = 0.25  # s: a short job's end is seen at once
MAX_PAUSE = 3.0  # s: what a person still calls live
POLL = 30  # s of one long poll
POLLED = ("terminal", "running")  # what the server can wait for
MAX_LINES = 10_000  # of one answer
PATIENCE = 300.0  # s without any answer before waiting is given up

T = TypeVar("T")
Notice = Callable[[str], None]


class Reads(Protocol):
    """What following needs of a client (client.py)."""

    def read(self, uid: str, *, wait_for: str = "", timeout: int = 30) -> Workload:
        """Return a workload by its uid."""

    def logs(self, uid: str, *, tail: int | None = None, since: float | None = None, rank: int | None = None) -> Logs:
        """Return lines of its log."""


def silent(_: str) -> None:
    """Say nothing."""


class Pace:
    """The pause between two looks: short after a change, growing while nothing happens."""

    def __init__(self, deadline: float | None = None) -> None:
        self.deadline = deadline
        self.pause = FIRST_PAUSE

    def is_over(self) -> bool:
        """Whether the time is up."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    def poll_seconds(self) -> int:
        """How long the server may wait before it answers: whole seconds, 0 where too few are left."""
        return POLL if self.deadline is None else max(0, min(POLL, int(self.deadline - time.monotonic())))

    def rest(self, *, changed: bool) -> None:
        """Sleep until the next look, never past the deadline."""
        self.pause = FIRST_PAUSE if changed else min(MAX_PAUSE, self.pause * 1.4)
        left = self.pause if self.deadline is None else self.deadline - time.monotonic()
        time.sleep(max(0.0, min(self.pause, left)))


class Steady:
    """Looks at the server and bears its absence: None while it does not answer, an error after PATIENCE."""

    def __init__(self, notice: Notice = silent, patience: float = PATIENCE) -> None:
        self.notice = notice
        self.patience = patience
        self.lost_at: float | None = None

    def look(self, read: Callable[[], T]) -> T | None:
        """Return what was read, None if the server cannot be reached for now."""
        try:
            value = read()
        except WeftError as error:
            self.bear(error)
            return None
        self.answered()
        return value

    def bear(self, error: WeftError) -> None:
        """Note that the server does not answer; raise what it is if that cannot pass, or has lasted too long."""
        if not _may_pass(error):
            raise error
        now = time.monotonic()
        if self.lost_at is None:
            self.lost_at = now
            self.notice(f"{error} Retrying.")
        elif now - self.lost_at > self.patience:
            raise error

    def answered(self) -> None:
        """Note that it answers."""
        if self.lost_at is not None:
            self.lost_at = None
            self.notice("The server responds again.")


def wait(
    client: Reads,
    uids: Sequence[str],
    *,
    until: str = "terminal",
    timeout: float | None = None,
    seen: Callable[[Workload], None] | None = None,
    notice: Notice = silent,
) -> list[Workload]:
    """Wait for several workloads; return them as they were when their wait was over, in the order given.

    `until` is "terminal", "running" or a phase; "ready" is running for services and notebooks, which do not end by
    themselves, and terminal for training. `seen` is called for each change. Raises WaitTimeout. Without `seen`, one
    workload is waited for by long polls.
    """
    is_polled = seen is None and len(uids) == 1 and until in POLLED
    pace = Pace(None if timeout is None else time.monotonic() + timeout)
    steady = Steady(notice)
    watched = _Watched(until, {uid: None for uid in uids})
    while True:
        began = time.monotonic()
        changes = watched.look(client, steady, pace.poll_seconds() if is_polled else 0)
        for change in changes if seen else ():
            seen(change)  # type: ignore[misc]
        if not watched.open:
            return [watched.done[uid] for uid in uids]
        if pace.is_over():
            raise watched.timed_out(timeout or 0.0)
        if not is_polled or time.monotonic() - began < 1:  # a server that does not wait is not asked without a pause
            pace.rest(changed=bool(changes))


class _Watched:
    """What is waited for: as last seen while open, as it was when its wait was over."""

    def __init__(self, until: str, open: dict[str, Workload | None]) -> None:  # noqa: A002
        self.until = until
        self.open = open
        self.done: dict[str, Workload] = {}

    def look(self, client: Reads, steady: Steady, seconds: int = 0) -> list[Workload]:
        """Read what is open, and return what has changed; with `seconds`, once it is there or after so long."""
        poll: dict[str, Any] = {"wait_for": self.until, "timeout": seconds} if seconds else {}
        changes = []
        for uid, before in list(self.open.items()):
            now = steady.look(partial(client.read, uid, **poll))
            if now is None:
                break
            if before is None or _differs(before, now):
                changes.append(now)
            self.open[uid] = now
            if is_met(now, self.until):
                self._end(now)
        return changes

    def timed_out(self, timeout: float) -> WaitTimeout:
        """Return the error that says what did not happen."""
        seen = [one for one in self.open.values() if one]
        if not seen:
            return WaitTimeout(f"The server did not respond within {timeout:g} s.")
        more = f" and {len(seen) - 1} more" if len(seen) > 1 else ""
        return WaitTimeout(f"{seen[0].path}{more} is still {seen[0].phase} after {timeout:g} s. It continues to run.")

    def _end(self, workload: Workload) -> None:
        self.done[workload.uid] = workload
        del self.open[workload.uid]


def is_met(workload: Workload, until: str) -> bool:
    """Whether a wait for this workload is over: it got there, or has ended and never will."""
    if workload.has_ended:
        return True
    if until == "ready":
        until = "terminal" if workload.type == "training" else "running"
    if until == "running":
        return workload.phase in UP
    return workload.phase.lower() == until.lower()


def exit_code(workload: Workload) -> int:
    """Return the exit code for a workload that was waited for (docs/cli.md#exit-codes)."""
    if workload.phase == "Stopped" and workload.reason == "DependencyFailed":
        return 3
    return {"Failed": 3, "Rejected": 5, "Expired": 5, "Stopped": 6}.get(workload.phase, 0)


def log_lines(
    client: Reads,
    uid: str,
    *,
    tail: int | None = None,
    since: float | None = None,
    rank: int | None = None,
    notice: Notice = silent,
) -> Iterator[LogLine]:
    """Yield a workload's log lines as they come, until it has ended."""
    pace, steady = Pace(), Steady(notice)
    while True:
        # The phase is read first: lines written between the two reads come with the next round.
        workload = steady.look(partial(client.read, uid))
        piece = steady.look(partial(client.logs, uid, tail=tail, since=since, rank=rank)) if workload else None
        if piece:
            yield from piece.lines
            since = piece.next_since if piece.next_since is not None else since
            # From now on all that is new, not the last few of it.
            tail = MAX_LINES if since is not None else tail
        if workload and piece is not None and workload.has_ended and (not piece.lines or piece.next_since is None):
            return
        pace.rest(changed=bool(piece and piece.lines))


def _may_pass(error: WeftError) -> bool:
    return isinstance(error, NotReachable) or error.status == 429 or error.status >= 500


def _differs(before: Workload, now: Workload) -> bool:
    return any(getattr(before, name) != getattr(now, name) for name in ("phase", "attempt", "reason", "message"))
