"""Every REST answer that the tests of the API get: recorded once, and compared by each test that runs on SQLite.

The same requests of the same test get the same answers, but for the table in `words`; the fixture that looks is in
tests/controlplane/api/conftest.py. As a plugin of pytest it records: `pytest tests/controlplane/api -p
tests.sameness.answers --answers record` twice, as an answer that differs between two runs of the same code says
nothing, so its test's answers are left out, and counted. What a run makes anew (ids, times, tokens, digests) stands as
its kind and its number of appearance in the test.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
from django.core.handlers.base import BaseHandler
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from tests.sameness import store, words
from tests.sameness.word import Word

MADE_ANEW = re.compile(
    r"(?P<uuid>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
    r"|(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\+00:00| UTC)?)"
    r"|(?P<digest>\b[0-9a-f]{32,64}\b)"
    r"|(?P<token>\bweft_[A-Za-z0-9_-]{6,})"
    r"|(?P<port>(?<=127\.0\.0\.1:)\d{4,5})"
)
NUMBERED = re.compile(r"<(uuid|time|digest|token|port) \d+>")
TAKES_TIME = (Word(r"(?<=Try again in )\d+(?= s\.)", "<seconds>"),)  # by how long the test has run until then
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
        self.found[self.test].append(
            [asked, response.status_code, headers, self._body(words.without_added_addresses(body))]
        )

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


def difference(before: list[Answer], now: list[Answer]) -> list[str]:
    """The first lines in which the answers of a test are others than those that were recorded; none if they are not."""
    was = [words.of_answer(answer) for answer in before]
    found = [[words.asked_at(answer[0]), *words.without_added(answer[1:])] for answer in store.plain(now)]
    both = (renumbered(words.translate(answers, TAKES_TIME)) for answers in (was, found))
    return list(store.difference(*_as_far(*both)))


def renumbered(answers: list[Answer]) -> list[Answer]:
    """Answers in which what is made anew is numbered by its first appearance here, and times are only times.

    Two times that a test makes may fall into one second or not, which would move all later numbers.
    """
    seen: dict[str, str] = {}

    def name(found: "re.Match[str]") -> str:
        return "<time>" if found[1] == "time" else seen.setdefault(found[0], f"<{found[1]} {len(seen)}>")

    plain: list[Answer] = json.loads(NUMBERED.sub(name, json.dumps(answers, sort_keys=True)))
    return plain


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


@cache
def recorded() -> dict[str, list[Answer]]:
    """The answers of before, by test."""
    found: dict[str, list[Answer]] = store.read(NAME)
    return found


@contextmanager
def noted(test: str) -> Iterator[None]:
    """Note the answers of one test, at Django's own handler, which answers whatever client it uses."""
    patch, was = pytest.MonkeyPatch(), BaseHandler.get_response

    def answered(handler: BaseHandler, request: HttpRequest) -> HttpResponseBase:
        response = was(handler, request)
        recorder.note(request, response)
        return response

    patch.setattr(BaseHandler, "get_response", answered)
    recorder.begin(test)
    try:
        yield
    finally:
        patch.undo()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Record instead of comparing."""
    parser.addoption("--answers", choices=("record",), help="of tests.sameness.answers")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what was recorded."""
    if session.config.option.answers == "record":
        parts = store.FIXTURE / f"{NAME}.json.xz"
        found = stable(recorder.found, store.read(NAME)) if parts.exists() else recorder.found
        store.write(NAME, found)
        print(f"\nanswers: {sum(map(len, found.values()))} of {len(found)} tests kept, of {len(recorder.found)} tests")
