"""Where workers go: nodes, devices, topology, models."""

import pytest

from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Place, Reason
from scheduler.model.settings import Placement, Settings
from scheduler.model.snapshot import Snapshot
from tests.worlds import messages, moves, parse, place, reasons


def spots(world: Snapshot, name: str) -> list[tuple[str, tuple[int, ...]]]:
    found = [d for d in schedule(world, Settings()) if isinstance(d, Place) and d.workload == name]
    return [(w.node, w.gpus) for w in found[0].workers] if found else []


def test_whole_gpus_go_where_the_fewest_stay_idle() -> None:
    world = parse("""
        node a 8 gpus   node b 8 gpus   team red nominal 16
        x red training 5 running b   r1 red training 2 pending
    """)
    assert moves(schedule(world, Settings())) == [place("r1", "b")]


def test_whole_gpus_never_go_on_a_shared_one() -> None:
    world = parse("""
        node a 2 gpus   team red nominal 4
        n red notebook share 0.1 running a   r1 red training 2 pending   r2 red training 1 pending
    """)
    assert spots(world, "r2") == [("a", (1,))]
    assert spots(world, "r1") == []


def test_shares_gather_on_one_gpu() -> None:
    world = parse("""
        node a 4 gpus   team red nominal 4
        n1 red notebook share 0.3 running a:2   n2 red notebook share 0.3 pending   n3 red notebook share 0.4 pending
    """)
    assert spots(world, "n2") == [("a", (2,))]
    assert spots(world, "n3") == [("a", (2,))]


def test_a_share_takes_the_tightest_gpu_of_the_whole_cluster() -> None:
    world = parse("""
        node a,b 2 gpus   team red nominal 4
        n1 red notebook share 0.3 running a   n2 red notebook share 0.5 running b   n3 red notebook share 0.5 pending
    """)
    assert spots(world, "n3") == [("b", (0,))]


def test_nothing_goes_on_a_lost_gpu() -> None:
    world = parse("""
        node a 3 gpus lost 0,1   team red nominal 4
        n red notebook share 0.5 pending   r red training 1 pending
    """)
    assert spots(world, "n") == [("a", (2,))]
    assert reasons(schedule(world, Settings())) == {"r": Reason.WAITING_FOR_CAPACITY}


@pytest.mark.parametrize("state", ["down", "cordoned"])
def test_nothing_goes_on_a_node_out_of_use(state: str) -> None:
    world = parse(f"node a 4 gpus {state}   node b 1 gpus   team red nominal 4   r1 red training 1 pending")
    assert moves(schedule(world, Settings())) == [place("r1", "b")]


def test_cpu_and_memory_of_the_node_bound_as_well() -> None:
    world = parse("""
        node a 4 gpus cpu 8 ram 1000   node b 4 gpus cpu 16 ram 2000   team red nominal 8
        x red training 1 running a
        r1 red training 1 cpu 10 pending   r2 red training 1 ram 1500 cpu 6 pending   r3 red training 1 cpu 9 pending
    """)
    decisions = schedule(world, Settings())
    assert moves(decisions) == [place("r1", "b"), place("r2", "b")]
    assert "lack cores or memory" in messages(decisions)["r3"]


def test_work_without_gpus_goes_to_nodes_without_gpus_first() -> None:
    world = parse("node a 4 gpus cpu 8   cpu-node c cpu 64   team red nominal 4   r1 red training cpu 4 pending")
    assert moves(schedule(world, Settings())) == [place("r1", "c")]


def test_work_without_gpus_strands_the_fewest_gpus() -> None:
    world = parse("""
        node a 4 gpus cpu 8   node b 4 gpus cpu 8   team red nominal 8
        x red training 3 running b   r1 red training cpu 4 pending
    """)
    assert moves(schedule(world, Settings())) == [place("r1", "b")]


def test_the_model_asked_for_is_given() -> None:
    world = parse("""
        node a 4 gpus model t4   node b 4 gpus model h100   team red nominal 4
        r1 red training 1 models h100 pending
    """)
    assert moves(schedule(world, Settings())) == [place("r1", "b")]


def test_models_are_tried_in_the_order_asked() -> None:
    world = parse("""
        node a 4 gpus model t4   node b 4 gpus model h100   team red nominal 4
        r1 red training 1 models h100,t4 pending   r2 red training 1 models t4,h100 pending
    """)
    assert moves(schedule(world, Settings())) == [place("r1", "b"), place("r2", "a")]


def test_without_a_model_the_smallest_gpu_that_does_is_given() -> None:
    world = parse("""
        node a 4 gpus model h100 memory 80000   node b 4 gpus model t4 memory 16000   team red nominal 4
        r1 red training 1 pending   r2 red training 1 gpumem 40000 pending
    """)
    assert moves(schedule(world, Settings())) == [place("r1", "b"), place("r2", "a")]


def test_owned_quota_comes_before_borrowed_quota() -> None:
    world = parse("""
        node a 4 gpus model t4   node b 4 gpus model h100   team red
        quota red pool h100 nominal 4
        r1 red training 1 pending
    """)
    assert moves(schedule(world, Settings())) == [place("r1", "b")]


def test_a_workers_gpus_share_an_nvlink_domain_when_they_can() -> None:
    world = parse("""
        node a 8 gpus nvlink 4   team red nominal 8
        x red training 1 running a:0   y red training 1 running a:4   z red training 1 running a:5
        r1 red training 2 pending
    """)
    assert spots(world, "r1") == [("a", (6, 7))]


def test_a_required_nvlink_domain_is_kept() -> None:
    world = parse("""
        node a 8 gpus nvlink 4   team red nominal 8
        x red training 3 running a:0,4,5
        r1 red training 4 require nvlink pending   r2 red training 3 require nvlink pending
    """)
    decisions = schedule(world, Settings())
    assert spots(world, "r2") == [("a", (1, 2, 3))]
    assert reasons(decisions) == {"r1": Reason.TOPOLOGY_PLACEMENT_FAILED}


def test_replicas_of_a_service_each_keep_to_a_required_nvlink_domain() -> None:
    world = parse("""
        node a 8 gpus nvlink 4   team red nominal 8
        x red training 1 running a:0   y red training 1 running a:4
        s red inference 2 x 1..3 require nvlink pending
    """)
    assert spots(world, "s") == [("a", (1, 2)), ("a", (5, 6))]


# The scorers of single workers and replicas need no demand here, as the first place that fits is taken.
FIRST = Settings(placement=Placement.FIRST_FIT)
SPLIT = "node a 4 gpus nvlink 2   team red nominal 8   x red training 1 running a:0   y red training 1 running a:2\n"
LINKED = SPLIT + "node b 4 gpus nvlink 2   z red training 2 running b:0,1\n"


@pytest.mark.parametrize(
    ("line", "node"),
    [
        ("w red training 2 pending", "b"),  # where one NVLink domain takes it
        ("w red training 1 pending", "a"),  # one GPU needs none
        ("w red inference 2 pending", "a"),  # replicas are packed
        ("w red inference 2 require nvlink pending", "b"),  # unless they ask for one
    ],
)
def test_a_scored_worker_with_several_gpus_goes_where_one_nvlink_domain_takes_it(line: str, node: str) -> None:
    assert moves(schedule(parse(LINKED + line), FIRST)) == [place("w", node)]


def test_a_scored_worker_spans_domains_where_none_takes_it_whole() -> None:
    assert moves(schedule(parse(SPLIT + "w red training 2 pending"), FIRST)) == [place("w", "a")]


def test_a_gang_is_not_scored_worker_by_worker() -> None:
    world = parse("node a 1 gpus   node b 2 gpus   team red nominal 8   w red training 1 x 2 pending")
    assert moves(schedule(world, FIRST)) == [place("w", "b", "b")]


def test_what_a_scorer_finds_no_place_for_waits() -> None:
    world = parse("node a 2 gpus   team red nominal 8   x red training 1 firm running a   w red training 2 pending")
    assert moves(schedule(world, FIRST)) == []
