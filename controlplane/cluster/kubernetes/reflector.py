"""A copy of some kinds of objects, by default pods and nodes, that keeps itself up to date: list, watch, and look
whether both agree.

It lives in an event loop and thread of its own, because a watch that shares them with thousands of writes falls behind
and is ended by the server. How stale it can be, whatever happens to the watch:

- the server ends a watch after WATCH_SECONDS, and one that says nothing for SILENT_SECONDS is given up and begun again
  where it was (half-open connections, paused servers);
- 410 and any other error in a watch lead to a new list;
- a watch may also be alive and leave things out. `check` compares names and versions with a list of the objects'
  metadata; the informer does it by itself every CHECK_SECONDS, and before each full observation.

A listener is told after each piece of the stream that changed what an observation shows (`tell`).
Nothing is gathered here: the loop that is woken rests after each round, so a burst is two of its rounds.
"""

import asyncio
import gc
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp
import orjson
import structlog

from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.api import Api, Json, RefusedError, refused
from controlplane.cluster.kubernetes.podstatus import is_known, is_placeholder
from controlplane.cluster.kubernetes.store import Store
from controlplane.cluster.port import ClusterUnreachable

WATCH_SECONDS = 240  # asked of the server
SILENT_SECONDS = 25.0
CHECK_SECONDS = 45.0
STALE_SECONDS = 60.0  # without a word from the server for so long, the informer is not used
LIST_SECONDS = 60.0  # for a list of everything
CATCH_UP_SECONDS = 2.0  # how far the watch may be behind a list before it is not believed any more
TICK_SECONDS = 1.0
BACKOFF = (0.1, 0.25, 0.5, 1.0)  # seconds between tries
COMPARED = (names.WORKLOAD, names.PLACEHOLDER)  # labels of the pods that are ours
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
PAGE = 1000  # objects of a long list in one answer
LINE_LIMIT = 16 * 2**20  # bytes; an object has at most 1.5 MiB in etcd

_CONTINUE = re.compile(rb'"continue":"([^"]+)"')

log = structlog.get_logger(__name__)


class _GoneError(Exception):
    """The server does not remember where we were."""


@dataclass
class Feed:
    """One kind of object: where it is listed, what happens to what comes, and how it stands."""

    path: str
    listed: Callable[[Iterable[Json], float], None]
    put: Callable[[Json, float], None]
    drop: Callable[[Json, float], None]
    versions: Callable[[], dict[tuple[str, str], int]]  # of what is known, by namespace and name
    labels: tuple[str, ...] = ("",)  # only objects with one of them are compared with a list
    version: str = ""  # of the list or the last event; empty: list anew
    heard_at: float = 0.0  # monotonic; the server's last word
    lists: int = 0
    listed_at: float = 0.0  # by the clock; when the last complete list was asked for
    watching: asyncio.Task[None] | None = None


class Copy(Protocol):
    """What a reflector keeps up to date."""

    @property
    def number(self) -> int:
        """It grows with each change that others may look at."""

    def tick(self, at: float) -> None:
        """Time has passed."""


def of_cluster(store: Store) -> tuple[Feed, Feed]:
    """Pods and nodes; of pods, our own are compared with a list."""
    return (
        Feed("/api/v1/pods", store.list_pods, store.put_pod, store.drop_pod, store.versions, COMPARED),
        Feed("/api/v1/nodes", store.list_nodes, store.put_node, store.drop_node, store.node_versions),
    )


class Reflector:
    """Start it once; `store` is what it knows. Use it when `age` says that it is fit for use."""

    def __init__(
        self,
        api: Api,
        store: Copy,
        feeds: Sequence[Feed],
        *,
        clock: Callable[[], float] = time.time,
        page: int = PAGE,
        tell: Callable[[], None] = lambda: None,
    ) -> None:
        self.store = store
        self._tell = tell
        self._told = store.number
        self._page = page
        self._api = api
        self._clock = clock
        self.feeds = tuple(feeds)
        self._refusal = ""

    def start(self) -> None:
        """List, then watch, until the Api is closed."""
        for feed in self.feeds:
            self._api.spawn(self._follow(feed))
        self._api.spawn(self._keep())

    def age(self) -> float:
        """Seconds since the server was last heard of both kinds; infinite before the first complete lists."""
        if not all(feed.lists for feed in self.feeds):
            return float("inf")
        return time.monotonic() - min(feed.heard_at for feed in self.feeds)

    def wait(self, seconds: float) -> None:
        """Wait for the first complete lists. Raises ClusterUnreachable."""
        deadline = time.monotonic() + seconds
        while not all(feed.lists for feed in self.feeds):
            if time.monotonic() > deadline:
                raise ClusterUnreachable(self._refusal or f"No complete list within {seconds:.0f} s.")
            time.sleep(0.01)

    def require(self) -> None:
        """Raise ClusterUnreachable when the informer is too old to be used."""
        age = self.age()
        if age > STALE_SECONDS:
            raise ClusterUnreachable(self._refusal or f"The API server was last heard {age:.0f} s ago.")

    def check(self, at: float) -> None:
        """See that nothing is missing that was there at this time; mend it if so. Raises ClusterUnreachable."""
        if all(feed.listed_at >= at for feed in self.feeds):
            return
        try:
            self._api.call(self._check(), LIST_SECONDS + CATCH_UP_SECONDS)
        except RefusedError as error:
            raise ClusterUnreachable(f"The API server refuses the list: {error}") from error

    def _tell_news(self) -> None:
        """Tell of what has come into the store since the last time, if anything; in the reflector's thread."""
        if self.store.number != self._told:
            self._told = self.store.number
            self._tell()

    # --- list and watch ----------------------------------------------------------------------

    async def _follow(self, feed: Feed) -> None:
        tries = 0
        while True:
            heard = feed.heard_at
            try:
                if not feed.version:
                    await self._list(feed)
                feed.watching = asyncio.create_task(self._watch(feed))
                await feed.watching
                self._refusal = ""
            except asyncio.CancelledError:
                current = asyncio.current_task()
                if current is not None and current.cancelling():
                    raise  # we are told to end; otherwise only the watch was, to list anew
            except (_GoneError, RefusedError) as error:
                feed.version = ""
                self._say(feed, error)
            except (ClusterUnreachable, aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
                self._say(feed, error)
            tries = 0 if feed.heard_at != heard else tries + 1
            await asyncio.sleep(BACKOFF[min(tries, len(BACKOFF) - 1)])

    def _say(self, feed: Feed, error: Exception) -> None:
        self._refusal = f"{feed.path}: {type(error).__name__}: {error}"
        log.debug("watch ended", path=feed.path, error=str(error), kind=type(error).__name__)

    async def _list(self, feed: Feed) -> None:
        asked_at = self._clock()
        things: list[Json] = []
        version = ""
        async for page in self._pages(feed.path, "application/json"):
            things += page["items"] or ()
            version = page["metadata"]["resourceVersion"]  # the same of all pages
        feed.listed_at = asked_at
        feed.listed(things, self._clock())
        feed.version = version
        feed.lists += 1
        feed.heard_at = time.monotonic()
        self._tell_news()

    async def _pages(self, path: str, accept: str) -> AsyncIterator[Json]:
        """A list in parts, all of one moment; while one is taken apart here, the server writes the next."""
        content = await self._read(path, accept)
        while True:
            token = _continuation(content)
            following = asyncio.create_task(self._read(path, accept, token)) if token else None
            try:
                await asyncio.sleep(0)  # so that the request is on its way
                yield _loaded(content)
                if following is None:
                    return
                content = await following
            finally:
                if following is not None:
                    following.cancel()

    async def _read(self, path: str, accept: str, token: str = "") -> bytes:
        timeout = aiohttp.ClientTimeout(total=LIST_SECONDS, sock_connect=3.0, sock_read=SILENT_SECONDS)
        query = {"limit": str(self._page)} | ({"continue": token} if token else {})
        try:
            async with self._api.open(path, query=query, accept=accept, timeout=timeout) as response:
                content: bytes = await response.read()
                if response.status >= 400:
                    raise refused(response.status, content)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ClusterUnreachable(f"{type(error).__name__}: {error}") from error
        return content

    async def _watch(self, feed: Feed) -> None:
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": feed.version,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        timeout = aiohttp.ClientTimeout(total=WATCH_SECONDS + 30.0, sock_connect=3.0, sock_read=SILENT_SECONDS)
        async with self._api.open(feed.path, query=query, timeout=timeout) as response:
            if response.status >= 400:
                error = refused(response.status, await response.read())
                raise _GoneError(str(error)) if response.status == 410 else error
            feed.heard_at = time.monotonic()
            async for lines in _lines(response.content):
                feed.heard_at = time.monotonic()
                for line in lines:
                    self._apply(feed, orjson.loads(line))
                self._tell_news()

    def _apply(self, feed: Feed, event: Any) -> None:
        thing, now = event["object"], self._clock()
        match event["type"]:
            case "ADDED" | "MODIFIED":
                feed.put(thing, now)
            case "DELETED":
                feed.drop(thing, now)
            case "BOOKMARK":
                pass
            case _:  # ERROR: usually 410, and whatever else it is, a new list mends it
                raise _GoneError(str(thing.get("message", thing)))
        feed.version = thing["metadata"]["resourceVersion"]

    # --- does the watch tell everything? -----------------------------------------------------

    async def _keep(self) -> None:
        """Time passes: nodes that stay silent are given up; now and then the informer is checked."""
        checked = time.monotonic()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            if self.age() < STALE_SECONDS:
                self.store.tick(self._clock())
                self._tell_news()
            if time.monotonic() - checked >= CHECK_SECONDS:
                checked = time.monotonic()
                try:
                    await self._check()
                except (ClusterUnreachable, RefusedError) as error:
                    self._say(self.feeds[0], error)

    async def _check(self) -> None:
        for feed in self.feeds:
            metas, versions = [], []
            for label in feed.labels:
                async for page in self._pages(feed.path + (f"?labelSelector={label}" if label else ""), METADATA):
                    metas += [item["metadata"] for item in page["items"] or ()]
                    versions.append(int(page["metadata"]["resourceVersion"]))
            version = min(versions)  # of the oldest list
            ours = [meta for meta in metas if feed.labels == ("",) or is_known(meta) or is_placeholder(meta)]
            listed = {(meta.get("namespace", ""), meta["name"]): int(meta["resourceVersion"]) for meta in ours}
            known = feed.versions()
            behind = _behind(listed, known, version)
            deadline = time.monotonic() + CATCH_UP_SECONDS
            while behind and time.monotonic() < deadline:
                await asyncio.sleep(0.02)
                known = feed.versions()
                behind = [key for key in behind if _is_behind(key, listed, known)]
            if behind:
                log.warning("the watch left something out", path=feed.path, objects=len(behind))
                await self._renew(feed)
            feed.heard_at = time.monotonic()

    async def _renew(self, feed: Feed) -> None:
        """List now, and have the watch begin from there."""
        await self._list(feed)
        if feed.watching is not None:
            feed.watching.cancel()


def _continuation(content: bytes) -> str:
    """Where a list goes on, found in its first bytes before all of it is read; empty on the last page."""
    found = _CONTINUE.search(content, 0, content.find(b'"items":'))
    return found[1].decode() if found else ""


def _loaded(content: bytes) -> Json:
    """A long list: collecting garbage among a million new objects would take as long as reading them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        answer: Json = orjson.loads(content)
        return answer
    finally:
        if was_enabled:
            gc.enable()


def _behind(listed: dict[tuple[str, str], int], known: dict[tuple[str, str], int], at: int) -> list[tuple[str, str]]:
    """What the list has in a newer version than we, and what we have from before the list and it has not."""
    late = [key for key in listed if _is_behind(key, listed, known)]
    return late + [key for key, version in known.items() if key not in listed and version <= at]


def _is_behind(key: tuple[str, str], listed: dict[tuple[str, str], int], known: dict[tuple[str, str], int]) -> bool:
    if key not in listed:
        return key in known
    return known.get(key, -1) < listed[key]


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[list[bytes]]:
    """Whole lines of a stream, those that came together, however it is cut. Raises ValueError for one without end."""
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield [line for line in lines if line]
        if len(rest) > LINE_LIMIT:
            raise ValueError("a line without end")
