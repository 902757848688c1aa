"""The pods of one node with a share, as the API server has them.

What each may use stands in annotations, which only Weft's scheduler may write.
"""

import re
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.api import Api
from controlplane.cluster.kubernetes.connection import Access
from controlplane.cluster.kubernetes.reflector import Feed, Reflector
from controlplane.enforcer.residents import Machine
from controlplane.enforcer.shares import Placed
from gpushare.gpu import WHOLE, Share

Key = tuple[str, str]  # namespace and name
MEMORY = Path("/proc/meminfo")
LEAST = 1  # milli-GPU: what harvests is guaranteed nothing, and a token needs a guarantee to be passed by


class Pods:
    """One for a process. changed: called, by another thread, when any of them has changed."""

    def __init__(self, access: Access, node: str, changed: Callable[[], None] = lambda: None) -> None:
        self._lock = threading.Lock()
        self._shares: dict[Key, Placed] = {}
        self._machines: dict[Key, Machine] = {}
        self._versions: dict[Key, int] = {}
        self._number = 0
        self._api = Api(access, in_flight=2, name="enforcer-watch")
        query = urlencode({"fieldSelector": f"spec.nodeName={node}", "labelSelector": names.WORKLOAD})
        feed = Feed(f"/api/v1/pods?{query}", self._list, self._put, self._drop, self._known)
        self._reflector = Reflector(self._api, self, [feed], tell=changed)

    def start(self) -> None:
        """List, then watch, until `close`."""
        self._reflector.start()

    def close(self) -> None:
        """End the thread."""
        self._api.close()

    def machine(self) -> Machine | None:
        """The GPUs that notebooks on demand may be moved to, as all of their pods say; None: there is none here."""
        with self._lock:
            gpus: dict[str, int] = {}
            numbers: dict[str, int] = {}
            for found in self._machines.values():
                gpus |= found.gpus
                numbers |= found.numbers
        return Machine(gpus, host_memory(), numbers) if gpus else None

    def share(self, key: Key) -> Placed | None:
        """What the pod may use; None: it is not known, or none of ours."""
        with self._lock:
            return self._shares.get(key)

    # --- what the reflector keeps up to date ------------------------------------------------------

    @property
    def number(self) -> int:
        """It grows with each change."""
        return self._number

    def tick(self, at: float) -> None:
        """Nothing here changes by time."""

    def _known(self) -> dict[Key, int]:
        with self._lock:
            return dict(self._versions)

    def _list(self, items: Iterable[Any], at: float) -> None:
        with self._lock:
            self._shares, self._machines, self._versions = {}, {}, {}
        for one in items:
            self._put(one, at)

    def _put(self, one: Any, at: float) -> None:
        key, share, machine = _key(one), placed(one), machine_of(one)
        with self._lock:
            if machine is None:
                self._machines.pop(key, None)
            else:
                self._machines[key] = machine
            self._versions[key] = int(one["metadata"]["resourceVersion"])
            if share is None:
                self._shares.pop(key, None)
            else:
                self._shares[key] = share
            self._number += 1

    def _drop(self, one: Any, at: float) -> None:
        with self._lock:
            self._versions.pop(_key(one), None)
            self._shares.pop(_key(one), None)
            self._machines.pop(_key(one), None)
            self._number += 1


def placed(pod: Any) -> Placed | None:
    """The share of a pod by its annotations; None: they say none, or one that cannot be."""
    notes = pod["metadata"].get("annotations") or {}
    try:
        guarantee, limit, memory = (int(notes[key]) for key in (names.MILLI, names.LIMIT, names.GPU_MEMORY))
        share = Share(max(LEAST, guarantee), min(limit, WHOLE), memory)
        first = notes[names.DEVICE].split(",")[0]
        return Placed(first, share, names.ON_DEMAND in notes, pod["metadata"]["name"])
    except (KeyError, ValueError):
        return None


def machine_of(pod: Any) -> Machine | None:
    """What the annotations of a notebook on demand say of its node's GPUs; None: it is none, or has no place yet."""
    notes = pod["metadata"].get("annotations") or {}
    try:
        memory, numbers = int(notes[names.ON_DEMAND]), names.gpus_of(notes[names.GPUS])
        called = notes[names.DEVICE].split(",")
        return Machine(dict.fromkeys(called, memory), 0, dict(zip(called, numbers, strict=True)))
    except (KeyError, ValueError):
        return None


def host_memory(path: Path = MEMORY) -> int:
    """MiB of the machine. What notebooks book of it is less: each books it of what Kubernetes may give out."""
    found = re.search(r"^MemTotal:\s+(\d{1,15}) kB", path.read_text(), re.ASCII | re.MULTILINE)
    return int(found[1]) // 1024 if found else 0


def _key(one: Any) -> Key:
    return one["metadata"].get("namespace", ""), one["metadata"]["name"]
