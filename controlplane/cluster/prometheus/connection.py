"""One Prometheus over HTTP: what it answers is not trusted, so it is bounded in size, time, shape and range."""

import contextlib
import math
import re
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import requests
import urllib3
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3.util.retry import Retry

from controlplane.cluster.prometheus.queries import Query

MAX_BYTES = 16 * 1024 * 1024  # 50,000 rows of 300 bytes; Prometheus would send gigabytes
MAX_ROWS = 50_000
CHUNK_BYTES = 65_536
NAME = re.compile(r"[\x20-\x7e]{1,253}")  # values of the labels that we read: names of nodes and pods, numbers

Key = tuple[str, ...]
T = TypeVar("T")


class Unanswered(Exception):  # noqa: N818 - named for what is so, like ClusterUnreachable
    """Prometheus did not answer a query in a form, size and time that can be used. Nothing is known."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long one query may take, in seconds: to connect, between two parts of the answer, in all.

    rest: for how long it asks nothing after a failure, so that a round does not wait for one time-out after another.
    """

    connect: float = 1.0
    silence: float = 2.0
    whole: float = 3.0  # a round of a loop has 8, and asks up to six times
    rest: float = 10.0

    @property
    def most(self) -> float:
        """When an answer is given up whatever it does: one whose headers trickle is never seen to be late."""
        return self.connect + self.silence + self.whole


@dataclass(frozen=True, slots=True)
class Answer:
    """Values by what their labels say, in the query's order. None: not a number, out of range, or told twice."""

    at: float | None  # the moment that Prometheus says it is about
    values: Mapping[Key, float | None]


class Connection:
    """Asks queries one at a time. Retries nothing: the loops come again, and a round must not wait."""

    def __init__(
        self, url: str, *, token_file: Path | None = None, ca: Path | None = None, limits: Limits | None = None
    ) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise ValueError("PROMETHEUS_URL must begin with http:// or https://.")
        self._token_file = token_file
        self._limits = limits or Limits()
        session = _Session(self._limits)
        session.verify = str(ca) if ca else True
        never = Retry(total=0, redirect=0, raise_on_status=False)
        self._client = PrometheusConnect(url.rstrip("/"), session=session, retry=never, headers={})

    def ask(self, query: Query, text: str, at: float | None = None) -> Answer:
        """The answer to `text`, read as `query` says, at this moment (None: now). Raises Unanswered."""
        try:
            self._client.headers = self._headers()
            params = {} if at is None else {"time": f"{at:.3f}"}
            rows = in_time(lambda: self._client.custom_query(text, params=params), self._limits.most)
            return read_answer(query, rows)
        except PrometheusApiClientException as error:
            raise Unanswered(f"{query.name}: {_first_words(error)}") from error
        except (requests.RequestException, urllib3.exceptions.HTTPError, HTTPException, OSError) as error:
            # The library's words hold the whole address, with a password if it has one.
            raise Unanswered(f"{query.name}: {type(error).__name__}") from error
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise Unanswered(f"{query.name}: the answer is not that of Prometheus ({type(error).__name__})") from error

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _headers(self) -> dict[str, str]:
        """Read anew each time: tokens that clusters hand out are replaced every hour."""
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if self._token_file is not None:
            headers["Authorization"] = f"Bearer {self._token_file.read_text().strip()}"
        return headers


def in_time(ask: Callable[[], T], seconds: float) -> T:
    """What `ask` returns or raises; TimeoutError when it does neither in time. It then goes on, unheard."""
    said: Future[T] = Future()

    def run() -> None:
        try:
            said.set_result(ask())
        except BaseException as error:
            said.set_exception(error)

    threading.Thread(target=run, name="prometheus", daemon=True).start()
    return said.result(seconds)


def read_answer(query: Query, rows: Any) -> Answer:
    """Rows of an instant vector as an answer. Raises an exception of Python's own for anything else."""
    if not isinstance(rows, list) or len(rows) > MAX_ROWS:
        raise ValueError("no list of rows, or too many")
    values: dict[Key, float | None] = {}
    at = None
    for row in rows:
        moment, value = row["value"]
        at = float(moment) if at is None else at
        key = _key(query, row["metric"])
        if key is not None:
            known = _value(query, value)
            values[key] = known if values.get(key, known) == known else None
    return Answer(at if at is not None and math.isfinite(at) else None, values)


def _key(query: Query, labels: Mapping[str, Any]) -> Key | None:
    """The row's labels; None for a row that has not all of them."""
    found = tuple(labels.get(name) for name in query.labels)
    return found if all(isinstance(text, str) and NAME.fullmatch(text) for text in found) else None  # type: ignore[return-value]


def _value(query: Query, text: Any) -> float | None:
    """A number in the query's range."""
    if not isinstance(text, str):
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if query.least <= value <= query.most else None  # NaN is in no range


def _first_words(error: Exception) -> str:
    """The status code of a refusal, without what was said: it is another's text, of any length."""
    found = re.search(r"\d{3}", str(error)[:40])
    return f"HTTP status {found.group()}" if found else "refused"


class _Session(requests.Session):
    """Reads answers up to a size and within a time; goes where the address says, and nowhere else."""

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self._limits = limits
        self.trust_env = False  # no proxies or passwords that happen to be set on the machine

    def request(self, method: str, url: str | bytes, *args: Any, **options: Any) -> requests.Response:
        """As the library's, the body read within the limits."""
        limits = self._limits
        deadline = time.monotonic() + limits.whole
        options |= {"stream": True, "allow_redirects": False, "timeout": (limits.connect, limits.silence)}
        response = super().request(method, url, *args, **options)
        with contextlib.closing(response):
            response._content = _body(response, deadline)
        return response


def _body(response: requests.Response, deadline: float) -> bytes:
    parts: list[bytes] = []
    size = 0
    # read1 returns what has come: an answer that trickles is seen to be late, however small its parts.
    while part := response.raw.read1(CHUNK_BYTES, decode_content=True):
        size += len(part)
        if size > MAX_BYTES:
            raise requests.exceptions.ContentDecodingError(f"more than {MAX_BYTES} bytes")
        if time.monotonic() > deadline:
            raise requests.exceptions.ReadTimeout("late")
        parts.append(part)
    return b"".join(parts)
