"""The connections that binds go through, against a server on loopback that answers what each test scripts."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from controlplane.cluster.kubernetes.wire import Answer, Wires

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Reads requests and answers each with the next part of its script; None closes the connection."""

    def __init__(self, *script: bytes | None) -> None:
        self.script = list(script)
        self.requests: list[bytes] = []
        self.connections = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(length))
                answer = self.script.pop(0)
                if answer is None:
                    return
                writer.write(answer)
                await writer.drain()
        except asyncio.IncompleteReadError:
            return
        finally:
            writer.close()


def run(server: Server, work: Callable[[Wires], Awaitable[object]]) -> object:
    async def go() -> object:
        listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        wires = Wires(f"http://127.0.0.1:{port}/prefix", None, None, connect_seconds=5.0)
        try:
            return await work(wires)
        finally:
            wires.close()
            listening.close()

    return asyncio.run(go())


def ask(wires: Wires, seconds: float = 10.0, body: bytes = b"") -> Awaitable[Answer]:
    return wires.request("POST", "/a", {"Accept": "*/*"}, body, seconds)


def test_one_connection_carries_request_after_request():
    server = Server(OK, OK, OK)

    async def work(wires: Wires) -> list[bytes]:
        return [bytes((await ask(wires, body=b"x")).body) for _ in range(3)]

    assert run(server, work) == [b"ok"] * 3
    assert server.connections == 1
    assert server.requests[0].startswith(b"POST /prefix/a HTTP/1.1\r\nHost: 127.0.0.1:")
    assert server.requests[0].endswith(b"\r\nAccept: */*\r\nContent-Length: 1\r\n\r\nx")


def test_requests_at_the_same_time_have_connections_of_their_own():
    server = Server(*[OK] * 5)

    async def work(wires: Wires) -> None:
        await asyncio.gather(*(ask(wires) for _ in range(5)))

    run(server, work)
    assert server.connections == 5


def test_status_headers_and_a_body_in_chunks_are_read_whole():
    chunked = (
        b"HTTP/1.1 429 Too Many\r\nTransfer-Encoding: chunked\r\nRetry-After: 7\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    )

    async def work(wires: Wires) -> Answer:
        return await ask(wires)

    answer = run(Server(chunked), work)
    assert isinstance(answer, Answer)
    assert (answer.status, answer.headers["retry-after"], bytes(answer.body)) == (429, "7", b"abcde")


@pytest.mark.parametrize(
    "broken",
    [None, b"what?\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: -4\r\n\r\n"],
    ids=["closed", "not HTTP", "bad length"],
)
def test_an_answer_that_does_not_come_whole_is_an_error_and_the_next_request_has_a_new_connection(broken):
    server = Server(broken, OK)

    async def work(wires: Wires) -> bytes:
        with pytest.raises(OSError):
            await ask(wires)
        return bytes((await ask(wires)).body)

    assert run(server, work) == b"ok"
    assert server.connections == 2


def test_a_server_that_says_nothing_is_given_up_in_time():
    server = Server(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", OK)

    async def work(wires: Wires) -> bytes:
        with pytest.raises(TimeoutError):
            await ask(wires, seconds=0.05)
        return bytes((await ask(wires)).body)

    assert run(server, work) == b"ok"
    assert server.connections == 2


def test_a_connection_that_the_server_ends_after_its_answer_is_not_used_again():
    server = Server(OK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"), OK)

    async def work(wires: Wires) -> None:
        await ask(wires)
        await ask(wires)

    run(server, work)
    assert server.connections == 2


def test_a_cancelled_request_does_not_leave_its_answer_to_the_next():
    server = Server(b"", OK)  # the first is never answered

    async def work(wires: Wires) -> bytes:
        first = asyncio.ensure_future(ask(wires))
        while not server.requests:
            await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        return bytes((await ask(wires)).body)

    assert run(server, work) == b"ok"
    assert server.connections == 2


@pytest.mark.parametrize("header", ["a\r\nHost: elsewhere", "a\nb"])
def test_a_line_break_in_a_header_is_refused_before_anything_is_sent(header):
    server = Server()

    async def work(wires: Wires) -> None:
        with pytest.raises(ValueError, match="line break"):
            await wires.request("GET", "/a", {"Authorization": header}, b"", 1.0)

    run(server, work)
    assert not server.requests
