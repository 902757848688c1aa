"""The tables of `tracemodels.py` from the trace files: `manage.py derive_models` writes them.

Whatever a table says of running times, crowds and hours is a mean over at least `crowds.MIN` jobs. A kind of jobs
(Philly: virtual cluster and GPUs; openb: shape and quality of service) has a class of its own from `OWN_CLASS` jobs on;
the others share one with the rare kinds of their size. Virtual clusters get names of ours. Shapes of openb with fewer
than `OWN_SHAPE` pods are left out as such: their pods are counted under the median shape of their like.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from statistics import median_low
from typing import Any, TypeVar

import numpy as np

from controlplane.simulator.worlds.crowds import Class, class_of, crowds_of, rhythm_of
from controlplane.simulator.worlds.openb import DAY
from controlplane.simulator.worlds.traces import NodeRow, OpenbRow, PhillyRow
from gpushare.gpu import WHOLE

OWN_CLASS, OWN_SHAPE, OWN_GROUP = 150, 20, 10
OWN_SIZE = 50  # of Philly's jobs, for a class of those with so many GPUs
GAP = 900.0  # s between two jobs of one crowd, at most
QUIET_PART = 0.01  # of openb's pods that come in its first three quarters
ABOUT = {
    "philly": (
        "After the published statistics of Microsoft's Philly trace (Jeon et al., USENIX ATC 2019; github.com/"
        "msr-fiddle/philly-traces, CC-BY-4.0), eight virtual clusters of 2017. Statistics only, of Weft's own making; "
        "no row of the trace. `manage.py derive_models` makes this file."
    ),
    "openb": (
        "After the published statistics of Alibaba's openb trace (Weng et al., USENIX ATC 2023; github.com/hkust-adsl/"
        "kubernetes-scheduler-simulator, Apache-2.0). Statistics only, of Weft's own making; no row of the trace. "
        "`manage.py derive_models` makes this file."
    ),
}
Row = TypeVar("Row", PhillyRow, OpenbRow)
Key = tuple[Any, ...]


def philly(rows: Sequence[PhillyRow]) -> dict[str, Any]:
    """The table of Philly's jobs."""
    by_vc = _grouped(rows, lambda row: (row.vc,))
    names = {vc: "abcdefghijklmnopqrstuvwxyz"[i] for i, (vc,) in enumerate(sorted(by_vc, key=_by_size(by_vc)))}
    kinds = _grouped(rows, lambda row: (names[row.vc], row.gpus))
    sizes = _grouped(rows, lambda row: (row.gpus,))

    def size(key: Key) -> str:
        return f"{key[1]} GPUs" if len(sizes[key[1:]]) >= OWN_SIZE else "other sizes"

    classes, of = _classes(kinds, size, lambda row: row.seconds)
    streams = [{"vc": vc, "gpus": gpus, "count": len(kinds[vc, gpus]), "class": of[vc, gpus]} for vc, gpus in kinds]
    return {"about": ABOUT["philly"], **_rhythm(kinds), "classes": classes, "streams": streams}


def openb(rows: Sequence[OpenbRow], machines: Sequence[NodeRow]) -> dict[str, Any]:
    """The table of openb's pods and machines."""
    ordered = sorted(rows, key=lambda row: (row.at, row.index))
    kinds = _shapes(ordered)
    busy = {key: late for key, of in kinds.items() if (late := [row for row in of if row.at >= _busy_from(ordered)])}
    classes, of = _classes(busy, _size, lambda row: min(row.seconds, DAY))
    streams = [
        {"cpu_milli": cpu, "memory": memory, "gpus": gpus, "milli": milli, "qos": qos, "count": len(pods)}
        | {"class": of[cpu, memory, gpus, milli, qos]}
        for (cpu, memory, gpus, milli, qos), pods in kinds.items()
    ]
    fleet = _counted(machines)
    return {"about": ABOUT["openb"], **_rhythm(busy), "machines": fleet, "classes": classes, "streams": streams}


def text(table: Mapping[str, Any]) -> str:
    """A table as it lies in `tables/`: JSON with one class, stream and kind of machine a line."""
    lines = []
    for name, value in table.items():
        if isinstance(value, dict):
            inner = ",\n".join(f"  {json.dumps(key)}: {_short(row)}" for key, row in value.items())
            lines.append(f" {json.dumps(name)}: {{\n{inner}\n }}")
        elif isinstance(value, list) and isinstance(value[0], dict):
            inner = ",\n".join(f"  {_short(row)}" for row in value)
            lines.append(f" {json.dumps(name)}: [\n{inner}\n ]")
        else:
            lines.append(f" {json.dumps(name)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _short(row: Mapping[str, Any]) -> str:
    return json.dumps(row, separators=(",", ":"))


def _grouped(rows: Sequence[Row], key_of: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    """The rows of each kind in order of time, kinds with the most rows first."""
    found: dict[Key, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row.at, row.index)):
        found.setdefault(key_of(row), []).append(row)
    return {key: found[key] for key in sorted(found, key=_by_size(found))}


def _by_size(groups: Mapping[Key, Sequence[Row]]) -> Callable[[Key], tuple[int, Key]]:
    return lambda key: (-len(groups[key]), key)


def _classes(
    kinds: Mapping[Key, Sequence[Row]], like: Callable[[Key], str], seconds: Callable[[Row], float]
) -> tuple[dict[str, Any], dict[Key, str]]:
    """The classes by name, and the name of each kind's; `like` names the one that rare kinds of a size share."""
    of: dict[Key, str] = {}
    for number, (key, rows) in enumerate(kinds.items(), start=1):
        of[key] = f"kind {number}" if len(rows) >= OWN_CLASS else like(key)
    parts: dict[str, list[Any]] = {}
    for key, rows in kinds.items():
        at, ran = np.array([row.at for row in rows]), np.array([seconds(row) for row in rows])
        parts.setdefault(of[key], []).append((at, ran))
    made: dict[str, Class] = {name: class_of(some, GAP) for name, some in parts.items()}
    return {name: one.to_dict() for name, one in made.items()}, of


def _rhythm(kinds: Mapping[Key, Sequence[Row]]) -> dict[str, Any]:
    """When crowds of all kinds begin."""
    begins = []
    for rows in kinds.values():
        at = np.array([row.at for row in rows])
        begins.append(at[np.unique(crowds_of(at, GAP), return_index=True)[1]])
    rhythm = rhythm_of(np.concatenate(begins))
    return {"hours": rhythm.hours, "weekdays": rhythm.weekdays}


def _busy_from(ordered: Sequence[OpenbRow]) -> float:
    return ordered[int(len(ordered) * QUIET_PART)].at


def _shapes(rows: Sequence[OpenbRow]) -> dict[Key, list[OpenbRow]]:
    """The pods by (cpu_milli, memory, gpus, milli, qos): frequent shapes as they are, the rest by medians."""
    exact = _grouped(rows, lambda row: (row.cpu_milli, row.memory, row.gpus, row.milli, row.qos))
    found = {key: pods for key, pods in exact.items() if len(pods) >= OWN_SHAPE}
    rest = [row for pods in exact.values() if len(pods) < OWN_SHAPE for row in pods]
    groups = _grouped(rest, lambda row: (row.gpus, row.gpus == 1 and row.milli < WHOLE, row.qos))
    for (gpus, is_share, _), pods in list(groups.items()):
        large = next(key for key in groups if key[:2] == (gpus, is_share))  # the largest comes first
        if len(pods) < OWN_GROUP and groups[large] is not pods:
            groups[large] += pods
            groups = {key: some for key, some in groups.items() if some is not pods}
    for (_, _, qos), pods in groups.items():
        middle = [median_low(x) for x in zip(*((r.cpu_milli, r.memory, r.gpus, r.milli) for r in pods), strict=True)]
        found.setdefault((*middle, qos), []).extend(pods)
    return {key: sorted(pods, key=lambda row: (row.at, row.index)) for key, pods in found.items()}


def _size(key: Key) -> str:
    _, _, gpus, milli, qos = key
    asked = "several GPUs" if gpus > 1 else "no GPU" if not gpus else "a share" if milli < WHOLE else "a GPU"
    return f"{qos if qos in ('BE', 'LS') else 'other'}, {asked}"


def _counted(machines: Sequence[NodeRow]) -> list[dict[str, Any]]:
    counts: dict[Key, int] = {}
    for one in machines:
        key = (one.model, one.gpus, one.cpu_milli, one.memory)
        counts[key] = counts.get(key, 0) + 1
    return [
        {"model": model, "gpus": gpus, "cpu_milli": cpu, "memory": memory, "count": count}
        for (model, gpus, cpu, memory), count in sorted(counts.items())
    ]
