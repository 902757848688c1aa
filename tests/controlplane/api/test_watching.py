"""Long polls and streams of events, over a real server; and the order in which events are told."""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from django.db import connection, transaction

from controlplane.api import feed as hub
from controlplane.cluster.port import PodPhase
from controlplane.models import Event, Membership, Token, Workload
from controlplane.queries.audit import feed
from controlplane.security import atonce
from controlplane.testbed.processes import wait_until
from scheduler.model.mention import mention
from tests.controlplane.api.conftest import Caller, People, body_of, fields_of, job, people
from tests.serving import serving

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def api(transactional_db: None) -> People:
    return people()


@pytest.fixture
def url(api: People) -> Iterator[str]:
    with serving() as address:
        yield f"{address}/api/v1"


def headers(who: Caller, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {who.token}", **more}


def submit(who: Caller, name: str = "hello", **fields: Any) -> Workload:
    return Workload.objects.get(pk=body_of(who.post("/workloads", job(name, **fields)), 201)["uid"])


class Stream:
    """The events of a stream, as they come: (id, name, data)."""

    def __init__(self, answer: httpx.Response) -> None:
        self.lines = answer.iter_lines()

    def next(self) -> tuple[int, str, Any]:
        fields: dict[str, str] = {}
        for line in self.lines:
            if not line and "data" in fields:
                return int(fields["id"]), fields["event"], json.loads(fields["data"])
            name, _, value = line.partition(": ")
            fields[name] = value
        raise EOFError


@contextmanager
def watching(address: str, who: Caller, last: int | None = None) -> Iterator[Stream]:
    resume = {} if last is None else {"Last-Event-ID": str(last)}
    with httpx.stream("GET", address, headers=headers(who, **resume), timeout=20, trust_env=False) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"] == "text/event-stream"
        yield Stream(answer)


# --- long polls -------------------------------------------------------------------------------


def test_a_long_poll_answers_when_the_workload_ends_and_not_before(api: People, url: str) -> None:
    workload = submit(api.member)
    with ThreadPoolExecutor(1) as pool:
        poll = pool.submit(
            httpx.get, f"{url}/workloads/{workload.pk}?wait_for=terminal&timeout=60",
            headers=headers(api.viewer), timeout=60, trust_env=False,
        )  # fmt: skip
        wait_until(lambda: hub.FEED.inboxes, "the wait", 20)
        api.world.run(workload, "a")  # an event that is not the end
        api.world.pods(workload, PodPhase.SUCCEEDED, exit_code=0)
        answer = poll.result(20)
    assert (answer.status_code, answer.json()["phase"]) == (200, "Succeeded")
    assert answer.headers["etag"] == f'"{answer.json()["version"]}"'
    assert answer.headers["content-type"] == "application/json"
    wait_until(lambda: not hub.FEED.inboxes, "the end of the wait", 20)


def test_a_long_poll_answers_at_once_or_when_its_time_is_up(api: People, url: str) -> None:
    workload = submit(api.member)
    at = f"{url}/workloads/{workload.pk}"
    began = time.monotonic()
    answer = httpx.get(f"{at}?wait_for=running&timeout=1", headers=headers(api.viewer), trust_env=False)
    assert (answer.status_code, answer.json()["phase"]) == (200, "Queued")
    assert time.monotonic() - began >= 1
    api.member.post(f"/workloads/{workload.pk}/stop")
    began = time.monotonic()
    answer = httpx.get(f"{at}?wait_for=running&timeout=60", headers=headers(api.viewer), timeout=60, trust_env=False)
    assert answer.json()["phase"] == "Stopped"
    assert time.monotonic() - began < 20


def test_an_answer_that_comes_later_is_without_other_teams_names(api: People, url: str) -> None:
    """It is filled in when the middleware that puts names in has seen it already."""
    mine, other = submit(api.member), submit(api.blue_member, "caerulea", team="blue")
    Workload.objects.filter(pk=mine.pk).update(message=f"Makes room for {mention(str(other.pk))}.")
    at = f"{url}/workloads/{mine.pk}?wait_for=running&timeout=0"
    told = [httpx.get(at, headers=headers(who), trust_env=False).json() for who in (api.viewer, api.platform)]
    assert [one["message"] for one in told] == ["Makes room for another workload.", "Makes room for blue/caerulea."]


def test_waits_hold_no_thread_of_the_server_and_are_bounded_for_each_user(api: People, url: str) -> None:
    workload = submit(api.member)
    at = f"{url}/workloads/{workload.pk}?wait_for=terminal&timeout=60"
    with ThreadPoolExecutor(hub.MAX_OPEN) as pool, httpx.Client(timeout=60, trust_env=False) as client:
        polls = [pool.submit(httpx.get, at, headers=headers(api.viewer), timeout=60) for _ in range(hub.MAX_OPEN)]
        wait_until(lambda: len(hub.FEED.inboxes) == hub.MAX_OPEN, "all waits", 20)
        refused = client.get(at, headers=headers(api.viewer))
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
        assert "streams open" in refused.json()["detail"]
        assert client.get(f"{url}/me", headers=headers(api.viewer)).status_code == 200  # many more than its threads
        assert client.get(f"{at}&timeout=0".replace("timeout=60&", ""), headers=headers(api.member)).status_code == 200
        api.member.post(f"/workloads/{workload.pk}/stop")
        assert {poll.result(20).json()["phase"] for poll in polls} == {"Stopped"}
    assert not hub.FEED.inboxes
    assert atonce.of_process().own("wait", api.viewer.user.pk) == 0


def test_who_goes_away_waits_no_more(api: People, url: str) -> None:
    workload = submit(api.member)
    at = f"{url}/workloads/{workload.pk}?wait_for=terminal&timeout=60"
    with pytest.raises(httpx.ReadTimeout):
        httpx.get(at, headers=headers(api.viewer), timeout=httpx.Timeout(20, read=1), trust_env=False)
    wait_until(lambda: not hub.FEED.inboxes, "the end of the wait", 20)


def test_without_an_event_loop_a_long_poll_waits_in_its_thread(api: People) -> None:
    workload = submit(api.member)
    began = time.monotonic()
    found = body_of(api.viewer.get(f"/workloads/{workload.pk}?wait_for=terminal&timeout=1"))
    assert found["phase"] == "Queued"
    assert time.monotonic() - began >= 1
    assert not hub.FEED.inboxes
    assert fields_of(api.viewer.get(f"/workloads/{workload.pk}?wait_for=done")) == ["wait_for"]
    assert fields_of(api.viewer.get(f"/workloads/{workload.pk}?wait_for=terminal&timeout=61")) == ["timeout"]


# --- streams ----------------------------------------------------------------------------------


def test_a_workload_is_watched_to_its_end_and_a_broken_stream_goes_on(api: People, url: str) -> None:
    workload = submit(api.member)
    at = f"{url}/workloads/{workload.pk}/watch"
    with watching(at, api.viewer) as stream:
        _, name, state = stream.next()
        assert (name, state["phase"], state["uid"]) == ("state", "Queued", str(workload.pk))
        api.world.place(workload, "a")
        last, name, event = stream.next()
        assert (name, event["kind"], event["id"]) == ("event", "Admitted", last)
    api.world.actuate()
    api.world.pods(workload, PodPhase.RUNNING)
    told = []
    with watching(at, api.viewer, last) as stream:
        told.append(stream.next()[2]["kind"])
        api.world.pods(workload, PodPhase.SUCCEEDED, exit_code=0)
        with pytest.raises(EOFError):
            while True:
                told.append(stream.next()[2]["kind"])
    every = list(Event.objects.filter(workload=workload.pk).order_by("id").values_list("kind", flat=True))
    assert told == every[every.index("Admitted") + 1 :]
    assert told[-1] == "Succeeded"
    newest = Event.objects.latest("id").pk
    over = httpx.get(at, headers=headers(api.viewer, **{"Last-Event-ID": str(newest)}), trust_env=False)
    assert over.status_code == 204


def test_all_workloads_are_watched_within_ones_teams(api: People, url: str) -> None:
    with watching(f"{url}/workloads/watch", api.viewer) as stream:
        start, name, data = stream.next()
        assert (name, data) == ("begin", {"last_event_id": start})
        api.world.submit("secret", team="blue")
        mine = submit(api.member)
        assert stream.next()[2]["workload"] == str(mine.pk)
    api.world.submit("secret-2", team="blue")
    second = submit(api.member, "second")
    with watching(f"{url}/workloads/watch", api.viewer, start) as stream:
        assert [stream.next()[2]["workload"] for _ in range(2)] == [str(mine.pk), str(second.pk)]
    refused = httpx.get(f"{url}/workloads/watch?team=blue", headers=headers(api.viewer), trust_env=False)
    assert refused.status_code == 404


def test_a_gap_is_told_with_the_way_to_go_on(api: People) -> None:
    submit(api.member)
    newest = Event.objects.latest("id").pk
    for last, status in ((newest + 1, 410), ("abc", 400), (-1, 400), (10**30, 400)):
        answer = api.viewer.get("/workloads/watch", last_event_id=str(last))
        assert fields_of(answer, status) == ["Last-Event-ID"], last
    gone = body_of(api.viewer.get("/workloads/watch", last_event_id=str(newest + 1)), 410)
    assert gone["code"] == "EventsGone"
    assert "without Last-Event-ID" in gone["detail"]


def test_one_who_is_too_far_behind_reads_anew(api: People) -> None:
    first = Event.objects.order_by("id").first()
    assert first is not None
    workload = submit(api.member)
    more = [
        Event(at=first.at, cluster_at=0, actor="a", kind="K", team="red", workload=workload.pk)
        for _ in range(feed.MAX_BEHIND)
    ]
    Event.objects.bulk_create(more)
    api.viewer.get("/workloads/watch", last_event_id=str(Event.objects.latest("id").pk - 10))
    answer = api.viewer.get("/workloads/watch", last_event_id=str(first.pk))
    assert fields_of(answer, 410) == ["Last-Event-ID"]
    assert not hub.FEED.inboxes


def test_a_new_reader_begins_at_the_newest_event_whatever_was_rolled_back_before(transactional_db: None) -> None:
    for _ in range(3):
        note("kept")
        with transaction.atomic():
            note("undone")
            transaction.set_rollback(True)
    last = note("newest")
    assert feed.Reader().last == last


@pytest.mark.parametrize("ended", ["token", "account", "role"])
def test_a_stream_ends_within_five_seconds_of_the_rights(api: People, url: str, ended: str) -> None:
    user = api.viewer.user
    assert user is not None
    with watching(f"{url}/workloads/watch", api.viewer) as stream:
        stream.next()
        if ended == "token":
            Token.objects.filter(user=user).delete()
        elif ended == "account":
            type(user).objects.filter(pk=user.pk).update(is_active=False)
        else:
            Membership.objects.filter(user=user).delete()
        began = time.monotonic()
        with pytest.raises(EOFError):
            stream.next()
        assert time.monotonic() - began < 5


def test_without_an_event_loop_a_stream_is_what_there_is_so_far(api: People) -> None:
    workload = submit(api.member)
    answer = api.viewer.get(f"/workloads/{workload.pk}/watch")
    text = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]
    assert text.startswith("retry: 1000\n\nid: ")
    assert "event: state\n" in text
    assert not hub.FEED.inboxes


# --- the order --------------------------------------------------------------------------------


def note(kind: str) -> int:
    return int(Event.objects.create(at="2026-01-01T00:00:00Z", cluster_at=0, actor="a", kind=kind).pk)


def test_a_reader_tells_every_event_once_and_in_order(transactional_db: None) -> None:
    note("before")
    reader = feed.Reader()
    assert reader.read() == []
    numbers = [note("one"), note("two")]
    assert [event.pk for event in reader.read()] == numbers
    assert reader.read() == []


def test_a_lower_number_that_is_committed_later_is_told_first(transactional_db: None) -> None:
    note("before")
    reader = feed.Reader()
    written, may_commit = threading.Event(), threading.Event()
    numbers: list[int] = []

    def slow() -> None:
        try:
            with transaction.atomic():
                numbers.append(note("slow"))
                written.set()
                assert may_commit.wait(20)
        finally:
            connection.close()

    thread = threading.Thread(target=slow)
    thread.start()
    assert written.wait(20)
    if connection.vendor == "postgresql":  # SQLite has one writer at a time
        numbers.append(note("quick"))
        assert numbers[0] < numbers[1]
        told = [*reader.read(), *reader.read()]  # the hole may be filled yet
        begun = feed.Reader().last
    may_commit.set()
    thread.join(20)
    if connection.vendor == "postgresql":
        assert (told, begun) == ([], numbers[0] - 1)
    else:
        numbers.append(note("quick"))
    assert [event.pk for event in reader.read()] == numbers


def test_a_number_that_was_rolled_back_holds_nobody_up(transactional_db: None) -> None:
    note("before")
    reader = feed.Reader()
    with transaction.atomic():
        note("undone")
        transaction.set_rollback(True)
    after = note("after")
    told: list[int] = []
    wait_until(lambda: told.extend(event.pk for event in reader.read()) or told, "the event", 20)
    assert told == [after]
