"""What a worker sees mounted: claims of its team, scratch space, and /dev/shm of its own size."""

from collections.abc import Mapping
from typing import Any

from controlplane.jobspec import jobfile

Json = dict[str, Any]

SHARED_MEMORY = "shared-memory"
SHARED_MEMORY_PATH = "/dev/shm"  # noqa: S108 - a mount inside the container, no file of ours


def volumes(spec: Mapping[str, Any]) -> list[Json]:
    """The pod's volumes: one for each claim (however often mounted) and each scratch space."""
    found: dict[str, Json] = {}
    for name, given in _named(spec):
        if "claim" in given:
            found[name] = {"name": name, "persistentVolumeClaim": {"claimName": str(given["claim"])}}
        else:
            found[name] = {"name": name, "emptyDir": {"sizeLimit": str(given["scratch"])}}
    if size := _shared_memory_mib(spec):
        found[SHARED_MEMORY] = {"name": SHARED_MEMORY, "emptyDir": {"medium": "Memory", "sizeLimit": f"{size}Mi"}}
    return list(found.values())


def mounts(spec: Mapping[str, Any]) -> list[Json]:
    """The container's mounts. Raises ValueError for a path that no job file may hold, however it was stored."""
    found: list[Json] = [
        {"name": name, "mountPath": _path(str(given["path"])), **({"readOnly": True} if given.get("read_only") else {})}
        for name, given in _named(spec)
    ]
    if _shared_memory_mib(spec):
        found.append({"name": SHARED_MEMORY, "mountPath": SHARED_MEMORY_PATH})
    return found


def _path(path: str) -> str:
    if fault := jobfile.PATH.fault(path):
        raise ValueError(f"A volume's path is {path!r}{fault}")
    return path


def _named(spec: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Each volume of the job file with the name it has in the pod; the same claim has the same name."""
    claims: dict[str, str] = {}
    out = []
    for number, given in enumerate(spec.get("volumes") or ()):
        name = claims.setdefault(str(given["claim"]), f"claim-{number}") if "claim" in given else f"scratch-{number}"
        out.append((name, given))
    return out


def _shared_memory_mib(spec: Mapping[str, Any]) -> int:
    return int((spec.get("normalised") or {}).get("shared_memory_mib") or 0)
