import ast
import inspect

import pytest

from scheduler.model.workload import ResourceRequest
from scheduler.placement import fgd, fits, loops
from scheduler.placement.fgd import Fragmentation
from scheduler.placement.fits import BestFit, FirstFit
from scheduler.placement.fleet import devices_of, take, want_of
from scheduler.placement.packable import PackableCapacity
from scheduler.placement.prices import Prices
from scheduler.placement.rows import BITS
from tests.scheduler.placement.fleets import cluster, demand, empty, everywhere, node, share


def free(fleet, *rows):
    for at, row in enumerate(rows):
        fleet.gpu[at, : len(row)] = [milli << BITS for milli in row]


def test_first_fit_takes_the_first_node_and_its_fullest_device():
    fleet, kinds = cluster(node("a", 2), node("b", 2))
    free(fleet, (1000, 600), (500, 500))
    assert FirstFit().choose(fleet, want_of(share(500), kinds), everywhere(fleet)) == (0, 1)
    assert FirstFit().choose(fleet, want_of(ResourceRequest(gpus=2), kinds), everywhere(fleet)) is None


def test_best_fit_takes_the_node_with_the_least_left():
    fleet, kinds = cluster(node("a", 2), node("b", 2), node("c", 2, cpu=8))
    free(fleet, (1000, 600), (500, 500), (500, 500))
    assert BestFit(64_000, 2).choose(fleet, want_of(share(500), kinds), everywhere(fleet)) == (2, 0)


def test_fgd_takes_the_place_that_typical_work_cannot_use():
    fleet, kinds = cluster(node("a", 1), node("b", 1), node("c", 1))
    free(fleet, (1000,), (700,), (300,))
    scorer = Fragmentation(demand(fleet, kinds, {share(700): 60, share(300): 40}), kinds)
    assert scorer.choose(fleet, want_of(share(300), kinds), everywhere(fleet)) == (2, 0)


def test_fgd_fills_what_is_too_small_for_typical_work_on_a_node_that_takes_it():
    fleet, kinds = cluster(node("a", 2))
    free(fleet, (1000, 300))
    scorer = Fragmentation(demand(fleet, kinds, {share(700): 60}), kinds)
    assert scorer.choose(fleet, want_of(share(300), kinds), everywhere(fleet)) == (0, 1)


def test_fgd_asks_the_cores_too():
    fleet, kinds = cluster(node("a", 1, cpu=16), node("b", 1, cpu=4))
    scorer = Fragmentation(demand(fleet, kinds, {ResourceRequest(gpus=1, cpu_milli=8000): 60}), kinds)
    assert scorer.choose(fleet, want_of(share(500, cpu_milli=2000), kinds), everywhere(fleet)) == (1, 0)


def test_a_whole_node_costs_more_the_fewer_are_left():
    fleet, kinds = cluster(*(node(f"a{i}", 8) for i in range(4)))
    prices = Prices(demand(fleet, kinds, {ResourceRequest(gpus=8): 10, share(100): 90}), kinds, fleet, *empty(fleet))
    everything = want_of(share(100), kinds).may
    many, _ = prices.now(fleet, everything, 100)
    fleet.gpu[1:] = 0
    fleet.version[1:] += 1
    few, _ = prices.now(fleet, everything, 100)
    assert 0 <= many[0] <= 0.5 * 8000
    # What is left of the cluster shrank as the supply did, so the price is alike; with the supply alone gone it rises.
    fleet.gpu[1:] = 500 << BITS
    fleet.version[1:] += 1
    gone, _ = prices.now(fleet, everything, 100)
    assert gone[0] > few[0]


def test_only_work_that_may_go_elsewhere_pays_for_a_scarce_model():
    fleet, kinds = cluster(node("a", 8), node("b", 1, "b"))
    prices = Prices(
        demand(fleet, kinds, {ResourceRequest(gpus=1, models=("b",)): 30, ResourceRequest(gpus=1): 70}),
        kinds,
        fleet,
        *empty(fleet),
    )
    _, anybody = prices.now(fleet, want_of(ResourceRequest(gpus=1), kinds).may, 1000)
    _, bound = prices.now(fleet, want_of(ResourceRequest(gpus=1, models=("b",)), kinds).may, 1000)
    assert [model for model, _ in kinds] == ["a", "b"]
    assert anybody[0] == 0
    assert 0 < anybody[1] <= 1000  # no more than the worker itself
    assert not bound.any()


def test_taking_a_place_changes_its_row_and_version_only():
    fleet, kinds = cluster(node("a", 2), node("b", 2))
    numbers = want_of(share(300, 4000, cpu_milli=2000, memory=1000), kinds).numbers
    take(fleet, 1, devices_of(fleet, 1, 1, numbers), numbers)
    assert (fleet.gpu[1] >> BITS).tolist() == [1000, 700]
    assert (fleet.gpu[1] & ((1 << BITS) - 1)).tolist() == [16_000, 12_000]
    assert fleet.host[1].tolist() == [62_000, 511_000]
    assert fleet.version.tolist() == [0, 1]


@pytest.mark.parametrize("module", [loops, fgd, fits], ids=lambda module: module.__name__)
def test_compiled_code_calls_no_compiled_code_of_another_module(module):
    """The cached machine code of a module does not notice a change in another one."""
    tree = ast.parse(inspect.getsource(module))
    imported = {
        name.asname or name.name
        for found in ast.walk(tree)
        if isinstance(found, ast.ImportFrom) and (found.module or "").startswith("scheduler.placement")
        for name in found.names
    }
    compiled = [
        function
        for function in tree.body
        if isinstance(function, ast.FunctionDef)
        and "compiled" in [getattr(decorator, "id", "") for decorator in function.decorator_list]
    ]
    assert compiled
    for function in compiled:
        called = {c.func.id for c in ast.walk(function) if isinstance(c, ast.Call) and isinstance(c.func, ast.Name)}
        assert not called & imported


def test_work_that_is_too_large_for_other_nodes_counts_as_bound_to_the_kind_that_takes_it():
    fleet, kinds = cluster(node("a", 8, cpu=64), node("b", 8, "b", cpu=128))
    large = {ResourceRequest(gpus=8, cpu_milli=100_000): 30, ResourceRequest(gpus=1): 70}
    prices = Prices(demand(fleet, kinds, large), kinds, fleet, *empty(fleet))
    _, by_kind = prices.now(fleet, want_of(ResourceRequest(gpus=1), kinds).may, 1000)
    assert by_kind[0] == 0 < by_kind[1]


@pytest.mark.parametrize("is_compiled", [False, True])
def test_work_without_gpus_leaves_the_cores_that_whole_nodes_need(is_compiled):
    fleet, kinds = cluster(node("a", 8, cpu=64), node("b", 1, cpu=8))
    singles = {ResourceRequest(gpus=1, cpu_milli=1000 * cores): 10 for cores in (1, 2, 3)}  # they fill either node
    known = demand(fleet, kinds, {ResourceRequest(gpus=8, cpu_milli=60_000): 30, **singles})
    scorer = PackableCapacity(known, kinds, fleet, *empty(fleet), is_compiled=is_compiled)
    assert scorer.choose(fleet, want_of(ResourceRequest(cpu_milli=8000), kinds), everywhere(fleet)) == (1, -1)
