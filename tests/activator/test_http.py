"""HTTP/1.1 through the activator: bodies both ways, keep-alive, several ahead, websockets, clients that leave."""

import asyncio

from tests.activator.rig import ASK, OK, Replica, Rig, activated, until

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_an_answer_comes_through_and_both_connections_are_used_again() -> None:
    async def test(rig: Rig) -> None:
        async with rig.talk() as talk:
            for _ in range(3):
                talk.send(ASK)
                answer = await talk.answer()
                assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and answer.endswith(b"\r\n\r\nok")
        (replica,) = rig.replicas
        assert (len(replica.requests), replica.connections) == (3, 1)
        assert rig.counts.codes == {200: 3} and rig.counts.arrivals == 3

    activated(test)


def test_requests_sent_ahead_are_answered_in_their_order() -> None:
    async def test(rig: Rig) -> None:
        async with rig.talk() as talk:
            talk.send(b"".join(b"POST /%d HTTP/1.1\r\nHost: chat\r\nContent-Length: 2\r\n\r\nab" % n for n in range(5)))
            bodies = [(await talk.answer()).rpartition(b"\r\n\r\n")[2] for _ in range(5)]
        assert bodies == [b"%d" % n for n in range(5)]
        assert [one.split(b" ")[1] for one in rig.replicas[0].requests] == [b"/%d" % n for n in range(5)]

    activated(test, [b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % n for n in range(5)])


def test_a_body_in_chunks_reaches_the_replica_whole() -> None:
    async def test(rig: Rig) -> None:
        head = b"POST /v1 HTTP/1.1\r\nHost: chat\r\nTransfer-Encoding: chunked\r\n\r\n"
        await rig.ask(head + b"3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nTrailer: is dropped\r\n\r\n")
        (request,) = rig.replicas[0].requests
        assert request.endswith(b"\r\n\r\nabcdefg") and b"content-length: 7\r\n" in request
        assert b"railer" not in request

    activated(test)


def test_a_long_body_in_chunks_is_passed_on_while_it_comes() -> None:
    async def test(rig: Rig) -> None:
        async with rig.talk() as talk:
            talk.send(b"POST /v1 HTTP/1.1\r\nHost: chat\r\nTransfer-Encoding: chunked\r\n\r\n")
            talk.send((b"8000\r\n" + b"a" * 0x8000 + b"\r\n") * 3)
            await until(lambda: rig.lanes.running == 1, "it is handed over before its end")
            talk.send(b"3\r\nend\r\n0\r\n\r\n")
            assert (await talk.answer()).endswith(b"ok")
        (request,) = rig.replicas[0].requests
        assert b"transfer-encoding: chunked" in request
        assert request.count(b"a") >= 3 * 0x8000 and request.endswith(b"3\r\nend\r\n0\r\n\r\n")

    activated(test)


def test_a_large_body_with_its_length_and_a_large_answer_come_whole() -> None:
    size = 3_000_000

    async def test(rig: Rig) -> None:
        async with rig.talk() as talk:
            talk.send(b"POST /v1 HTTP/1.1\r\nHost: chat\r\nContent-Length: %d\r\n\r\n" % size + b"b" * size)
            answer = await talk.answer()
        assert answer.count(b"z") == size
        assert rig.replicas[0].requests[0].endswith(b"\r\n\r\n" + b"b" * size)

    activated(test, [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"z" * size])


def test_a_stream_of_events_comes_through_event_by_event() -> None:
    more = asyncio.Event()

    async def stream(_: Replica, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + b"9\r\ndata: 1\n\n\r\n")
        await more.wait()
        writer.write(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")

    async def test(rig: Rig) -> None:
        async with rig.talk() as talk:
            talk.send(ASK)
            assert b"200 OK" in await talk.read(b"data: 1\n\n\r\n")
            more.set()
            assert (await talk.read(b"0\r\n\r\n")).startswith(b"9\r\ndata: 2\n\n")

    activated(test, [stream])


def test_an_answer_without_a_length_ends_with_the_replicas_connection() -> None:
    async def close(_: Replica, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        writer.close()

    async def test(rig: Rig) -> None:
        answer = await rig.ask(ASK)
        assert answer.endswith(b"9\r\nall of it\r\n0\r\n\r\n")
        assert rig.counts.codes == {200: 1}

    activated(test, [close])


def test_a_client_of_http_1_0_gets_no_chunks() -> None:
    async def test(rig: Rig) -> None:
        answer = await rig.ask(b"GET / HTTP/1.0\r\n\r\n")
        assert answer.endswith(b"\r\n\r\nabc") and b"chunked" not in answer and b"connection: close" in answer

    activated(test, [CHUNKED + b"3\r\nabc\r\n0\r\n\r\n"])


def test_an_answer_to_head_has_a_length_and_no_body_and_the_next_request_is_served() -> None:
    async def test(rig: Rig) -> None:
        async with rig.talk() as talk:
            talk.send(b"HEAD / HTTP/1.1\r\nHost: chat\r\n\r\n")
            assert b"content-length: 5" in await talk.answer(has_body=False)
            talk.send(ASK)
            assert (await talk.answer()).endswith(b"\r\n\r\nok")

    activated(test, [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", OK])


def test_a_client_that_waits_for_100_continue_is_told_to_go_on() -> None:
    async def test(rig: Rig) -> None:
        async with rig.talk() as talk:
            talk.send(b"POST / HTTP/1.1\r\nHost: chat\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
            assert await talk.read(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            talk.send(b"abc")
            assert (await talk.answer()).endswith(b"ok")
        (request,) = rig.replicas[0].requests
        assert request.endswith(b"abc") and b"xpect" not in request

    activated(test)


def test_notices_of_a_replica_before_its_answer_are_not_taken_for_it() -> None:
    async def test(rig: Rig) -> None:
        async with rig.talk() as talk:
            for _ in range(2):
                talk.send(ASK)
                assert (await talk.answer()).startswith(b"HTTP/1.1 200")
        assert rig.replicas[0].connections == 1

    activated(test, [b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK, OK])


def test_a_websocket_is_opened_and_bytes_go_both_ways() -> None:
    async def echo(_: Replica, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello")
        while data := await reader.read(1000):
            writer.write(data.upper())

    async def test(rig: Rig) -> None:
        ask = b"GET /ws HTTP/1.1\r\nHost: chat\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        async with rig.talk() as talk:
            talk.send(ask + b"early")
            answer = await talk.read(b"EARLY")
            assert answer.startswith(b"HTTP/1.1 101") and b"upgrade: websocket" in answer
            talk.send(b"later")
            assert await talk.read(b"LATER") == b"LATER"
            assert rig.lanes.running == 1
        await until(lambda: rig.lanes.running == 0 and not rig.replicas[0].open, "the end of both connections")
        assert rig.counts.codes == {101: 1}

    activated(test, [echo])


def test_other_protocols_are_not_changed_to() -> None:
    async def test(rig: Rig) -> None:
        ask = ASK[:-2] + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n"
        async with rig.talk() as talk:
            for _ in range(2):
                talk.send(ask)
                assert (await talk.answer()).endswith(b"\r\n\r\nok")
        assert all(b"pgrade" not in one and b"http2" not in one.lower() for one in rig.replicas[0].requests)

    activated(test)


def test_a_client_that_leaves_ends_the_replicas_work() -> None:
    async def hang(_: Replica, reader: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await reader.read()

    async def test(rig: Rig) -> None:
        async with rig.talk() as talk:
            talk.send(ASK)
            await until(lambda: rig.replicas[0].requests, "the request")
        await until(lambda: not rig.replicas[0].open, "the end of the replica's connection")
        assert rig.lanes.running == 0 and rig.counts.codes == {499: 1}

    activated(test, [hang])


def test_a_slow_reader_holds_the_replica_back() -> None:
    size = 40_000_000
    sent = 0

    async def pour(_: Replica, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        while sent < size:
            writer.write(b"p" * 100_000)
            sent += 100_000
            await writer.drain()

    async def test(rig: Rig) -> None:
        async with rig.talk() as talk:
            talk.send(ASK)
            await talk.read(b"\r\n\r\n")
            await until(lambda: any(client.is_stalled for client in rig.site.clients), "the reader's buffers are full")
            assert 0 < sent < size / 2
            left = size
            while left:
                left -= len(await talk.reader.read(1_000_000))

    activated(test, [pour])
