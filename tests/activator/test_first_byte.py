"""The time to the first byte of an answer's body, as the activator counts it."""

import asyncio

import pytest

from autoscaler.latency import ANSWER, FIRST_TOKEN
from controlplane.activator.directory import Split
from tests.activator.rig import ASK, OK, Replica, Rig, activated, until

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
FAILED = b"HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\nno"
EMPTY = b"HTTP/1.1 204 Nothing\r\n\r\n"


class Streamed:
    """An answer whose body begins, and whose end comes, when the test says so."""

    def __init__(self) -> None:
        self.begins, self.ends = asyncio.Event(), asyncio.Event()

    async def __call__(self, _: Replica, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        await self.begins.wait()
        writer.write(b"5\r\nfirst\r\n")
        await self.ends.wait()
        writer.write(b"4\r\nlast\r\n0\r\n\r\n")


def counted(one: Rig) -> tuple[int, int]:
    """First bytes, and whole answers."""
    return sum(one.counts.first.cells), sum(one.counts.request.cells)


def test_the_first_byte_is_counted_when_it_comes_and_not_with_the_head_or_the_end() -> None:
    async def test(rig: Rig) -> None:
        answer = Streamed()
        rig.replicas[0].script.append(answer)
        async with rig.talk() as talk:
            talk.send(ASK)
            await talk.read(b"\r\n\r\n")
            assert counted(rig) == (0, 0), "the head alone"
            answer.begins.set()
            await talk.read(b"first\r\n")
            assert counted(rig) == (1, 0)
            answer.ends.set()
            await talk.read(b"0\r\n\r\n")
            assert counted(rig) == (1, 1)
        assert rig.counts.first_served.sum <= rig.counts.first.sum < rig.counts.request.sum

    activated(test)


@pytest.mark.parametrize("answer", [FAILED, EMPTY])
def test_an_answer_that_failed_or_has_no_body_has_no_first_byte(answer: bytes) -> None:
    async def test(rig: Rig) -> None:
        await rig.ask(ASK)
        assert counted(rig) == (0, 1)
        await rig.ask(ASK)
        assert counted(rig) == (1, 2), "the next one is an answer"

    activated(test, [answer, OK])


def test_a_canary_is_judged_by_its_first_bytes_where_these_are_promised() -> None:
    async def test(rig: Rig) -> None:
        loop, (replica,) = asyncio.get_running_loop(), rig.service.replicas
        for of in (ANSWER, FIRST_TOKEN):
            answer = Streamed()
            rig.replicas[0].script.append(answer)
            async with rig.talk() as talk:
                began = loop.time()
                talk.send(ASK)
                answer.begins.set()
                await talk.read(b"first\r\n")
                # What has passed by now is promised: the first byte came within it, and the end does not.
                rig.say(split=Split(2, 100, ((replica, 2),), loop.time() - began, of))
                now = loop.time()
                await until(lambda before=now: loop.time() > before, "the clock's next tick")
                answer.ends.set()
                await talk.read(b"0\r\n\r\n")
        assert dict(rig.counts.revisions) == {(2, "late"): 1, (2, "good"): 1}

    activated(test)
