"""What a job file says of the batch of its training: how many examples a step has, and how many it may have."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from controlplane.jobspec.shapes import BAD, Faults


@dataclass(frozen=True, slots=True)
class Batch:
    """Examples of all workers in a step: what it begins with, the least and the most that it may be given."""

    size: int
    min: int
    max: int


def of_values(values: Mapping[str, Any] | None) -> Batch | None:
    """The batch that was read without a fault; None: there is none."""
    if not values:
        return None
    size = values["size"]
    return Batch(size, values["min"] or size, values["max"] or size)


def normalised(batch: Batch) -> dict[str, int]:
    """As it is stored beside the text."""
    return asdict(batch)


def stored(document: Mapping[str, Any]) -> Batch | None:
    """The batch of a stored job file; None: it names none."""
    found = (document.get("normalised") or {}).get("batch")
    return Batch(**found) if found else None


def check(values: Mapping[str, Any], faults: Faults) -> None:
    """Note bounds that the size is not between, and a least batch that leaves a GPU without an example."""
    given = values.get("batch")
    if given in (None, BAD) or BAD in given.values():
        return
    size, least, most = given["size"], given["min"], given["max"]
    if least is not None and least > size:
        faults.add("batch.min", f"batch.min is {least} but batch.size is {size}. Set min to at most {size}.")
    if most is not None and most < size:
        faults.add("batch.max", f"batch.max is {most} but batch.size is {size}. Set max to at least {size}.")
    gpus, smallest = _gpus(values), min(size, least or size)
    if smallest < gpus:
        name = "batch.size" if least is None else "batch.min"
        what = f"{name} is {smallest}, but it may have {gpus} GPUs, and each needs an example in every step."
        faults.add(name, f"{what} Set it to at least {gpus}.")


def _gpus(values: Mapping[str, Any]) -> int:
    """Of all workers that it may have; 0 where that could not be read."""
    workers, asked = values["workers"], values["resources"]
    if BAD in (workers, asked) or BAD in (workers["count"], workers["max"], asked["gpus"]):
        return 0
    return int((workers["max"] or workers["count"]) * (asked["gpus"] or 0))
