"""Requests of strangers, so many a second, in a process of its own: `python -m controlplane.benchmarks.serving.floods`.

By turns a sign-in with an invented name and a wrong password, by REST and by the page, and a request with an invented
token. Each is sent when it is due, whether or not those before were answered. Loopback has 2^24 addresses to ask from.
"""

import asyncio
import contextlib
import json
import secrets
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

LAST = b"\r\n0\r\n\r\n"  # the chunk that ends an answer


@dataclass
class Asker:
    """Connections from one address, and what was answered on them."""

    address: str
    host: str
    port: int
    statuses: Counter[int] = field(default_factory=Counter)
    free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(default_factory=list)

    async def ask(self, request: bytes) -> None:
        """Send one request and read its answer; an answer that does not come counts as status 0."""
        connection = self.free.pop() if self.free else None
        try:
            reader, writer = connection or await asyncio.open_connection(
                self.host, self.port, local_addr=(self.address, 0)
            )
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            said = head.lower()
            length = next((int(line[15:]) for line in said.split(b"\r\n") if line[:15] == b"content-length:"), 0)
            await (reader.readuntil(LAST) if b"transfer-encoding: chunked" in said else reader.readexactly(length))
            self.statuses[int(head[9:12])] += 1
            if b"connection: close" in said:
                writer.close()
            else:
                self.free.append((reader, writer))
        except (OSError, asyncio.IncompleteReadError):
            self.statuses[0] += 1


async def flood(host: str, port: int, addresses: int, per_second: float, seconds: float) -> Counter[int]:
    """Ask for so long; how often which status came."""
    askers = [Asker(f"127.1.{addresses}.{number + 1}", host, port) for number in range(addresses)]
    tasks, began = [], time.perf_counter()
    for number in range(int(per_second * seconds)):
        await asyncio.sleep(max(0.0, began + number / per_second - time.perf_counter()))
        asker = askers[number % addresses]
        tasks.append(asyncio.create_task(asker.ask(request(number // addresses + number, f"{host}:{port}"))))
    await asyncio.wait(tasks, timeout=30)
    total: Counter[int] = Counter()
    for asker in askers:
        total += asker.statuses
        for _, writer in asker.free:
            with contextlib.suppress(OSError):
                writer.close()
    return total


def request(number: int, host: str) -> bytes:
    """One of three kinds, each with a name or token that nobody has."""
    invented = secrets.token_urlsafe(32)
    if number % 4 == 0:
        body = json.dumps({"username": invented[:20], "password": "wrong"}).encode()
        return _post("/api/v1/login", host, "application/json", body)
    if number % 4 == 2:
        # Without the form's token it is refused before the password: with it, as somebody would send it.
        body = f"username={invented[:20]}&password=wrong&csrfmiddlewaretoken={CSRF}".encode()
        return _post("/login/", host, "application/x-www-form-urlencoded", body, f"Cookie: csrftoken={CSRF}\r\n")
    head = f"GET /api/v1/queue HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer weft_{invented}\r\n\r\n"
    return head.encode()


CSRF = "a" * 32


def _post(path: str, host: str, kind: str, body: bytes, more: str = "") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {kind}\r\n{more}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


if __name__ == "__main__":
    host, port, addresses, per_second, seconds = sys.argv[1:]
    counted = asyncio.run(flood(host, int(port), int(addresses), float(per_second), float(seconds)))
    print(json.dumps({str(status): count for status, count in sorted(counted.items())}))
