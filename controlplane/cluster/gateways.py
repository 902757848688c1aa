"""The port `Gateways` over the activators: all are asked at once for their signal, and have half a second to answer."""

import json
import socket
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog
import urllib3

from autoscaler.observed import Signal

TIMEOUT_SECONDS = 0.5
MAX_BYTES = 4_194_304
MAX_ACTIVATORS = 16  # asked at once

log = structlog.get_logger(__name__)


class Activators:
    """Those behind these `host:port`, of a name with several addresses all. May be shared by threads."""

    def __init__(self, places: Iterable[str]) -> None:
        self._places = tuple(places)
        timeout = urllib3.Timeout(total=TIMEOUT_SECONDS)
        self._http = urllib3.PoolManager(MAX_ACTIVATORS, timeout=timeout, retries=False)
        self._pool = ThreadPoolExecutor(MAX_ACTIVATORS, thread_name_prefix="activators")
        self.trouble = ""  # why the newest question was not answered; empty = it was

    def signals(self) -> dict[str, Signal]:
        """What waits and comes, by workload; of a service behind several, what they tell together."""
        found: dict[str, Signal] = {}
        troubles = []
        for told, trouble in self._pool.map(self._ask, self._addresses()):
            troubles += [trouble] if trouble else []
            for workload, one in told.items():
                before = found.get(workload, Signal(0, 0.0))
                found[workload] = Signal(before.waiting + one.waiting, before.rate + one.rate)
        self._say("; ".join(troubles))
        return found

    def _addresses(self) -> list[str]:
        out: dict[str, None] = {}
        for place in self._places:
            host, _, port = place.rpartition(":")
            try:
                known = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
            except OSError:
                continue  # none runs now
            for family, *_, address in known:
                name = f"[{address[0]}]" if family == socket.AF_INET6 else str(address[0])
                out[f"{name}:{port}"] = None
        return list(out)

    def _ask(self, address: str) -> tuple[Mapping[str, Signal], str]:
        try:
            answer = self._http.request("GET", f"http://{address}/signal", preload_content=False, redirect=False)
            try:
                body = answer.read(MAX_BYTES + 1)
            finally:
                answer.release_conn()
            if answer.status != 200 or len(body) > MAX_BYTES:
                return {}, f"{address}: HTTP status {answer.status}, {len(body)} bytes"
            return _signals(json.loads(body)), ""
        except (urllib3.exceptions.HTTPError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            return {}, f"{address}: {type(error).__name__}"

    def _say(self, trouble: str) -> None:
        if trouble and not self.trouble:
            log.warning("an activator does not tell what waits", why=trouble)
        self.trouble = trouble


def _signals(document: Any) -> dict[str, Signal]:
    """What one activator says. Raises TypeError, KeyError, AttributeError or ValueError for what is none."""
    told = {
        str(uid): Signal(int(values["waiting"]), float(values["rate"])) for uid, values in document["workloads"].items()
    }
    return {uid: signal for uid, signal in told.items() if signal.is_sound}
