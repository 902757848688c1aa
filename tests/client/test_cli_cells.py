"""The command line: the cells of a cluster that is cut into some."""

import json

from tests.client.conftest import Weft
from tests.client.scripted import Scripted, page

NORTH = {
    "name": "north", "node_pools": ["a100"], "racks": ["r1", "r2"], "nodes": 4, "capacity_milli": 32_000,
    "allocated_milli": 12_500, "running": 7, "waiting": 3, "quotas": [],
    "decider": {"state": "late", "holder": "host-7", "seconds_since_round": 95.2, "round_ms": 12.0, "error": None},
}  # fmt: skip
NEW = {"state": "none", "holder": None, "seconds_since_round": None, "round_ms": 0.0, "error": None}
REST = {**NORTH, "name": "rest", "node_pools": [], "racks": [], "decider": NEW}


def test_cells_are_listed(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", "/cells", page(NORTH, REST))
    assert weft("get", "cells").out.splitlines() == [
        "NAME    DECIDER   LAST ROUND   NODES   GPUS   ALLOCATED   RUNNING   WAITING",
        "north   late          1m ago       4     32        12.5         7         3",
        "rest    none               -       4     32        12.5         7         3",
    ]
    wide = weft("get", "cell", "north", "-o", "wide").out
    assert all(word in wide for word in ("a100", "r1,r2", "host-7"))
    assert json.loads(weft("get", "cells", "north", "-o", "json").out) == NORTH


def test_a_cluster_that_is_one_cell_says_so(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", "/cells", page())
    ran = weft("get", "cells")
    assert (ran.code, ran.out, ran.err) == (0, "", "This cluster is one cell.\n")
    assert weft("get", "cells", "north").err == "error: There is no cells north that you may see.\n"
