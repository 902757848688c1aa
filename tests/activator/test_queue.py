"""Requests that wait: while a service wakes, while its replicas are busy, and what becomes of those that cannot."""

import asyncio

from autoscaler.lanes import Bounds
from controlplane.activator.client import HEAD_SECONDS
from controlplane.activator.site import Limits
from tests.activator.rig import ASK, OK, Answer, Replica, Rig, activated, until

go = b"POST /%d HTTP/1.1\r\nHost: chat\r\nContent-Length: 0\r\n\r\n"


class Doors:
    """Answers that wait until the test opens the door."""

    def __init__(self) -> None:
        self.door = asyncio.Event()

    async def __call__(self, _: Replica, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.door.wait()
        writer.write(OK)


def test_a_request_is_held_while_the_service_wakes() -> None:
    async def test(rig: Rig) -> None:
        replicas = rig.service.replicas
        rig.say(replicas=())
        async with rig.talk() as talk:
            talk.send(ASK)
            await until(lambda: rig.lanes.waiting == 1, "it waits")
            assert rig.site.signal()["workloads"]["u-1"] == {"waiting": 1, "rate": 0.2, "running": 0, "ready": 0}
            rig.say(replicas=replicas)
            assert (await talk.answer()).endswith(b"ok")

    activated(test)


def test_beyond_the_bound_it_is_told_when_to_come_again() -> None:
    async def test(rig: Rig) -> None:
        rig.say(replicas=())
        async with rig.talk() as first, rig.talk() as second:
            first.send(ASK)
            await until(lambda: rig.lanes.waiting == 1, "one waits")
            for _ in range(2):
                second.send(ASK)
                answer = await second.answer()
                assert answer.startswith(b"HTTP/1.1 503 ") and b"retry-after: " in answer and b"Try again" in answer
        await until(lambda: rig.lanes.waiting == 0, "the first leaves")
        assert rig.counts.refused == 2 and rig.counts.codes == {503: 2, 499: 1} and rig.counts.arrivals == 3

    activated(test, bounds=Bounds(1, 1.0, 1, 60.0))


def test_what_waits_for_too_long_is_given_up() -> None:
    async def test(rig: Rig) -> None:
        rig.say(replicas=())
        async with rig.talk() as talk:
            talk.send(ASK)
            await until(lambda: rig.lanes.waiting == 1, "it waits")
            rig.site.tick()
            assert rig.lanes.waiting == 1
            await until(lambda: rig.site.tick() or rig.lanes.waiting == 0, "it is given up")
            assert (await talk.answer()).startswith(b"HTTP/1.1 503 ")

    activated(test, bounds=Bounds(1, 1.0, 5, 0.2))


def test_no_replica_gets_more_than_its_slots_and_the_signal_says_who_waits() -> None:
    doors = Doors()

    async def test(rig: Rig) -> None:
        talks = [await rig.connect() for _ in range(6)]
        for talk in talks:
            talk.send(ASK)
        await until(lambda: (rig.lanes.running, rig.lanes.waiting) == (4, 2), "four run, two wait")
        await until(lambda: [replica.open for replica in rig.replicas] == [2, 2], "each replica has its two")
        assert rig.lanes.widest == 2
        doors.door.set()
        for talk in talks:
            assert (await talk.answer()).endswith(b"ok")
            talk.writer.close()

    script: list[Answer] = [doors] * 6
    activated(test, script, script, bounds=Bounds(2, 1.0, 10, 60.0))


def test_a_replica_that_is_gone_costs_no_request() -> None:
    async def test(rig: Rig) -> None:
        dead = rig.replicas[0].server
        assert dead is not None
        dead.close()
        for _ in range(4):
            assert (await rig.ask(ASK)).endswith(b"ok")
        assert rig.counts.codes == {200: 4}

    activated(test, [], [])


def test_a_replica_that_does_not_listen_yet_is_waited_for_and_not_for_ever() -> None:
    async def test(rig: Rig) -> None:
        listening = rig.replicas[0].server
        assert listening is not None
        listening.close()
        async with rig.talk() as talk:
            talk.send(ASK)
            await until(lambda: rig.counts.arrivals == 1 and rig.lanes.running == 0, "it was tried, and waits")
            assert rig.lanes.waiting == 1
            rig.replicas[0].server = await asyncio.start_server(
                rig.replicas[0].handle, "127.0.0.1", rig.replicas[0].port
            )
            assert (await talk.answer()).endswith(b"ok")
            rig.replicas[0].server.close()
        await until(lambda: rig.site.tick() or rig.replicas[0].open == 0, "the kept connection's end")
        rig.say(bounds=Bounds(1, 1.0, 5, 0.1))
        async with rig.talk() as talk:
            talk.send(ASK)
            await until(lambda: rig.site.tick() or rig.counts.refused, "it is given up")
            assert (await talk.answer()).startswith(b"HTTP/1.1 503 ")

    activated(test)


def test_a_kept_connection_that_the_replica_closed_costs_no_request_that_may_be_sent_again() -> None:
    async def test(rig: Rig) -> None:
        async with rig.talk() as talk:
            talk.send(ASK)
            await talk.answer()
            talk.send(ASK)
            assert (await talk.answer()).endswith(b"ok")
            talk.send(go % 1)
            await talk.answer()
            talk.send(go % 2)
            assert (await talk.answer()).startswith(b"HTTP/1.1 502")  # it may have been done
        assert [one.split(b" ")[1] for one in rig.replicas[0].requests] == [b"/v1", b"/v1", b"/v1", b"/1", b"/2"]

    activated(test, [OK, None, OK, OK, None])


def test_a_slow_head_and_a_slow_body_take_no_slot_and_are_ended() -> None:
    async def test(rig: Rig) -> None:
        async with rig.talk() as head, rig.talk() as body:
            head.send(ASK[:20])
            body.send(b"POST / HTTP/1.1\r\nHost: chat\r\nContent-Length: 10\r\n\r\nabc")
            await until(lambda: len(rig.site.clients) == 2, "both are there")
            await until(lambda: all(client.is_busy for client in rig.site.clients), "both have begun")
            assert rig.lanes.waiting == rig.lanes.running == 0
            for client in tuple(rig.site.clients):
                client.tick(rig.site.loop.time() + HEAD_SECONDS + 25)
            assert (await head.rest()).startswith(b"HTTP/1.1 408 ")
            assert (await body.rest()).startswith(b"HTTP/1.1 408 ")
        assert rig.counts.arrivals == 0

    activated(test)


def test_a_direct_service_is_served_and_its_clients_are_sent_away() -> None:
    async def test(rig: Rig) -> None:
        async with rig.talk() as talk, rig.talk() as idle:
            talk.send(ASK)
            assert b"connection: close" not in await talk.answer()
            rig.say(is_direct=True)
            talk.send(ASK)
            assert b"connection: close" in await talk.rest()
            rig.site.tick()
            assert await idle.rest() == b""
        # What it does not see is not told as nothing: that would look like a service without load.
        assert list(rig.site.counted()) == []
        assert (rig.site.signal()["workloads"], rig.site.signal()["leaving"]) == ({}, {"u-1": 0.4})

    activated(test)


def test_more_clients_than_may_be_are_told() -> None:
    async def test(rig: Rig) -> None:
        async with rig.talk() as first, rig.talk() as second:
            first.send(ASK)
            await first.answer()
            assert (await second.rest()).startswith(b"HTTP/1.1 503 ")

    activated(test, limits=Limits(connections=1))
