"""Budgets: who asks too often is sent away and told for how long, the others are not; Redis only joins the counts."""

import itertools
from typing import Any

import pytest
import redis
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.api.views import health
from controlplane.models import SignInFailures, Workload
from controlplane.security import limits
from controlplane.security.atonce import AtOnce
from controlplane.security.limits import WINDOW, Budget, Limits
from controlplane.security.network import network_of
from controlplane.services.accounts import logins
from controlplane.services.errors import Refused
from tests.controlplane.api.conftest import Caller, People, api, body_of, fields_of, job  # noqa: F401
from tests.servers import wait_until

TEN = Budget("test", 1.0)  # ten in a window


def taken(of: Limits, key: str, count: int, now: float = 0.0) -> list[int]:
    return [of.take(TEN, key, now=now) for _ in range(count)]


def test_a_budget_ends_and_comes_again_with_the_next_window() -> None:
    of = Limits()
    assert taken(of, "a", 11, now=3.0) == [0] * 10 + [WINDOW - 3 + 1]
    assert taken(of, "b", 1, now=3.0) == [0]
    assert taken(of, "a", 1, now=WINDOW + 0.1) == [0]


def test_what_is_refused_takes_nothing() -> None:
    of = Limits()
    assert of.take(TEN, "a", 11, now=0.0) > 0
    assert of.take(TEN, "a", 10, now=0.0) == 0


def test_processes_share_a_budget_by_redis(redis_url: str) -> None:
    one, two = Limits(), Limits()
    with redis.Redis.from_url(redis_url) as server:
        taken(one, "a", 6)
        taken(two, "a", 3)
        for of in (one, two, one):
            of.sync(server)
        assert taken(one, "a", 2) == [0, WINDOW + 1]
        one.sync(server)
        one.sync(server)  # nothing new: nothing is counted twice
        taken(two, "a", 1)  # what the first took since is not known here yet
        two.sync(server)
        assert taken(two, "a", 1) == [WINDOW + 1]


def test_without_redis_each_process_counts_by_itself() -> None:
    of = Limits("redis://127.0.0.1:1/0")
    try:
        assert taken(of, "a", 11) == [0] * 10 + [WINDOW + 1]
    finally:
        of.stop()


def test_no_more_are_open_at_once_than_allowed() -> None:
    open_ = AtOnce()
    assert [open_.enter("dear", who, 2) for who in "aaab"] == [True, True, False, True]
    open_.leave("dear", "a")
    assert open_.enter("dear", "a", 2)
    assert open_.enter("stream", "a", 2)


def test_what_is_open_is_counted_over_all_processes(redis_url: str) -> None:
    one, two = AtOnce(redis_url), AtOnce(redis_url)
    try:
        assert [of.enter("stream", "a", 3) for of in (one, two, one, two)] == [True, True, True, False]
        assert two.enter("stream", "b", 3)
        one.leave("stream", "a")
        wait_until(lambda: two.enter("stream", "a", 3), "the place that the other gave back", 10)
        assert not one.enter("stream", "a", 3)
    finally:
        one.stop()
        two.stop()


def test_one_after_the_other_is_one_at_once(redis_url: str) -> None:
    """Redis is told of what is closed a little later; meanwhile it does not count against its caller."""
    of = AtOnce(redis_url)
    try:
        for _ in range(200):
            assert of.enter("dear", "a", 1)
            of.leave("dear", "a")
        wait_until(lambda: not of._untold, "that Redis is told of all", 10)
    finally:
        of.stop()


def test_what_a_killed_process_had_open_is_forgotten_and_what_is_open_is_not(redis_url: str) -> None:
    killed, alive, other = AtOnce(redis_url), AtOnce(redis_url), AtOnce(redis_url)
    try:
        assert killed.enter("stream", "a", 2)
        assert alive.enter("stream", "a", 2)
        with redis.Redis.from_url(redis_url) as server:
            (key,) = server.keys("weft:open:*")
            server.zadd(key, dict.fromkeys(server.zrange(key, 0, -1), 1.0))  # as if LIFE had passed
        alive.beat()
        assert [other.enter("stream", "a", 2), other.enter("stream", "a", 2)] == [True, False]
    finally:
        for of in (killed, alive, other):
            of.stop()


def test_without_redis_each_process_has_its_own_number_open() -> None:
    of = AtOnce("redis://127.0.0.1:1/0")
    try:
        assert [of.enter("stream", "a", 2) for _ in range(3)] == [True, True, False]
    finally:
        of.stop()


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("2001:db8:1:2:aaaa::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("192.0.2.7", "192.0.2.7"),
        ("", ""),
        ("no address", "no address"),
    ],
)
def test_addresses_of_one_network_of_ipv6_count_as_one(address: str, counted: str) -> None:
    assert network_of(address) == counted


# --- as requests meet it ----------------------------------------------------------------------


@pytest.fixture
def narrow(settings: Any) -> Any:
    """Few requests in a window for each, one that does not end; middleware is made anew by the next client."""
    few = {"user": 0.5, "address": 100, "anonymous": 0.2, "expensive": 0.3, "submissions": 0.2}
    settings.RATE_LIMITS = {**settings.RATE_LIMITS, **few}
    limits.of_process().forget(clock=lambda: 0.0)
    return settings


def fresh(who: Caller) -> Caller:
    return Caller(who.token, who.user, Client())


def test_a_token_that_asks_too_often_is_told_when_to_come_again_and_others_are_not(api: People, narrow: Any) -> None:  # noqa: F811
    greedy, other = fresh(api.member), fresh(api.viewer)
    answers = [greedy.get("/me") for _ in range(50 * 5)]
    assert [answer.status_code for answer in answers[:6]] == [200] * 5 + [429]
    assert {answer.status_code for answer in answers[5:]} == {429}
    assert 1 <= int(answers[5]["Retry-After"]) <= WINDOW + 1
    assert fields_of(answers[5], 429) == [""]
    body_of(other.get("/me"))


def test_a_refusal_costs_no_statement(api: People, narrow: Any, django_assert_num_queries: Any) -> None:  # noqa: F811
    greedy = fresh(api.member)
    for _ in range(5):
        greedy.get("/me")
    with django_assert_num_queries(0):
        fields_of(greedy.get("/me"), 429)


def test_what_is_dear_to_answer_has_a_smaller_budget_of_its_own(api: People, narrow: Any) -> None:  # noqa: F811
    narrow.RATE_LIMITS = {**narrow.RATE_LIMITS, "user": 1.0}
    who = fresh(api.member)
    body_of(who.get("/me"))  # from now on the token pays for itself
    assert [who.get("/usage").status_code for _ in range(4)] == [200, 200, 200, 429]
    body_of(who.get("/me"))


def test_an_address_without_a_token_has_a_smaller_budget_and_a_page_that_says_so(db: None, narrow: Any) -> None:
    nobody = Client()
    assert [nobody.get("/login/").status_code for _ in range(3)] == [200, 200, 429]
    page = nobody.get("/login/")
    assert "Too many requests" in page.content.decode()
    assert page["Retry-After"]
    assert nobody.get("/healthz").status_code == 200


def test_a_token_is_one_however_its_scheme_is_written(api: People, narrow: Any) -> None:  # noqa: F811
    who = fresh(api.member)
    schemes = ("".join(letters) for letters in itertools.product(*zip("bearer", "BEARER", strict=True)))
    asked = [
        who.client.get("/api/v1/me", headers={"Authorization": f"{scheme} {who.token}"}).status_code
        for scheme in schemes
    ]
    assert len(asked) == 64
    assert 429 in asked  # as 64 tokens none of them would be


def test_files_are_counted_as_pages_are(db: None, narrow: Any) -> None:
    narrow.MIDDLEWARE = [one for one in narrow.MIDDLEWARE if "limiting" in one or "whitenoise" in one]
    narrow.WHITENOISE_USE_FINDERS = narrow.WHITENOISE_AUTOREFRESH = True
    nobody, path = Client(), "/static/frontend/logo.svg"
    assert [nobody.get(path).status_code for _ in range(3)] == [200, 200, 429]


def test_asking_without_end_whether_all_works_costs_few_statements(transactional_db: None) -> None:
    health._found.clear()
    nobody = Client()
    with CaptureQueriesContext(connection) as made:
        assert {nobody.get("/readyz?exclude=loops").status_code for _ in range(200)} == {200}
    assert len(made) < 100  # ten a second, and a machine may be slow


def test_many_addresses_of_one_network_of_ipv6_are_one_caller(db: None, narrow: Any) -> None:
    asked = Client()  # the middleware's counters are one client's
    statuses = [asked.get("/login/", REMOTE_ADDR=f"2001:db8::{n:x}").status_code for n in range(1, 5)]
    assert statuses == [200, 200, 429, 429]
    assert asked.get("/login/", REMOTE_ADDR="2001:db8:0:1::1").status_code == 200
    key, until = logins._key("address", network_of("2001:db8:0:2::9")), timezone.now() + logins.WINDOW
    SignInFailures.objects.create(key=key, count=logins.MAX_OF_ADDRESS - 2, until=until)
    for n, expected in enumerate((Refused, Refused, logins.TooMany)):
        with pytest.raises(expected):
            logins.check(username=f"user-{n}", password="wrong", address=f"2001:db8:0:2::{n + 1:x}")


def test_a_team_submits_no_faster_than_its_budget(api: People, narrow: Any) -> None:  # noqa: F811
    who, other = fresh(api.member), fresh(api.blue_member)
    assert [who.post("/workloads", job(f"a{n}")).status_code for n in range(3)] == [201, 201, 429]
    body_of(other.post("/workloads", job(team="blue")), 201)


def test_a_queue_that_is_full_takes_no_more(api: People, settings: Any) -> None:  # noqa: F811
    settings.MAX_QUEUED = 2
    body_of(api.member.post("/workloads:batch", [job("a"), job("b")]), 201)
    answer = api.admin.post("/workloads", job("c"))
    assert fields_of(answer, 429) == ["team"]
    assert answer["Retry-After"] == "60"
    assert Workload.objects.count() == 2
    body_of(api.blue_member.post("/workloads", job(team="blue")), 201)
