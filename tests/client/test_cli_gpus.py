"""The command line: the ledger of GPUs."""

import json

from tests.client.conftest import Weft
from tests.client.scripted import Scripted, page

NOTEBOOK = {
    "team": "nlp", "workload": "u", "name": "explore", "milli": 250, "hold": "share", "may_use_milli": 1000,
    "may_use_memory_mib": 8192, "measured_duty": None, "measured_memory_mib": None, "is_leaving": False,
}  # fmt: skip
HARVEST = {
    "team": "vision", "workload": None, "name": None, "milli": 0, "hold": "harvest", "may_use_milli": 1000,
    "may_use_memory_mib": None, "measured_duty": 0.4199, "measured_memory_mib": 512, "is_leaving": True,
}  # fmt: skip
BUSY = {
    "node": "a", "index": 0, "pool": "main", "gpu_model": "A100", "gpu_memory_mib": 81_920, "healthy": True,
    "duty": 0.9, "memory_used_mib": 9000, "neighbours": 1, "enforced_by": "weft", "tenants": [NOTEBOOK, HARVEST],
}  # fmt: skip
FREE = {"node": "a", "index": 1, "pool": "main", "healthy": True, "duty": None, "neighbours": 0, "tenants": []}
LOST = {**FREE, "index": 2, "healthy": False}


def test_each_worker_on_a_gpu_is_a_line_and_so_is_a_free_gpu(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", "/gpus", page(BUSY, FREE, LOST))
    head, *lines = weft("gpus", "--node", "a", "--pool", "main", "--shared").out.splitlines()
    assert head.split("  ")[0] == "GPU"
    assert [line.split() for line in lines] == [
        ["a/0", "nlp/explore", "share", "0.25", "1", "8", "GiB", "-", "90", "%", "1", "weft"],
        ["a/0", "vision/-", "harvest,leaving", "0", "1", "-", "41", "%", "90", "%", "1", "weft"],
        ["a/1", "free", "-", "-", "-", "-", "-", "-", "0", "-"],
        ["a/2", "unhealthy", "-", "-", "-", "-", "-", "-", "0", "-"],
    ]
    (asked,) = signed_in.sent("GET", "/gpus")
    assert {name: asked.query[name] for name in ("node", "pool", "shared")} == {
        "node": "a", "pool": "main", "shared": "true",
    }  # fmt: skip


def test_programs_get_the_servers_answers_and_all_gpus_are_asked_for_without_a_switch(
    signed_in: Scripted, weft: Weft
) -> None:
    signed_in.on("GET", "/gpus", page(BUSY))
    assert json.loads(weft("gpus", "-o", "json").out) == [BUSY]
    assert weft("gpus", "-o", "name").out == "a/0\n"
    assert "512 MiB" in weft("gpus", "-o", "wide").out
    assert not {"node", "pool", "shared"} & signed_in.sent("GET", "/gpus")[0].query.keys()


def test_where_no_gpu_is_shared_that_is_said(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", "/gpus", page())
    assert weft("gpus", "--shared").err == "No GPU is shared or lent there.\n"
