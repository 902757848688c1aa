"""A plugin of pytest: every REST answer that the tests of the API get, recorded, or compared with what was recorded.

`pytest tests/controlplane/api -p tests.sameness.answers --answers record` twice: an answer that differs between two
runs of the same code says nothing, so its test's answers are left out, and counted. Later `--answers compare`: the same
requests of the same tests get the same answers, but for the words in `words.TABLE`. What a run makes anew (ids, times,
tokens, digests) stands as its kind and its number of appearance in the test.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.handlers.base import BaseHandler
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from tests.sameness import store, words

MADE_ANEW = re.compile(
    r"(?P<uuid>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
    r"|(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\+00:00| UTC)?)"
    r"|(?P<digest>\b[0-9a-f]{32,64}\b)"
    r"|(?P<token>\bweft_[A-Za-z0-9_-]{6,})"
    r"|(?P<port>(?<=127\.0\.0\.1:)\d{4,5})"
)
MAX_TEXT = 20_000  # characters of an answer; longer ones are compared as far
MAX_SENTENCE = 500  # characters: one that the cut went through cannot be translated
HEADERS = ("Content-Type", "Allow", "ETag", "Location", "Deprecation", "Link")
NAME = "answers"

Answer = list[Any]


class Recorder:
    """The answers of a run, by test."""

    def __init__(self) -> None:
        self.test = ""
        self.found: dict[str, list[Answer]] = defaultdict(list)
        self._seen: dict[str, str] = {}

    def begin(self, test: str) -> None:
        """The next test: names of what is made anew begin again."""
        self.test, self._seen = test, {}

    def note(self, request: HttpRequest, response: HttpResponseBase) -> None:
        """Keep one answer of the API."""
        if not request.path.startswith("/api/") or not self.test:
            return
        body = "" if response.streaming else bytes(getattr(response, "content", b"")).decode(errors="replace")
        headers = {name: self.plain(str(response[name])) for name in HEADERS if name in response}
        asked = f"{request.method} {self.plain(request.get_full_path())}"
        self.found[self.test].append([asked, response.status_code, headers, self._body(body)])

    def plain(self, text: str) -> str:
        """A text with the kind and number of what each run makes anew."""
        return MADE_ANEW.sub(self._named, text)

    def _named(self, found: "re.Match[str]") -> str:
        return self._seen.setdefault(found[0], f"<{found.lastgroup} {len(self._seen)}>")

    def _body(self, text: str) -> Any:
        plain = self.plain(text[:MAX_TEXT])
        try:
            return json.loads(plain)
        except ValueError:
            return plain


def differences(before: dict[str, list[Answer]], now: dict[str, list[Answer]]) -> dict[str, list[str]]:
    """What is different, by test, for the tests that were recorded and have run now."""
    found = {}
    for test in sorted(before.keys() & now.keys()):
        was = [words.of_address(answer[0], words.translate(answer)) for answer in before[test]]
        told = store.difference(*_as_far(was, store.plain(now[test])))
        if told:
            found[test] = list(told)
    return found


def _as_far(before: list[Answer], now: list[Answer]) -> tuple[list[Answer], list[Answer]]:
    """Both, and texts that were cut off at MAX_TEXT only up to where both have whole sentences."""
    cut = [(list(a), list(b)) for a, b in zip(before, now, strict=False)]
    for a, b in cut:
        if isinstance(a[3], str) and isinstance(b[3], str) and len(b[3]) > MAX_TEXT - MAX_SENTENCE:
            end = min(len(a[3]), len(b[3])) - MAX_SENTENCE
            a[3], b[3] = a[3][:end], b[3][:end]
    return [a for a, _ in cut] + before[len(cut) :], [b for _, b in cut] + now[len(cut) :]


def stable(first: dict[str, list[Answer]], second: dict[str, list[Answer]]) -> dict[str, list[Answer]]:
    """The answers of the tests that got the same ones in two runs."""
    return {test: answers for test, answers in first.items() if second.get(test) == store.plain(answers)}


recorder = Recorder()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Record, or compare."""
    parser.addoption("--answers", choices=("record", "compare"), default="compare", help="of tests.sameness.answers")


@pytest.fixture(autouse=True, scope="session")
def _answers_are_noted() -> Iterator[None]:
    """Listen at Django's own handler, which answers whatever client a test uses."""
    patch, was = pytest.MonkeyPatch(), BaseHandler.get_response

    def noted(handler: BaseHandler, request: HttpRequest) -> HttpResponseBase:
        response = was(handler, request)
        recorder.note(request, response)
        return response

    patch.setattr(BaseHandler, "get_response", noted)
    yield
    patch.undo()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Answers are kept by test."""
    recorder.begin(item.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what was recorded, or say what differs."""
    if session.config.option.answers == "record":
        parts = store.FIXTURE / f"{NAME}.json.xz"
        found = stable(recorder.found, store.read(NAME)) if parts.exists() else recorder.found
        store.write(NAME, found)
        print(f"\nanswers: {sum(map(len, found.values()))} of {len(found)} tests kept, of {len(recorder.found)} tests")
        return
    told = differences(store.read(NAME), recorder.found)
    for test, lines in told.items():
        print(f"\nanswers differ: {test}", *lines, sep="\n")
    print(f"\nanswers: {len(recorder.found)} tests, {len(told)} with other answers than before")
    if told:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
