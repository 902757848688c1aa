"""The stream: one look a second for all, no data in a message, an end when the server stops."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from django.test import AsyncClient, Client

from controlplane.models import ClusterState, Event, Membership, Session, Team, User
from controlplane.queries.accounts import viewers
from controlplane.queries.reports import dashboard
from frontend import live
from tests.frontend.factory import NOW, World

HELLO = "retry: 2000\nevent: beat\ndata: 15.0\n\n"


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    yield live.STOP
    live.STOP.clear()


def test_versions_change_with_what_they_stand_for(bare: World) -> None:
    before = dashboard.versions()
    ClusterState.objects.update(now=NOW + 5)
    Event.objects.create(at="2026-01-01T00:00:00Z", cluster_at=NOW, actor="mel", kind="Submitted")
    after = dashboard.versions()
    assert {part for part in after if after[part] != before[part]} == {"clock", "workloads"}


def test_a_message_names_parts_and_carries_no_data() -> None:
    text = live.message(["workloads"], {"clock": (NOW, False, 60.0), "workloads": 7, "usage": 1})
    assert text.startswith("event: change\ndata: ")
    assert json.loads(text.split("data: ")[1]) == {"parts": ["workloads"], "now": NOW, "paused": False, "speed": 60.0}


@pytest.mark.django_db(transaction=True)
def test_the_stream_is_for_people_who_signed_in() -> None:
    async def ask() -> int:
        return (await AsyncClient().get("/stream")).status_code

    assert asyncio.run(ask()) == 401


@pytest.mark.django_db(transaction=True)
def test_two_streams_share_one_watcher_and_end_when_the_server_stops(stop: threading.Event) -> None:
    ClusterState.objects.create(now=NOW)

    async def watch() -> tuple[int, list[str]]:
        first, second = live.stream(), live.stream()
        told = [await anext(first), await anext(second)]
        told.append(await asyncio.wait_for(anext(first), 20))
        told.append(await asyncio.wait_for(anext(second), 20))
        watchers = sum(t.name == "live" for t in threading.enumerate())
        stop.set()
        for one in (first, second):
            async for _ in one:
                pass
        return watchers, told

    watchers, told = asyncio.run(watch())
    assert watchers == 1
    assert told[:2] == [HELLO] * 2
    assert all(text.startswith("event: change") for text in told[2:])
    assert not live.WATCH.listeners


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("end", ["session", "account", "role"])
def test_a_stream_ends_within_five_seconds_of_what_let_its_viewer_watch(end: str) -> None:
    ClusterState.objects.create(now=NOW)
    mel, vic = (User.objects.create(username=name) for name in ("mel", "vic"))
    membership = Membership.objects.create(user=mel, team=Team.objects.create(name="nlp"), role="member")

    def visitor(user: User) -> viewers.Viewer:
        client = Client()
        client.force_login(user)
        return viewers.viewer(SimpleNamespace(user=user, session=client.session))

    first, other = visitor(mel), visitor(vic)
    ways = {
        "session": lambda: Session.objects.filter(pk=first.session).delete(),
        "account": lambda: User.objects.filter(pk=mel.pk).update(is_active=False),
        "role": membership.delete,
    }

    async def watch() -> float:
        mine, another = live.stream(first), live.stream(other)
        assert await anext(mine) == await anext(another) == HELLO
        await asyncio.wait_for(anext(mine), 20)
        await asyncio.to_thread(ways[end])
        began = time.monotonic()
        async for _ in mine:
            pass
        seconds = time.monotonic() - began
        assert live.WATCH.listeners  # the other one still watches
        await another.aclose()
        return seconds

    assert asyncio.run(watch()) < 5


@pytest.mark.django_db(transaction=True)
def test_the_watcher_ends_when_nobody_listens(stop: threading.Event) -> None:
    async def look_and_go() -> threading.Thread | None:
        one = live.stream()
        await anext(one)
        thread = live.WATCH.thread
        await one.aclose()
        return thread

    thread = asyncio.run(look_and_go())
    assert thread is not None
    thread.join(20)
    assert not thread.is_alive()
