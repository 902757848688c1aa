"""Kubernetes' texts for amounts and times, as the numbers that the port has."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

from controlplane.cluster.kubernetes import names

_SUFFIXES = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    "k": Decimal("1e3"), "M": Decimal("1e6"), "G": Decimal("1e9"), "T": Decimal("1e12"), "P": Decimal("1e15"),
    "E": Decimal("1e18"), "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40),
    "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip
MIB = 2**20


@lru_cache(maxsize=4096)
def quantity(text: str) -> Decimal:
    """`250m`, `1.5`, `16Gi`, `1e3`. What cannot be read is 0: one odd object must not stop the loop."""
    number = text.rstrip("numkKMGTPEi")
    try:
        return Decimal(number) * _SUFFIXES[text[len(number) :]]
    except (InvalidOperation, KeyError):
        return Decimal(0)


def milli(text: object) -> int:
    """CPU in 1/1000 core."""
    return int(quantity(str(text or "0")) * 1000)


def mebibytes(text: object) -> int:
    """Memory in MiB, rounded down."""
    return int(quantity(str(text or "0")) / MIB)


def whole(text: object) -> int:
    """A count, such as that of GPUs."""
    return int(quantity(str(text or "0")))


@lru_cache(maxsize=4096)
def seconds(text: str | None) -> float | None:
    """An RFC 3339 time as Unix time; None for none, and for what is no time."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(_to_micro(text)).timestamp()
    except ValueError:
        return None


def _to_micro(text: str) -> str:
    """Logs have nine digits after the point; datetime reads six."""
    head, point, tail = text.partition(".")
    if not point:
        return text
    digits = tail.rstrip("Z")
    return f"{head}.{digits[:6]}+00:00" if digits.isdigit() else text


def requested(spec: Mapping[str, Any], resource: str) -> Decimal:
    """What a pod's containers ask of a resource: all that run together, or the largest that runs before them."""
    together = sum((_asked(c, resource) for c in spec.get("containers") or ()), Decimal(0))
    first = Decimal(0)
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":  # a sidecar: it stays
            together += _asked(container, resource)
        else:
            first = max(first, _asked(container, resource))
    overhead = quantity(str((spec.get("overhead") or {}).get(resource, "0")))
    return max(together, first) + overhead


def _asked(container: Mapping[str, Any], resource: str) -> Decimal:
    resources = container.get("resources") or {}
    found = (resources.get("requests") or {}).get(resource) or (resources.get("limits") or {}).get(resource)
    return quantity(str(found or "0"))


def most(times: Iterable[float | None]) -> float | None:
    """The latest of the times that are known."""
    return max((t for t in times if t is not None), default=None)


@dataclass(frozen=True, slots=True)
class WeightsNoted:
    """What a pod's annotation says of its weights: PodSeen's three fields, and the MiB that they take of its node."""

    seen: tuple[str, float | None, str] = ("", None, "")
    memory: int = 0

    def beside(
        self, cpu_milli: int | None, memory: int | None, reason: str, message: str
    ) -> tuple[int | None, int | None, str, str]:
        """What `resized` found, as the job file has it: without what weights take meanwhile."""
        return cpu_milli, None if memory is None else memory - self.memory, reason, message


def weights_of(annotations: Mapping[str, Any]) -> WeightsNoted:
    """Where a replica's weights are, as sleepmode.py wrote it; nothing where it never did."""
    try:
        told = json.loads(annotations.get(names.WEIGHTS, ""))
        seen = str(told["in"]), float(told["at"]), str(told.get("why", ""))
        return WeightsNoted(seen, int(told["memory"]))
    except (ValueError, KeyError, TypeError):
        return WeightsNoted()


def requests_of(containers: Iterable[Mapping[str, Any]]) -> tuple[int | None, int | None]:
    """CPU (milli) and memory (MiB) that our container of these asks for; None: it is not among them."""
    for container in containers:
        if container.get("name") == names.CONTAINER:
            requests = (container.get("resources") or {}).get("requests") or {}
            if "cpu" in requests and "memory" in requests:
                return milli(requests["cpu"]), mebibytes(requests["memory"])
    return None, None
