"""Rows of our own making that are like those of Philly and openb: what TRACE= runs where the trace files are not there.

`tables/*.json` hold statistics of the traces (`deriving.py` makes them; `crowds.py` says which they are), no row of
them. The rows drawn from them go the same way as those of the files: `philly.py` and `openb.py`.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from controlplane.simulator import tables
from controlplane.simulator.worlds.crowds import Class, Rhythm, drawn
from controlplane.simulator.worlds.traces import NodeRow, OpenbRow, PhillyRow

MACHINE_SEED, NEIGHBOURS = 0, 3.0  # machines of one kind that stand next to each other, on average


def philly(seed: int) -> list[PhillyRow]:
    """Jobs like Philly's, in order of time; another seed draws others."""
    table = read_table("philly")
    rows = [
        (at, seconds, stream["gpus"], stream["vc"])
        for stream, at, seconds in _jobs(table, np.random.default_rng([seed, 1]))
    ]
    ordered = sorted(rows)
    return [PhillyRow(index, at, seconds, gpus, vc) for index, (at, seconds, gpus, vc) in enumerate(ordered)]


def openb(seed: int) -> list[OpenbRow]:
    """Pods like openb's, in order of time; another seed draws others."""
    table = read_table("openb")
    drawn_ = _jobs(table, np.random.default_rng([seed, 2]))
    rows = [(at, i, seconds, stream) for i, (stream, at, seconds) in enumerate(drawn_)]
    ordered = sorted(rows, key=lambda row: row[:2])
    return [
        OpenbRow(
            index=index,
            at=at,
            seconds=seconds,
            cpu_milli=stream["cpu_milli"],
            memory=stream["memory"],
            gpus=stream["gpus"],
            milli=stream["milli"],
            models=(),
            qos=stream["qos"],
        )
        for index, (at, _, seconds, stream) in enumerate(ordered)
    ]


def machines() -> list[NodeRow]:
    """Machines like openb's: as many of each kind, in an order of our own, always the same."""
    kinds = read_table("openb")["machines"]
    rng = np.random.default_rng(MACHINE_SEED)
    runs: list[tuple[int, int]] = []  # kind, how many next to each other
    for number, kind in enumerate(kinds):
        left = kind["count"]
        while left:
            run = min(left, int(rng.geometric(1 / NEIGHBOURS)))
            runs.append((number, run))
            left -= run
    ordered = [kinds[runs[i][0]] for i in rng.permutation(len(runs)).tolist() for _ in range(runs[i][1])]
    return [
        NodeRow(f"node-{i:04}", kind["cpu_milli"], kind["memory"], kind["gpus"], kind["model"])
        for i, kind in enumerate(ordered)
    ]


@cache
def read_table(name: str) -> Mapping[str, Any]:
    """One of the tables."""
    found: Mapping[str, Any] = json.loads(resources.files(tables).joinpath(f"{name}.json").read_text())
    return found


def _jobs(table: Mapping[str, Any], rng: np.random.Generator) -> list[tuple[Mapping[str, Any], float, float]]:
    """(stream, when, how long) of every job, stream after stream."""
    classes = {name: Class.of_row(row) for name, row in table["classes"].items()}
    rhythm = Rhythm(table["hours"], table["weekdays"])
    found: list[tuple[Mapping[str, Any], float, float]] = []
    for stream in table["streams"]:
        at, seconds = drawn(classes[stream["class"]], stream["count"], rhythm, rng)
        found += zip([stream] * len(at), at.tolist(), seconds.tolist(), strict=True)
    return found
