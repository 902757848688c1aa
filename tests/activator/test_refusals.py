"""What is refused, with the fix in words, and what never reaches a replica: two requests in one, forged headers."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.activator import heads
from controlplane.activator.heads import BadRequestError
from controlplane.activator.site import Limits
from tests.activator.rig import ASK, LOOPBACK, OK, Rig, activated, until

GET = b"GET / HTTP/1.1\r\nHost: chat\r\n"
POST = b"POST / HTTP/1.1\r\nHost: chat\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "status", "fix"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400, b"Send exactly one Host header"),
        (GET + b"Host: other\r\n\r\n", 400, b"Send exactly one Host header"),
        (POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, b"."),
        (POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400, b"."),
        (POST + b"Content-Length: +3\r\n\r\nabc", 400, b"."),
        (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501, b"Send the body uncoded"),
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, b"."),
        (POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501, b"Send the body uncoded"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n", 400, b"Look at its lines"),
        (GET + b"X: a\r\n continued\r\n\r\n", 400, b"."),
        (GET + b"X: a\rY: b\r\n\r\n", 400, b"."),
        (GET + b"X : a\r\n\r\n", 400, b"."),
        (GET + b"X: a\0b\r\n\r\n", 400, b"."),
        (b"GET / HTTP/1.1\nHost: chat\n\n", 400, b"."),
        (b"GET / HTTP/3.0\r\nHost: chat\r\n\r\n", 505, b"Send the request as HTTP/1.1"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, b"Send the request as HTTP/1.1"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, b"without TLS"),
        (b"CONNECT other:443 HTTP/1.1\r\nHost: other\r\n\r\n", 405, b"Ask for a path"),
        (b"GET chat HTTP/1.1\r\nHost: chat\r\n\r\n", 400, b"."),
        (b"GET http://user@chat/ HTTP/1.1\r\nHost: chat\r\n\r\n", 400, b"Ask for a path"),
        (GET + b"Expect: a miracle\r\n\r\n", 417, b"100-continue"),
        (GET + b"".join(b"h%d: x\r\n" % n for n in range(120)) + b"\r\n", 431, b"Send fewer"),
        (GET + b"h: " + b"x" * 40_000 + b"\r\n\r\n", 431, b"Send"),
        (GET + b"h: " + b"x" * 400_000, 431, b"Send fewer or shorter"),
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: chat\r\n\r\n", 414, b"Send it in the body"),
        (POST + b"Content-Length: 1001\r\n\r\n", 413, b"Send less at once"),
        (
            POST + b"Transfer-Encoding: chunked\r\n\r\n3e9\r\n" + b"x" * 1001 + b"\r\n0\r\n\r\n",
            413,
            b"Send less at once",
        ),
    ],
)
def test_a_bad_request_is_told_what_to_send_and_reaches_no_replica(
    request_bytes: bytes, status: int, fix: bytes
) -> None:
    async def test(rig: Rig) -> None:
        async with rig.talk() as talk:
            talk.send(request_bytes)
            answer = await talk.rest()
        assert answer.startswith(b"HTTP/1.1 %d " % status)
        assert b"\r\nconnection: close\r\n" in answer and fix in answer.partition(b"\r\n\r\n")[2]
        assert rig.replicas[0].requests == [] and rig.counts.arrivals in (0, 1)
        assert rig.lanes.waiting == rig.lanes.running == 0

    activated(test, limits=Limits(body=1000))


CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
FILLER = b"x" * 700_000


@pytest.mark.parametrize("rest", [b"1;" + FILLER, b"1\r\na\r\n0\r\nTrailer: " + FILLER], ids=["chunk", "trailer"])
def test_what_a_request_has_around_its_chunks_is_bounded(rest: bytes) -> None:
    async def test(rig: Rig) -> None:
        async with rig.talk() as talk:
            talk.send(CHUNKED + rest)
            answer = await talk.rest()
        assert answer.startswith(b"HTTP/1.1 400 ") and b"Send larger chunks, and no trailer" in answer
        assert rig.replicas[0].requests == []

    activated(test)


def test_what_an_answer_has_around_its_chunks_is_bounded() -> None:
    async def test(rig: Rig) -> None:
        async with rig.talk() as talk:
            talk.send(ASK)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await talk.answer()
        assert rig.counts.codes == {502: 1}

    activated(test, [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nTrailer: " + FILLER])


def test_a_request_hidden_in_a_body_stays_in_it() -> None:
    async def test(rig: Rig) -> None:
        hidden = b"GET /admin HTTP/1.1\r\nHost: chat\r\n\r\n"
        async with rig.talk() as talk:
            talk.send(POST + b"Content-Length: %d\r\n\r\n" % len(hidden) + hidden + ASK)
            for _ in range(2):
                assert (await talk.answer()).endswith(b"ok")
        first, second = rig.replicas[0].requests
        assert first.startswith(b"POST / ") and first.endswith(hidden) and second.startswith(b"GET /v1 ")

    activated(test)


def test_what_comes_after_a_bad_request_is_not_read_and_what_was_before_is_answered() -> None:
    async def test(rig: Rig) -> None:
        async with rig.talk() as talk:
            talk.send(ASK + b"BAD\r\n\r\n" + ASK)
            answers = await talk.rest()
        assert (
            answers.startswith(b"HTTP/1.1 200") and answers.count(b"HTTP/1.1 200") == 1 and b"HTTP/1.1 400" in answers
        )
        assert len(rig.replicas[0].requests) == 1

    activated(test)


def test_a_whole_address_as_the_target_names_its_own_host() -> None:
    async def test(rig: Rig) -> None:
        await rig.ask(b"GET http://other:80/x?y HTTP/1.1\r\nHost: chat\r\n\r\n")
        (request,) = rig.replicas[0].requests
        assert request.startswith(b"GET /x?y HTTP/1.1\r\nhost: other:80\r\n") and b"chat" not in request

    activated(test)


FORGED = (
    GET
    + b"X-Forwarded-For: 10.1.1.1\r\nX_Forwarded_For: 10.1.1.2\r\nForwarded: for=10.1.1.3\r\nX-Real-IP: 10.1.1.4\r\n"
    b"X-Forwarded-Proto: https\r\nConnection: keep-alive, X-Forwarded-For, X-Hop\r\nX-Hop: 1\r\nX-Kept: 2\r\n"
    b"Keep-Alive: 5\r\nTE: trailers\r\nProxy-Authorization: secret\r\n\r\n"
)


def test_a_stranger_cannot_say_for_whom_it_asks() -> None:
    async def test(rig: Rig) -> None:
        await rig.ask(FORGED)
        (request,) = rig.replicas[0].requests
        assert b"10.1.1" not in request and b"https" not in request and b"secret" not in request
        assert b"x-forwarded-for: 127.0.0.1\r\n" in request and b"x-forwarded-host: chat\r\n" in request
        assert b"x-hop" not in request and b"x-kept: 2\r\n" in request and b"connection" not in request

    activated(test)


def test_what_a_trusted_peer_says_of_those_before_it_is_kept() -> None:
    async def test(rig: Rig) -> None:
        await rig.ask(FORGED)
        (request,) = rig.replicas[0].requests
        assert b"x-forwarded-for: 10.1.1.1, 127.0.0.1\r\n" in request and b"x-forwarded-proto: https\r\n" in request
        assert b"10.1.1.2" not in request and b"10.1.1.3" not in request

    activated(test, limits=Limits(trusted=LOOPBACK))


def test_an_answer_that_is_no_http_is_a_bad_gateway() -> None:
    async def test(rig: Rig) -> None:
        for _ in range(4):
            assert (await rig.ask(ASK)).startswith(b"HTTP/1.1 502 Bad Gateway")
        assert (await rig.ask(ASK)).endswith(b"\r\n\r\nok")
        assert rig.counts.codes == {502: 4, 200: 1} and rig.lanes.running == 0

    activated(
        test,
        [
            b"SSH-2.0-x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
            None,
        ],
    )


def test_an_answer_that_is_cut_is_cut_for_the_client_too() -> None:
    async def test(rig: Rig) -> None:
        async with rig.talk() as talk:
            talk.send(ASK)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await talk.answer()
        assert rig.counts.codes == {502: 1}

    async def cut(_: object, __: object, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
        await writer.drain()
        writer.close()

    activated(test, [cut])


def test_what_follows_an_answer_unasked_is_not_given_to_the_next_client() -> None:
    async def test(rig: Rig) -> None:
        assert (await rig.ask(ASK)).endswith(b"\r\n\r\nok")
        assert (await rig.ask(ASK)).endswith(b"\r\n\r\nclean")
        assert rig.replicas[0].connections == 2

    activated(
        test,
        [
            OK + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray",
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nclean",
        ],
    )


def test_a_port_without_a_service_says_so() -> None:
    async def test(rig: Rig) -> None:
        rig.directory.say()
        await until(lambda: rig.site.gate(1) is None, "the service's end")
        assert (await rig.ask(ASK)).startswith(b"HTTP/1.1 404")

    activated(test)


def test_a_pod_of_another_team_is_refused_also_on_a_connection_that_it_has() -> None:
    async def test(rig: Rig) -> None:
        async with rig.talk() as talk:
            talk.send(ASK)
            assert (await talk.answer()).endswith(b"ok")
            rig.directory.strangers = {"127.0.0.1"}
            talk.send(ASK)
            answer = await talk.rest()
            assert answer.startswith(b"HTTP/1.1 403 ") and b"Ask from a pod of its team" in answer
        assert len(rig.replicas[0].requests) == 1

    activated(test)


NAMES = st.from_regex(rb"[a-z][a-z0-9-]{0,12}", fullmatch=True)
VALUES = st.binary(max_size=30)


@settings(deadline=None)
@given(st.lists(st.tuples(NAMES, VALUES), max_size=8), st.sampled_from([b"GET", b"POST"]), st.booleans())
def test_no_value_begins_another_header_or_request(
    given_headers: list[tuple[bytes, bytes]], method: bytes, is_trusted: bool
) -> None:
    headers = [(b"host", b"chat"), *given_headers]
    try:
        head = heads.read(method, b"/", "1.1", headers, True)
    except BadRequestError as error:
        assert 400 <= error.status < 600
        return
    out = heads.request(head, -1, "10.0.0.1", is_trusted)
    lines = out.split(b"\r\n")
    assert lines[0] == method + b" / HTTP/1.1" and lines[-2:] == [b"", b""] and b"" not in lines[:-2]
    names = [line.partition(b":")[0] for line in lines[1:-2]]
    assert all(name in {b"via", *heads.FORWARDED, *(one for one, _ in headers)} for name in names)
    assert names.count(b"x-forwarded-for") == 1 and b"\r" not in b"".join(lines) and b"\n" not in b"".join(lines)
