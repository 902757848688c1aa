"""Requests over HTTP: one place for time limits, retries and the reading of answers."""

import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx

from weft.config import LOOPBACK
from weft.errors import NotReachable, WeftError
from weft.urls import PREFIX, normalise_url

PASSING = frozenset({429, 502, 503, 504})  # the server, or the proxy before it, asks to come again


@dataclass(frozen=True, slots=True)
class Retries:
    """How a request that may be repeated is repeated: pauses double from `first` to `most` seconds.

    A Retry-After above `patience` seconds is not waited for: the error says when to come again.
    """

    tries: int = 4
    first: float = 0.25
    most: float = 5.0
    patience: float = 60.0

    def pause(self, tried: int, retry_after: float | None) -> float:
        """Return the seconds to wait after the try number `tried` (1 = the first)."""
        if retry_after is not None:
            return retry_after
        pause: float = min(self.most, self.first * 2 ** (tried - 1))
        # Spread, so that the jobs of one CI run do not come back in the same moment.
        return pause * (0.75 + random.random() / 2)  # noqa: S311


class Transport:
    """Sends requests to one server and returns decoded answers; raises WeftError."""

    def __init__(self, url: str, token: str = "", *, timeout: float = 30.0, retries: Retries | None = None) -> None:
        self.url = normalise_url(url)
        self.retries = retries or Retries()
        headers = {"Accept": "application/json", "User-Agent": "weft-client/1"}
        if token:
            headers["Authorization"] = f"Bearer {_checked_token(token)}"
        self._http = httpx.Client(
            base_url=self.url + PREFIX,
            headers=headers,
            timeout=httpx.Timeout(timeout, connect=min(timeout, 10.0)),
            # A proxy of the environment cannot reach this machine's own loopback.
            trust_env=urlsplit(self.url).hostname not in LOOPBACK,
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def get(self, path: str, params: Mapping[str, Any] | None = None, *, timeout: float | None = None) -> Any:
        """Return the decoded answer to a GET."""
        return self.send("GET", path, params=params, timeout=timeout)

    def send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: object = None,
        key: str = "",
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Send a request and return its decoded answer, None if it has no body.

        GET, DELETE and whatever has an idempotency key are sent again when the connection fails or the server is
        not ready for them; the same key makes the server answer twice and act once.
        """
        extra = dict(headers or {})
        if key:
            extra["Idempotency-Key"] = key
        request = self._http.build_request(
            method, path, params=_given(params), json=body, headers=extra, **_limit(timeout)
        )
        may_repeat = bool(key) or method in ("GET", "DELETE")
        tried = 0
        while True:
            tried += 1
            try:
                return self._once(request, has_key=bool(key))
            except _Passing as passing:
                pause = self.retries.pause(tried, passing.error.retry_after)
                if not may_repeat or tried >= self.retries.tries or pause > self.retries.patience:
                    raise passing.error from passing.__cause__
            time.sleep(pause)

    @contextmanager
    def lines(
        self,
        path: str,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        silence: float | None = None,
    ) -> Iterator[Iterator[str] | None]:
        """Stream an answer line by line, at most `silence` seconds apart; None where there is nothing (204)."""
        try:
            limit = httpx.Timeout(10.0, read=silence)
            stream = self._http.stream("GET", path, params=_given(params), headers=dict(headers or {}), timeout=limit)
            with stream as answer:
                if answer.status_code not in (200, 204):
                    answer.read()
                    raise _refusal(answer)
                yield answer.iter_lines() if answer.status_code == 200 else None
        except httpx.TransportError as error:
            raise self._not_reachable(error) from error

    def _once(self, request: httpx.Request, *, has_key: bool) -> Any:
        try:
            answer = self._http.send(request)
        except httpx.TransportError as error:
            raise _Passing(self._not_reachable(error)) from error
        if answer.is_success:
            return _decoded(answer)
        refusal = _refusal(answer)
        # 409 with Retry-After: the first request with this key is still at work.
        is_in_flight = answer.status_code == 409 and has_key and refusal.retry_after is not None
        if answer.status_code in PASSING or is_in_flight:
            raise _Passing(refusal)
        raise refusal

    def _not_reachable(self, error: httpx.TransportError) -> NotReachable:
        said = str(error) or type(error).__name__
        if isinstance(error, httpx.ConnectError):
            return NotReachable(f"No server responds at {self.url} ({said}). Check the address, or start the server.")
        if isinstance(error, httpx.TimeoutException):
            return NotReachable(f"{self.url} did not respond in time.")
        return NotReachable(f"The connection to {self.url} broke: {said}.")


class _Passing(Exception):  # noqa: N818 - a signal inside this module
    """An error that may pass when the request is sent again."""

    def __init__(self, error: WeftError) -> None:
        super().__init__(str(error))
        self.error = error


def _checked_token(token: str) -> str:
    if not token.isascii() or not token.isprintable() or " " in token:
        raise WeftError("The token holds characters that no token has. Copy it again, without spaces or line ends.")
    return token


def _given(params: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (params or {}).items() if value not in (None, "")}


def _limit(timeout: float | None) -> dict[str, Any]:
    return {} if timeout is None else {"timeout": httpx.Timeout(timeout, connect=min(timeout, 10.0))}


def _decoded(answer: httpx.Response) -> Any:
    if not answer.content:
        return None
    if answer.headers.get("content-type", "").startswith("text/csv"):
        return answer.text
    try:
        return answer.json()
    except ValueError:
        kind = answer.headers.get("content-type", "no content type")
        raise WeftError(
            f"{answer.url} answered {answer.status_code} with {kind}, which is not JSON. Is it a Weft server?",
            status=answer.status_code,
        ) from None


def _refusal(answer: httpx.Response) -> WeftError:
    """Return the exception for an answer that is not 2xx, whatever sent it."""
    retry_after = _seconds(answer.headers.get("retry-after", ""))
    if answer.is_redirect:
        target = answer.headers.get("location", "elsewhere")
        return WeftError(f"The server redirects to {target}. Use that address.", status=answer.status_code)
    try:
        problem = answer.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        title = f"{answer.url.host} answered {answer.status_code} {answer.reason_phrase}".rstrip()
        problem = {"title": title}
    return WeftError.of_problem(answer.status_code, problem, retry_after, answer.reason_phrase)


def _seconds(retry_after: str) -> float | None:
    """Read a Retry-After header: seconds, or a date."""
    text = retry_after.strip()
    if not text:
        return None
    if text.isdecimal():
        return float(text)
    try:
        when = parsedate_to_datetime(text)
    except ValueError:
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())
