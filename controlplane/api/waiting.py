"""Answers that come later: a long poll, and streams of events.

Under ASGI neither holds a thread while nothing happens: a long poll is an answer that is filled in once something
was told (asgi.Handler), a stream is sent by the event loop. Under WSGI a long poll waits in its thread, and a
stream ends after what there is so far: the client comes back with Last-Event-ID.
"""

import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from django.http import HttpResponse, StreamingHttpResponse
from rest_framework.request import Request

from controlplane.api.feed import FEED, Inbox
from controlplane.api.parked import Parked
from controlplane.api.rendering import dumps
from controlplane.jobspec.shapes import shown
from controlplane.queries.audit import feed, retention
from controlplane.services.errors import Refused

if TYPE_CHECKING:
    from controlplane.models import Event

BEAT = 15.0  # s after which a silent stream says that it is alive
RETRY = "retry: 1000\n\n"

Told = Callable[["Event"], bool]


class LongPoll(Parked):
    """The answer of `answered`, once enough was told to the inbox or so many seconds have passed."""

    def __init__(self, inbox: Inbox, is_enough: Told, seconds: float, answered: Callable[[], HttpResponse]) -> None:
        super().__init__()
        self.inbox = inbox
        self.is_enough = is_enough
        self.deadline = time.monotonic() + seconds
        self.answered = answered

    async def until_told(self) -> None:
        """Wait until enough was told, or the time is up."""
        while not self._is_over():
            await self.inbox.wait_here(max(0.0, self.deadline - time.monotonic()))

    def wait(self) -> None:
        """The same in this thread."""
        while not self._is_over():
            self.inbox.wait(max(0.0, self.deadline - time.monotonic()))

    def fill(self) -> None:
        """Take the content over from the answer as it is now."""
        answer = self.answered()
        self.status_code, self.content = answer.status_code, answer.content
        for name, value in answer.items():
            self[name] = value
        self["Content-Length"] = str(len(self.content))

    def close(self) -> None:
        """Wait no more."""
        FEED.leave(self.inbox)
        super().close()

    def _is_over(self) -> bool:
        told = [self.inbox.told.popleft() for _ in range(len(self.inbox.told))]
        return self.inbox.is_over or time.monotonic() >= self.deadline or any(map(self.is_enough, told))


class Stream(StreamingHttpResponse):
    """Server-sent events from an inbox, after what there is to begin with."""

    def __init__(self, inbox: Inbox, parts: AsyncIterator[str] | Iterator[str]) -> None:
        super().__init__(parts, content_type="text/event-stream")
        self.inbox = inbox
        self["Cache-Control"] = "no-store, no-transform"
        self["X-Accel-Buffering"] = "no"

    def close(self) -> None:
        """End it."""
        FEED.leave(self.inbox)
        super().close()


def has_event_loop(request: Request) -> bool:
    """Whether an event loop sends the answer, so that it may come later."""
    return hasattr(request._request, "scope")


def last_event_id(request: Request) -> int | None:
    """The number in Last-Event-ID; None without the header. Refused 410 if what follows is not kept."""
    text = request.META.get("HTTP_LAST_EVENT_ID", "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        fix = "Send the id of the last event that you received, such as 4711, or leave the header out."
        raise Refused(400, "Invalid", "Last-Event-ID", f"Last-Event-ID is {shown(text)}, which no event has. {fix}")
    number, newest = int(text), feed.newest()
    if number > newest:
        raise gone(f"The newest event is {newest}, so {number} is from another server, or from before a restore.")
    if 0 < number < feed.oldest():
        kept = retention.event_days()
        raise gone(f"Events up to {feed.oldest() - 1} are not kept any more: they are kept for {kept} days.")
    return number


def missed(after: int | None, inbox: Inbox, until: int) -> Sequence["Event"]:
    """What happened after the number a client saw last, up to where its inbox begins. Refused 410 if it is too much."""
    found = feed.between(after, until, inbox.scope) if after is not None and after < until else ()
    if found is None:
        raise gone(f"More than {feed.MAX_BEHIND:,} events have happened since {after}.")
    return found


def gone(why: str) -> Refused:
    """The refusal that tells of a gap, and how to go on."""
    fix = "Read the workloads again, and watch from now on, without Last-Event-ID."
    return Refused(410, "EventsGone", "Last-Event-ID", f"{why} {fix}")


def message(name: str, number: int, document: Any) -> str:
    """One server-sent event; its id is where a client goes on after it."""
    return f"id: {number}\nevent: {name}\ndata: {dumps(document).decode()}\n\n"


async def live(
    inbox: Inbox, begin: Sequence[str], show: Callable[["Event"], str], is_last: Told = lambda _: False
) -> AsyncIterator[str]:
    """What there is to begin with, then each event as it is told, until the last one or the end of the server."""
    yield RETRY + "".join(begin)
    while not (inbox.is_over and not inbox.told):
        if not inbox.told:
            await inbox.wait_here(BEAT)
        if not inbox.told and not inbox.is_over:
            yield ": still here\n\n"
        while inbox.told:
            event = inbox.told.popleft()
            yield show(event)
            if is_last(event):
                return


def so_far(begin: Sequence[str]) -> Iterator[str]:
    """What there is to begin with."""
    yield RETRY + "".join(begin)
