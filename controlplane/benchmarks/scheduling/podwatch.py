"""A watch of a benchmark's own on the pods of ours, beside Weft's: what happened when, by the clock of the watcher.

Kubernetes' own timestamps count whole seconds, so a time is that of the receipt of the change, by the monotonic clock.
"""

import ssl
import threading
import time
from dataclasses import dataclass
from typing import Any

import httpx
import orjson

from controlplane.benchmarks.harness.figure import BenchmarkError
from controlplane.cluster.kubernetes import names
from controlplane.testbed.kubernetes import TestCluster

CONNECT_SECONDS = 10.0
WATCH_SECONDS = 3600  # asked of the server: longer than any benchmark


@dataclass(slots=True)
class Course:
    """When one pod was first seen in each of its states; monotonic seconds, None: not yet."""

    workload: str
    place: tuple[str, str] = ("", "")  # node, device indices
    bound_at: float | None = None
    running_at: float | None = None
    ended_at: float | None = None
    gone_at: float | None = None


class PodWatch:
    """Begins with its connection, and ends with its `with` block."""

    def __init__(self, cluster: TestCluster) -> None:
        self.courses: dict[str, Course] = {}  # by the pod's name
        self._version = ""
        self._failure = ""
        self._stop = threading.Event()
        self._client = httpx.Client(
            base_url=cluster.url,
            headers={"Authorization": f"Bearer {cluster.token('admin')}"},
            verify=ssl.create_default_context(cafile=str(cluster.ca)),
            timeout=httpx.Timeout(CONNECT_SECONDS, read=None),
            trust_env=False,
        )
        self._thread = threading.Thread(target=self._run, name="pod-watch", daemon=True)

    def __enter__(self) -> "PodWatch":
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End: the thread, which may be reading, goes with the process."""
        self._stop.set()

    def seen(self) -> list[Course]:
        """All pods so far. Raises BenchmarkError if the watch has ended."""
        if self._failure:
            raise BenchmarkError(f"The benchmark's own watch ended: {self._failure}. Run it again.")
        return list(self.courses.values())

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._read()  # the server may close it at any time: on from where it was
        except (httpx.HTTPError, ValueError, KeyError) as error:
            self._failure = f"{type(error).__name__}: {error}"

    def _read(self) -> None:
        query = {"watch": "1", "timeoutSeconds": str(WATCH_SECONDS), "labelSelector": names.WORKLOAD}
        if self._version:
            query["resourceVersion"] = self._version
        with self._client.stream("GET", "/api/v1/pods", params=query) as answer:
            rest = b""
            for chunk in answer.raise_for_status().iter_raw():
                at = time.monotonic()
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line:
                        self._note(orjson.loads(line), at)

    def _note(self, event: Any, at: float) -> None:
        pod = event["object"]
        if event["type"] == "ERROR":
            raise ValueError(str(pod.get("message", pod)))
        self._version = pod["metadata"]["resourceVersion"]
        meta, node, phase = pod["metadata"], pod["spec"].get("nodeName"), pod["status"].get("phase")
        course = self.courses.setdefault(meta["name"], Course(meta["labels"][names.WORKLOAD]))
        if node and course.bound_at is None:
            course.bound_at, course.place = at, (node, meta["annotations"][names.GPUS])
        if phase == "Running" and course.running_at is None:
            course.running_at = at
        if phase in ("Succeeded", "Failed") and course.ended_at is None:
            course.ended_at = at
        if event["type"] == "DELETED":
            course.gone_at = at
