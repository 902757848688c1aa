"""One try to deliver, against receivers that answer well, badly, slowly, too much or not at all."""

import json
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.outgoing.https import Outcome, Sender
from controlplane.outgoing.target import Policy
from tests.receivers import NETWORK, Receiver, receiver

SECONDS = 1.5  # instead of 5, so that the tests of slow receivers are quick


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    with receiver(tmp_path_factory.mktemp("receiver")) as one:
        yield one


def tls(ca: Path) -> ssl.SSLContext:
    made = ssl.create_default_context()
    made.load_verify_locations(ca)
    return made


def post(there: Receiver, path: str, seconds: float = SECONDS) -> Outcome:
    there.requests.clear()
    sender = Sender(Policy.of([NETWORK]), tls(there.ca), seconds=seconds)
    return sender.post(there.url(path), b'{"a":1}', {"Weft-Delivery": "7"})


def test_a_request_carries_its_body_and_headers_and_the_answers_status_is_told(there: Receiver) -> None:
    outcome = post(there, "/204?x=1", seconds=5.0)
    assert (outcome.status, outcome.error, outcome.is_success) == (204, "", True)
    [(headers, body)] = there.requests
    assert json.loads(body) == {"a": 1}
    assert headers["Host"] == f"{there.address}:8443"
    assert (headers["Weft-Delivery"], headers["Content-Type"]) == ("7", "application/json")
    assert headers["User-Agent"].startswith("Weft-Webhook/")


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
def test_an_error_is_a_failure_that_is_tried_again(there: Receiver, status: int) -> None:
    outcome = post(there, f"/{status}", seconds=5.0)
    assert (outcome.status, outcome.error, outcome.is_final) == (status, f"Answered {status}", False)


def test_whoever_is_gone_for_good_is_not_tried_again(there: Receiver) -> None:
    assert post(there, "/410", seconds=5.0).is_final


def test_redirects_are_not_followed(there: Receiver) -> None:
    outcome = post(there, "/302", seconds=5.0)
    assert outcome.error == "Answered 302; redirects are not followed. Give the final URL."
    assert len(there.requests) == 1


@pytest.mark.parametrize("path", ["/slow", "/drip"])
def test_whoever_does_not_answer_in_time_is_left(there: Receiver, path: str) -> None:
    began = time.monotonic()
    outcome = post(there, path)
    assert outcome.error == "No answer within 1.5 s"
    assert time.monotonic() - began < SECONDS + 2.0


def test_a_huge_answer_is_not_read(there: Receiver) -> None:
    outcome = post(there, "/huge", seconds=5.0)
    assert outcome.is_success
    assert there.sent < 64 * 1_048_576  # of the gigabyte: what fitted into the system's buffers


def test_a_huge_head_is_cut_off(there: Receiver) -> None:
    outcome = post(there, "/head", seconds=5.0)
    assert outcome.error == "The answer is not HTTP, or its head is too large"


def test_an_answer_that_is_not_http_is_a_failure(there: Receiver) -> None:
    assert post(there, "/nonsense", seconds=5.0).error == "The answer is not HTTP, or its head is too large"


def test_a_certificate_of_nobody_we_know_is_refused(there: Receiver) -> None:
    there.requests.clear()
    outcome = Sender(Policy.of([NETWORK]), ssl.create_default_context()).post(there.url("/ok"), b"{}", {})
    assert outcome.error.startswith("TLS: certificate not valid")
    assert there.requests == []


def test_a_certificate_for_another_name_is_refused(there: Receiver) -> None:
    sender = Sender(Policy.of([NETWORK]), tls(there.ca), resolve=lambda host, port: [there.address])
    assert sender.post("https://hooks.example.test:8443/ok", b"{}", {}).is_success
    assert sender.post("https://other.example.test:8443/ok", b"{}", {}).error.startswith("TLS: certificate not valid")


def test_nobody_listening_is_a_failure_in_one_line() -> None:
    sender = Sender(Policy.of([NETWORK]), ssl.create_default_context())
    assert sender.post("https://127.77.255.254:8443/", b"{}", {}).error == "Connection refused"
