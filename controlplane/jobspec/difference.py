"""In which fields two job files mean something else."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from controlplane.jobspec.spec import Spec, parse

KEPT_BESIDE = ("normalised", "simulated")  # what the server stores with a job file


def difference(stored: Mapping[str, Any], wanted: Spec) -> dict[str, Any]:
    """The fields in which a stored job file means something else, as `wanted` has them; None where it has none.

    A field that is written otherwise and means the same (1Gi, 1024Mi) does not differ.
    """
    before = {name: value for name, value in stored.items() if name not in KEPT_BESIDE}
    names = [*wanted.text, *(name for name in before if name not in wanted.text)]
    known, out = _meaning(before), {}
    for name in names:
        value = wanted.text.get(name)
        if value != before.get(name) and _meaning({**before, name: value}) != known:
            out[name] = value
    return out


def _meaning(document: Mapping[str, Any]) -> Spec:
    return replace(parse({name: value for name, value in document.items() if value is not None}), text={})
