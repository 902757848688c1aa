"""What the daemon tells Prometheus: for how long each share has had the token, at `/metrics` of a port of its own.

Answered in the daemon's own event loop: a thread beside it would hold the daemon up for 5 ms at a time.
docs/metrics.md says what the series means.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Protocol

NAME = "weft_gpu_share_busy_seconds_total"
ON_GPU = "weft_gpu_share_on_gpu"
ON_GPU_HELP = "Of a notebook on demand: the number of the GPU on which its memory is, -1 in host memory."
IN_HOST_MEMORY = -1
HELP = "Seconds for which the share had the token of this GPU."
TYPE = "text/plain; version=0.0.4; charset=utf-8"
PATIENCE = 10.0  # s, with one that connects and asks for nothing
AT_ONCE = 8  # connections: the daemon's files are for its shares
LONGEST = 8192  # bytes of a request


@dataclass(frozen=True, slots=True)
class Busy:
    """Of one share on one GPU. pod: the one whose container has it, as the node's side says; empty: it does not."""

    share: str
    pod: str
    gpu: str
    microseconds: int


@dataclass(frozen=True, slots=True)
class OnGpu:
    """Where the memory of a notebook on demand is. gpu: the number of a GPU, or IN_HOST_MEMORY."""

    share: str
    pod: str
    gpu: int


class Told(Protocol):
    """What knows it."""

    def busy(self) -> Iterable[Busy]:
        """For how long each share has had each GPU."""

    def on_gpus(self) -> Iterable[OnGpu]:
        """Where notebooks on demand are."""


def page(rows: Iterable[Busy], places: Iterable[OnGpu] = ()) -> str:
    """In Prometheus' text format."""
    lines = [f"# HELP {NAME} {HELP}", f"# TYPE {NAME} counter"]
    for row in rows:
        labels = _labels(share=row.share, pod=row.pod, gpu=row.gpu)
        lines.append(f"{NAME}{labels} {row.microseconds / 1e6:.6f}")
    found = [f"{ON_GPU}{_labels(share=one.share, pod=one.pod)} {one.gpu}" for one in places]
    lines += [f"# HELP {ON_GPU} {ON_GPU_HELP}", f"# TYPE {ON_GPU} gauge", *found] if found else []
    return "\n".join(lines) + "\n"


def _labels(**said: str) -> str:
    return "{" + ",".join(f'{label}="{_escaped(value)}"' for label, value in said.items()) + "}"


@contextlib.asynccontextmanager
async def serving(told: Told, address: str, port: int) -> AsyncIterator[int]:
    """Answer `GET /metrics` meanwhile; gives the port, a free one for 0. Raises OSError where it cannot be had."""
    open_now = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_now
        open_now += 1
        try:
            if open_now <= AT_ONCE:
                async with asyncio.timeout(PATIENCE):
                    writer.write(_answer(await reader.readuntil(b"\r\n\r\n"), told))
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # it asked for nothing, or is gone
        finally:
            open_now -= 1
            writer.close()

    server = await asyncio.start_server(answer, address, port, limit=LONGEST)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def _answer(request: bytes, told: Told) -> bytes:
    method, _, rest = request.partition(b"\r\n")[0].partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if method not in (b"GET", b"HEAD"):
        status, body = "405 Method Not Allowed", "Only GET.\n"
    elif path != b"/metrics":
        status, body = "404 Not Found", "See /metrics.\n"
    else:
        status, body = "200 OK", page(told.busy(), told.on_gpus())
    data = body.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {TYPE}\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    return head.encode() + (data if method != b"HEAD" else b"")


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
