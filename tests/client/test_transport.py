"""Requests that fail: what is sent again, what is not, and what is said."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from tests.client.scripted import Answer, Scripted, problem, workload
from weft.client import Client
from weft.errors import Conflict, NotFound, NotReachable, NotSignedIn, Outdated, WeftError
from weft.transport import Retries, Transport, normalise_url

QUICK = Retries(first=0.01, most=0.02)
UID = workload()["uid"]
JOB = {"type": "training", "name": "hello", "team": "nlp"}


@pytest.fixture
def client(server: Scripted) -> Iterator[Client]:
    with Client(server.url, "weft_secret", timeout=5, retries=QUICK) as opened:
        yield opened


def test_a_read_is_repeated_while_the_server_is_not_ready(server: Scripted, client: Client) -> None:
    server.on("GET", "/me", *[problem(status, "Unavailable") for status in (502, 503, 504)], {"username": "mel"})
    assert client.whoami().username == "mel"
    assert len(server.requests) == 4


@pytest.mark.parametrize("fault", ["drop", "cut"])
def test_a_read_is_repeated_when_the_answer_breaks_off(server: Scripted, client: Client, fault: str) -> None:
    server.on("GET", "/me", Answer({"username": "mel"}, fault=fault), {"username": "mel"})
    assert client.whoami().username == "mel"
    assert len(server.requests) == 2


def test_retry_after_is_obeyed(server: Scripted, client: Client) -> None:
    server.on("GET", "/me", problem(429, "TooManyRequests", Retry_After="1"), {"username": "mel"})
    began = time.monotonic()
    assert client.whoami().username == "mel"
    assert time.monotonic() - began >= 1.0


def test_retry_after_may_be_a_date(server: Scripted, client: Client) -> None:
    when = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    server.on("GET", "/me", problem(503, "Unavailable", Retry_After=when))
    with pytest.raises(WeftError) as caught:
        client.whoami()
    assert caught.value.retry_after is not None
    assert 3500 < caught.value.retry_after <= 3600


def test_a_long_retry_after_is_told_and_not_waited_for(server: Scripted, client: Client) -> None:
    server.on("GET", "/me", problem(429, "TooManyRequests", Retry_After="3600"))
    with pytest.raises(WeftError) as caught:
        client.whoami()
    assert (caught.value.status, caught.value.retry_after, len(server.requests)) == (429, 3600.0, 1)


def test_repeating_ends(server: Scripted, client: Client) -> None:
    server.on("GET", "/me", problem(503, "Unavailable"))
    with pytest.raises(WeftError) as caught:
        client.whoami()
    assert caught.value.status == 503
    assert len(server.requests) == QUICK.tries


def test_a_submission_is_repeated_with_the_same_key(server: Scripted, client: Client) -> None:
    server.on("POST", "/workloads", Answer(fault="drop"), problem(503, "Unavailable"), Answer(workload(), 201))
    assert client.submit(JOB).name == "hello"
    keys = [one.headers["idempotency-key"] for one in server.requests]
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_two_submissions_have_two_keys(server: Scripted, client: Client) -> None:
    server.on("POST", "/workloads", Answer(workload(), 201))
    client.submit(JOB)
    client.submit(JOB)
    first, second = (one.headers["idempotency-key"] for one in server.requests)
    assert first != second


def test_a_submission_still_at_work_is_asked_for_again(server: Scripted, client: Client) -> None:
    server.on("POST", "/workloads", problem(409, "InFlight", Retry_After="0"), Answer(workload(), 201))
    assert client.submit(JOB).name == "hello"


def test_a_name_in_use_is_not_asked_for_again(server: Scripted, client: Client) -> None:
    server.on("POST", "/workloads", problem(409, "NameTaken", ("name", "hello is in use. Choose another name.")))
    with pytest.raises(Conflict):
        client.submit(JOB)
    assert len(server.requests) == 1


def test_a_login_is_never_repeated(server: Scripted, client: Client) -> None:
    server.on("POST", "/login", Answer(fault="drop"))
    with pytest.raises(NotReachable):
        client.login("mel", "secret")
    assert len(server.requests) == 1


def test_a_refusal_carries_all_that_the_server_said(server: Scripted, client: Client) -> None:
    faults = [("workers.min", "workers.min is 9 but workers.max is 8."), ("image", "image is missing.")]
    server.on("POST", "/workloads", problem(400, "Invalid", *faults))
    with pytest.raises(WeftError) as caught:
        client.submit(JOB)
    error = caught.value
    assert (error.status, error.title, error.code) == (400, "No", "Invalid")
    assert [(one.field, one.message) for one in error.errors] == faults


@pytest.mark.parametrize(("status", "kind"), [(401, NotSignedIn), (404, NotFound), (409, Conflict), (412, Outdated)])
def test_common_refusals_have_exceptions_of_their_own(
    server: Scripted, client: Client, status: int, kind: type[WeftError]
) -> None:
    server.on("GET", f"/workloads/{UID}", problem(status, "No"))
    with pytest.raises(kind):
        client.read(UID)


def test_a_page_that_is_no_api_is_named(server: Scripted, client: Client) -> None:
    server.on("GET", "/me", Answer(b"<html>Welcome</html>", headers={"Content-Type": "text/html"}))
    with pytest.raises(WeftError, match="text/html, which is not JSON. Is it a Weft server"):
        client.whoami()


def test_an_error_page_of_a_proxy_is_told_by_its_status(server: Scripted, client: Client) -> None:
    server.on("GET", "/me", Answer(b"<html>no</html>", 500, {"Content-Type": "text/html"}))
    with pytest.raises(WeftError, match="answered 500 Internal Server Error"):
        client.whoami()


@pytest.mark.parametrize("body", [[], "text", 7, None])
def test_an_answer_of_the_wrong_shape_is_an_error(server: Scripted, client: Client, body: object) -> None:
    server.on("GET", "/me", Answer(body))
    with pytest.raises(WeftError, match="where a Me was expected"):
        client.whoami()


def test_a_redirect_is_told_and_the_token_stays(server: Scripted, client: Client) -> None:
    other = Scripted()
    server.on("GET", "/me", Answer({}, 308, {"Location": f"{other.url}/api/v1/me"}))
    with pytest.raises(WeftError, match="redirects to"):
        client.whoami()
    assert other.requests == []
    other.close()


def test_a_server_that_hangs_is_given_up(server: Scripted) -> None:
    server.on("GET", "/me", Answer(fault="hang"))
    with Client(server.url, timeout=0.2, retries=Retries(tries=2, first=0.01)) as client:  # noqa: SIM117
        with pytest.raises(NotReachable, match="did not respond in time"):
            client.whoami()
    assert len(server.requests) == 2


def test_a_server_that_is_down_is_told_with_its_address() -> None:
    gone = Scripted()
    gone.close()
    with Client(gone.url, retries=QUICK) as client, pytest.raises(NotReachable) as caught:
        client.whoami()
    assert str(caught.value).startswith(f"No server responds at {gone.url}")


@pytest.mark.parametrize(
    "url", ["", "weft.example", "ftp://weft.example", "https://", "https://a:b@c", "https://a/?x=1", "https://a:99999"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(WeftError):
        normalise_url(url)


def test_an_address_may_end_in_a_slash_or_the_apis_path() -> None:
    assert normalise_url("https://weft.example/") == normalise_url("https://weft.example/api/v1/")
    assert normalise_url("https://a.example/weft") == "https://a.example/weft"


@pytest.mark.parametrize("token", ["weft_a\nX-Admin: 1", "weft_ä", "two words"])
def test_a_token_with_odd_characters_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(WeftError) as caught:
        Transport("https://weft.example", token)
    assert token not in str(caught.value)
