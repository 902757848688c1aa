"""Server-sent events (WHATWG HTML, 9.2): read as messages, and gone on with where a connection broke."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.errors import NotReachable, WeftError
from weft.follow import Notice, Steady, silent

if TYPE_CHECKING:
    from weft.transport import Transport

SILENCE = 45.0  # s: the server says every 15 s that it is there
PAUSE = 1.0  # s before a broken stream is opened again


@dataclass(frozen=True, slots=True)
class Message:
    """One event of a stream: what it is called, its JSON, and its number, after which a stream can go on."""

    id: int
    name: str
    data: Any


def messages(
    transport: "Transport", path: str, params: Mapping[str, Any], *, notice: Notice = silent, pause: float = PAUSE
) -> Iterator[Message]:
    """Yield the messages of a stream without an end, through broken connections and restarts of the server.

    It ends when the server says that nothing follows (204). Raises NotReachable when it is away for too long, and
    whatever else the server refuses it with.
    """
    last: int | None = None
    steady = Steady(notice)
    while True:
        resume = {"Accept": "text/event-stream", **({} if last is None else {"Last-Event-ID": str(last)})}
        try:
            with transport.lines(path, params, resume, silence=SILENCE) as lines:
                steady.answered()
                if lines is None:
                    return
                for message in parsed(lines):
                    last = message.id
                    yield message
        except WeftError as error:
            steady.bear(error)
        time.sleep(pause)


def parsed(lines: Iterable[str]) -> Iterator[Message]:
    """Read lines as messages; comments and what has no data are left out. Raises NotReachable for what is no JSON."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
            continue
        if "data" in fields:
            try:
                yield Message(int(fields.get("id", 0)), fields.get("event", "message"), json.loads(fields["data"]))
            except ValueError:
                raise NotReachable("The stream of events was cut in the middle of one.") from None
        fields = {}
