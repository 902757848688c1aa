"""The words of KubeShare's SharePods on a pod: annotations `kubeshare/...` (1.0), labels `sharedgpu/...` (2.0).

Taken over are request, limit and memory, which become a share of a GPU, and of 1.0 affinity, anti-affinity and
exclusion, which become its labels. Groups and priorities of 2.0 are not: a job file says these in its own way. Source:
README of NTHU-LSALAB/KubeShare, versions 1.0 and 2.0.
"""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from controlplane.jobspec.gpushares import SHARE_LABEL
from controlplane.jobspec.shapes import shown

PREFIXES = ("sharedgpu/", "kubeshare/")
REQUEST, LIMIT, MEMORY = "gpu_request", "gpu_limit", "gpu_mem"
LABELS = {"sched_affinity": "affinity", "sched_anti-affinity": "anti_affinity", "sched_exclusion": "exclusion"}
MILLI, MIB = 1000, 2**20


class SharePodError(Exception):
    """What a SharePod's words say cannot be a share; the message names the key and the fix."""


def is_word(key: str) -> bool:
    """Whether a label or annotation is one of SharePods'."""
    return key.startswith(PREFIXES)


def asked(metadata: Mapping[str, Any]) -> dict[str, int] | None:
    """guarantee and limit (milli-GPU) and memory (MiB) by the labels and annotations; None without such words.

    A request of a whole number of GPUs is {"gpus": number}. Raises SharePodError.
    """
    given = _words(metadata)
    if not given.keys() & {REQUEST, LIMIT, MEMORY, *LABELS}:
        return None
    if REQUEST not in given:
        key = next(iter(given.values()))[0].partition("/")[0]
        raise SharePodError(f"{key}/{REQUEST} is missing: a share has a guarantee. Give a part of a GPU such as 0.3.")
    request = _number(*given[REQUEST])
    if request >= 1:
        if request % 1:
            raise SharePodError(f"{given[REQUEST][0]} is {request}. Give a part of one GPU, or whole GPUs.")
        return {"gpus": int(request)}
    return _share(request, given)


def labels(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The labels of the share, by the fields of a job file that say them. Raises SharePodError."""
    found = {LABELS[word]: told for word, told in _words(metadata).items() if word in LABELS}
    for key, text in found.values():
        if fault := SHARE_LABEL.fault(text):
            raise SharePodError(f"{key} is {shown(text)}{fault}")
    return {name: text for name, (_, text) in found.items()}


def _words(metadata: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """SharePods' words of an object, by the word without its prefix: the key and what it says."""
    every = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
    return {key.partition("/")[2]: (key, str(text)) for key, text in every.items() if is_word(key)}


def _share(request: Decimal, given: Mapping[str, tuple[str, str]]) -> dict[str, int]:
    """given: by the word without its prefix, the key and what it says."""
    guarantee = int(request * MILLI)
    if guarantee < 1:
        raise SharePodError(f"{given[REQUEST][0]} is {request}. Give at least 0.001: a share has a guarantee.")
    limit = _number(*given[LIMIT]) if LIMIT in given else request
    most = int(limit * MILLI)
    if not guarantee <= most <= MILLI:
        raise SharePodError(f"{given[LIMIT][0]} is {limit}. Give {request} to 1.")
    key, text = given.get(MEMORY, (f"{given[REQUEST][0].partition('/')[0]}/{MEMORY}", "missing"))
    memory = -(-int(_number(key, text)) // MIB) if MEMORY in given else 0
    if memory < 1:
        raise SharePodError(f"{key} is {text[:40]}. Give the bytes of GPU memory that it takes.")
    return {"guarantee": guarantee, "limit": most, "memory": memory}


def _number(key: str, text: str) -> Decimal:
    try:
        found = Decimal(text)
    except InvalidOperation:
        raise SharePodError(f"{key} is {text[:40]}. Give a number.") from None
    if not found.is_finite() or found < 0:
        raise SharePodError(f"{key} is {text[:40]}. Give a number that is not below 0.")
    return found
