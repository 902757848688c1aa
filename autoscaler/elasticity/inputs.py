"""What a plan is made from: nodes and jobs as plain dictionaries, read into values that are known to be sound."""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Number = TypeVar("Number", int, float)

NodeId = tuple[str, int]
Parts = Sequence[tuple[NodeId, int]]
Speedup = Callable[[Any, Any], Any]


class PlanInputError(ValueError):
    """A node or a job that no plan can be made for; the text names the field and what it has to be."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node and how many GPUs it has, all of one type."""

    id: NodeId
    gpu_type: str
    gpus: int


@dataclass(frozen=True, slots=True)
class Job:
    """A training. Its columns are in the order of the types of the cluster.

    age, restart: s; most: GPUs that it may have; rates: examples/s of one GPU; speedups: (nodes, GPUs) -> times one GPU
    of the type, None before it ran on it.
    """

    id: Hashable
    model: str
    submitted: float
    age: float
    restart: float
    is_restarting: bool
    most: tuple[int, ...]
    rates: tuple[float, ...]
    speedups: tuple[Speedup | None, ...]


def read_nodes(nodes: Iterable[Mapping[str, Any]]) -> tuple[Node, ...]:
    """Sorted by id. Raises PlanInputError."""
    found: dict[NodeId, Node] = {}
    for place, row in enumerate(nodes):
        name = f"nodes[{place}]"
        gpu_type = _field(row, "gpu_type", name)
        gpus = _count(_field(row, "gpus", name), name, "gpus")
        identity = _field(row, "id", name)
        if not (isinstance(identity, tuple | list) and len(identity) == 2 and identity[0] == gpu_type):
            raise PlanInputError(f"{name}.id is {identity!r}: give the pair (gpu_type, index), as ({gpu_type!r}, 0)")
        node = Node((str(identity[0]), int(identity[1])), str(gpu_type), gpus)
        if node.id in found:
            raise PlanInputError(f"{name}.id: {node.id!r} is there twice; give each node an index of its own")
        found[node.id] = node
    return tuple(found[identity] for identity in sorted(found))


def read_jobs(jobs: Iterable[Mapping[str, Any]], types: Sequence[str]) -> tuple[Job, ...]:
    """Sorted by submission, then by id, so that a plan does not depend on the order. Raises PlanInputError."""
    found = [_job(row, f"jobs[{place}]", types) for place, row in enumerate(jobs)]
    if len({job.id for job in found}) < len(found):
        raise PlanInputError("jobs: two have the same id; give each job an id of its own")
    return tuple(sorted(found, key=lambda job: (job.submitted, str(job.id))))


def _job(row: Mapping[str, Any], name: str, types: Sequence[str]) -> Job:
    most = _columns(row, "max_gpus", name, types, _count)
    # A type without a rate has not been measured: the job may not have it.
    speeds = _columns(row, "ref_rate", name, types, _seconds)
    functions = _mapping(row, "goodput", name)
    speedups = tuple(functions.get(t) for t in types)
    for gpu_type, speedup in zip(types, speedups, strict=True):
        if not (speedup is None or callable(speedup)):
            raise PlanInputError(f"{name}.goodput[{gpu_type!r}]: give a function of nodes and GPUs, or None")
    return Job(
        id=_field(row, "id", name),
        model=str(row.get("model", "")),
        submitted=_seconds(row.get("submitted", 0.0), name, "submitted"),
        age=_seconds(row.get("age", 0.0), name, "age"),
        restart=_seconds(row.get("restart_cost_s", 0.0), name, "restart_cost_s"),
        is_restarting=bool(row.get("restarting", False)),
        most=tuple(limit if speed > 0 else 0 for limit, speed in zip(most, speeds, strict=True)),
        rates=speeds,
        speedups=speedups,
    )


def _columns(
    row: Mapping[str, Any],
    key: str,
    name: str,
    types: Sequence[str],
    read: Callable[[Any, str, str, str | None], Number],
) -> tuple[Number, ...]:
    """A value for each type, 0 where there is none."""
    found = _mapping(row, key, name)
    return tuple([read(found.get(gpu_type, 0), name, key, gpu_type) for gpu_type in types])


def _field(row: Mapping[str, Any], key: str, name: str) -> Any:
    if key not in row:
        raise PlanInputError(f"{name}.{key} is missing; give it")
    return row[key]


def _mapping(row: Mapping[str, Any], key: str, name: str) -> Mapping[str, Any]:
    found = row.get(key, {})
    if not isinstance(found, dict | Mapping):  # dict first: asking for Mapping takes long
        raise PlanInputError(f"{name}.{key} is {found!r}: give a dictionary with a value for each type of GPU")
    return found


# The names of fields are put together only where they are told: a large cluster has some ten thousand of them.
def _count(value: Any, name: str, key: str, gpu_type: str | None = None) -> int:
    if type(value) is int and value >= 0:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or value < 0:
        raise PlanInputError(f"{_told(name, key, gpu_type)} is {value!r}: give a whole number of GPUs, 0 or more")
    return int(value)


def _seconds(value: Any, name: str, key: str, gpu_type: str | None = None) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise PlanInputError(f"{_told(name, key, gpu_type)} is {value!r}: give a number, 0 or more")
    return float(value)


def _told(name: str, key: str, gpu_type: str | None) -> str:
    return f"{name}.{key}" if gpu_type is None else f"{name}.{key}[{gpu_type!r}]"
