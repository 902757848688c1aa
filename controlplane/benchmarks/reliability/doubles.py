"""Who runs twice: a watch of all pods, of our own, that knows at each moment which attempts of each workload are alive.

It asks nothing of Weft. A watch that breaks off is begun anew after a list; while the API server is away nothing
changes, so nothing is missed.
"""

import json
import threading
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import httpx

from controlplane.cluster.kubernetes import names
from controlplane.testbed.api import ApiError
from controlplane.testbed.kubernetes import TestCluster

PODS = f"/api/v1/pods?labelSelector={names.WORKLOAD}"
WATCH_SECONDS = 5
RETRY_SECONDS = 0.1

Pod = Mapping[str, Any]


class Alive:
    """Pods on nodes that have not ended, by workload; and the workloads of which two attempts were alive at once."""

    def __init__(self) -> None:
        self._attempts: dict[str, dict[str, str]] = defaultdict(dict)  # pod's name -> attempt
        self.twice: set[str] = set()

    def listed(self, pods: list[Pod]) -> None:
        """All that there is."""
        self._attempts.clear()
        for pod in pods:
            self.see(pod, is_there=True)

    def see(self, pod: Pod, *, is_there: bool) -> None:
        """One pod as it is now, or was before it went."""
        meta = pod["metadata"]
        mine = self._attempts[meta["labels"][names.WORKLOAD]]
        mine.pop(meta["name"], None)
        is_over = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
        if is_there and pod["spec"].get("nodeName") and not is_over:
            mine[meta["name"]] = meta["labels"][names.ATTEMPT]
            if len(set(mine.values())) > 1:
                self.twice.add(meta["labels"][names.WORKLOAD])


class Doubles:
    """The watch, for the time of a `with` block."""

    def __init__(self, cluster: TestCluster) -> None:
        self._cluster = cluster
        self._alive = Alive()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="doubles", daemon=True)
        self.seen = 0  # changes

    @property
    def twice(self) -> frozenset[str]:
        """Workloads of which two attempts were alive at once."""
        return frozenset(self._alive.twice)

    def __enter__(self) -> "Doubles":
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._stop.set()
        self._thread.join(2 * WATCH_SECONDS)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow()
            except (httpx.HTTPError, ApiError, json.JSONDecodeError):
                self._stop.wait(RETRY_SECONDS)

    def _follow(self) -> None:
        found = self._cluster.request("GET", PODS)
        self._alive.listed(found["items"])
        version = found["metadata"]["resourceVersion"]
        path = f"{PODS}&watch=1&timeoutSeconds={WATCH_SECONDS}&resourceVersion={version}"
        for event in self._cluster.watch(path):
            if event["type"] == "ERROR":
                return
            self.seen += 1
            self._alive.see(event["object"], is_there=event["type"] != "DELETED")
            if self._stop.is_set():
                return
