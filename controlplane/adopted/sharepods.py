"""The words of KubeShare's SharePods on a pod: annotations `kubeshare/...` (1.0), labels `sharedgpu/...` (2.0).

Taken over are request, limit and memory, which become a share of a GPU. Affinity, groups and priorities of SharePods
are not: a job file says these in its own way. Source: README of NTHU-LSALAB/KubeShare, versions 1.0 and 2.0.
"""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

PREFIXES = ("sharedgpu/", "kubeshare/")
REQUEST, LIMIT, MEMORY = "gpu_request", "gpu_limit", "gpu_mem"
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
    every = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
    words = {key: str(text) for key, text in every.items() if is_word(key)}
    given = {key.partition("/")[2]: (key, text) for key, text in words.items()}
    if not given.keys() & {REQUEST, LIMIT, MEMORY}:
        return None
    if REQUEST not in given:
        key = next(iter(words)).partition("/")[0]
        raise SharePodError(f"{key}/{REQUEST} is missing: a share has a guarantee. Give a part of a GPU such as 0.3.")
    request = _number(*given[REQUEST])
    if request >= 1:
        if request % 1:
            raise SharePodError(f"{given[REQUEST][0]} is {request}. Give a part of one GPU, or whole GPUs.")
        return {"gpus": int(request)}
    return _share(request, given)


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
