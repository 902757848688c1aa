"""Decisions carry the figures that they went by."""

from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Evict, Place
from scheduler.model.settings import Settings
from tests.worlds import parse


def terms(text: str, uid: str) -> dict[str, int | str]:
    decided = schedule(parse(text), Settings())
    return dict(next(d for d in decided if d.workload == uid and isinstance(d, Place | Evict)).terms)


def test_a_place_tells_its_level_its_nodes_and_what_is_left_there() -> None:
    assert terms("node a 4 gpus   team red nominal 4   w red training 1 pending", "w") == {
        "level": "nvlink",
        "nodes": 1,
        "idle_gpus_left": 3,
    }
    racks = "node a,b 2 gpus rack r zone z   node c 1 gpus rack s zone z   team red nominal 8\n"
    assert terms(racks + "w red training 1 x 3 pending", "w") == {"level": "rack", "nodes": 2, "idle_gpus_left": 1}
    assert terms(racks + "w red training 1 x 5 pending", "w")["level"] == "zone"
    assert terms("node a,b 1 gpus   team red nominal 8   w red training 1 x 2 pending", "w")["level"] == "cluster"


def test_work_without_gpus_is_on_one_node() -> None:
    assert terms("node a 1 gpus   team red nominal 4   w red training cpu 1 pending", "w")["level"] == "node"


def test_an_eviction_tells_what_is_held_and_lost() -> None:
    text = """
        at 1000   node a 2 gpus   team red nominal 4
        x red training 2 started 100 checkpointed 700 running a   w red training 1 priority 100 pending
    """
    assert terms(text, "x") == {"held_milli": 2000, "priority": 0, "unsaved_seconds": 300}
    assert terms(text, "w")["idle_gpus_left"] == 1
