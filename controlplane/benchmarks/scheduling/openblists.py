"""Lists on which a third of the pods with GPUs may use only some models: made from the shared lists by a fixed seed.

Each is a shared list whose pods say nothing of models. A third of its pods with GPUs, drawn, are then bound to models,
as often to each set of models as pods with as many GPUs are in the shared lists that have such pods.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from scheduler.model.snapshot import Node
from scheduler.model.workload import ResourceRequest

COUNT = 5
BOUND = 1 / 3  # of the pods with GPUs
SEED = 20261

Models = tuple[str, ...]
Pods = tuple[ResourceRequest, ...]


def generated(lists: Mapping[str, Sequence[ResourceRequest]], nodes: Sequence[Node]) -> dict[str, Pods]:
    """The lists by name, from those shared; the same for the same input. Empty without any."""
    bases = [name for name, asks in sorted(lists.items()) if not any(ask.models for ask in asks)] or sorted(lists)
    if not bases:
        return {}
    draw = np.random.default_rng(SEED)
    order = draw.permutation(len(bases)).tolist()
    known = _sets(lists, nodes)
    chosen = [bases[order[number % len(order)]] for number in range(COUNT)]
    return {
        f"generated{number}-{base}": _bound(lists[base], known, draw) for number, base in enumerate(chosen, start=1)
    }


def _bound(asks: Sequence[ResourceRequest], known: Mapping[int, Counter[Models]], draw: np.random.Generator) -> Pods:
    """The pods of a list with a third of those with GPUs bound."""
    pods = [replace(ask, models=()) for ask in asks]
    with_gpus = [at for at, ask in enumerate(pods) if ask.milli and known[_devices(ask)]]
    for at in sorted(draw.permutation(with_gpus)[: round(BOUND * len(with_gpus))].tolist()):
        counts = known[_devices(pods[at])]
        sets, weights = sorted(counts), np.array([counts[models] for models in sorted(counts)], dtype=np.float64)
        pods[at] = replace(pods[at], models=sets[int(draw.choice(len(sets), p=weights / weights.sum()))])
    return tuple(pods)


def _sets(lists: Mapping[str, Sequence[ResourceRequest]], nodes: Sequence[Node]) -> dict[int, Counter[Models]]:
    """By devices of a pod, to which models such pods are bound how often; where none is, each model by its machines.

    Only sets with a machine that is large enough.
    """
    largest: dict[str, int] = {}
    for node in nodes:
        largest[node.model] = max(largest.get(node.model, 0), node.gpus)
    pods = [ask for asks in lists.values() for ask in asks if ask.milli]
    found: dict[int, Counter[Models]] = {}
    for devices in sorted({_devices(ask) for ask in pods}):
        seen = Counter(ask.models for ask in pods if ask.models and _devices(ask) == devices)
        each: Counter[Models] = Counter((node.model,) for node in nodes)
        found[devices] = _feasible(seen, largest, devices) or _feasible(each, largest, devices)
    return found


def _feasible(counts: Counter[Models], largest: Mapping[str, int], devices: int) -> Counter[Models]:
    return Counter({models: count for models, count in counts.items() if _most(models, largest) >= devices})


def _most(models: Iterable[str], largest: Mapping[str, int]) -> int:
    return max(largest.get(model, 0) for model in models)


def _devices(ask: ResourceRequest) -> int:
    return ask.gpus or 1
