"""Notebooks on demand in the product: submitted, placed by host memory, moved between GPUs, shown and charged."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.db.models import Sum

from controlplane.cluster.port import IN_HOST_MEMORY, PodUse
from controlplane.cluster.simulated import Conditions, SimulatedCluster
from controlplane.domain.holds import Hold
from controlplane.jobspec.spec import SpecError
from controlplane.loops.embedded import Driver
from controlplane.loops.wiring import Wiring
from controlplane.models import Placement, Usage, User, Workload
from controlplane.queries.scheduling import ledger
from controlplane.queries.scheduling import snapshot as snapshots
from controlplane.queries.workloads import notebooks as queries
from controlplane.runtime.wake import Bell
from controlplane.services.cells import standing
from controlplane.services.errors import Refused
from controlplane.services.scheduling import policy
from controlplane.services.workloads import amending, presets
from controlplane.simulator.worlds import catalogue, notebooks
from controlplane.simulator.worlds.profiles import PROFILES
from gpushare.gpu import WHOLE, Enforcer, Share
from scheduler.model.cell import Cell
from scheduler.model.snapshot import Node
from tests.controlplane.simulation import node, pod, to_running
from tests.controlplane.state import NoMetrics, PodCluster, World, job
from tests.controlplane.state import node as machine

SHARE = {"guarantee": 0.2, "limit": 1.0, "memory": "30Gi"}
ASKED = {"gpu_share": SHARE, "cpu": 4, "memory": "8Gi"}
FILE = {"kind": "notebook", "image": "registry.example/n:1", "resources": ASKED, "on_demand": True}
READY = {"enforcer": Enforcer.ON_DEMAND.value}


def uses(world: SimulatedCluster, minutes: int) -> Iterator[dict[str, PodUse]]:
    """What is told of each pod, minute by minute."""
    for _ in range(minutes):
        world.advance(world.now() + 60.0)
        yield {use.workload: use for use in world.pods([pod.workload for pod in world.observe(None).pods])}


def test_a_job_file_books_as_much_memory_of_the_node_as_it_may_have_on_a_gpu() -> None:
    asked = job("explore", **FILE).resources
    assert asked.share == Share(200, WHOLE, 0, on_demand=30 * 1024)
    assert (asked.memory, asked.on_device) == (38 * 1024, (200, 0))
    plain = job("explore", **{**FILE, "on_demand": False}).resources
    assert (plain.memory, plain.on_device) == (8 * 1024, (200, 30 * 1024))


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"resources": {"gpus": 1}}, "on_demand"),
        ({"resources": {**ASKED, "gpu_share": {**SHARE, "affinity": "web"}}}, "resources.gpu_share.affinity"),
        ({"on_demand": "yes"}, "on_demand"),
        ({"kind": "training"}, "on_demand"),
    ],
)
def test_what_cannot_be_on_demand_is_refused_with_the_field(changed: dict[str, object], field: str) -> None:
    with pytest.raises(SpecError) as refused:
        job("explore", **{**FILE, **changed})
    assert field in [error.field for error in refused.value.errors]


@pytest.mark.django_db
def test_it_is_refused_where_no_node_is_set_up_for_it_and_names_what_there_is() -> None:
    with pytest.raises(Refused) as refused:
        World().submit("explore", **FILE)
    assert (refused.value.code, refused.value.field) == ("NotGiven", "on_demand")
    assert "node pools: main: back-end" in str(refused.value)


@pytest.mark.django_db
def test_on_a_node_that_is_nothing_else_is_taken() -> None:
    world = World(PodCluster({"a": machine("a", **READY)}))
    with pytest.raises(Refused) as refused:
        world.submit("share", **{**FILE, "on_demand": False})
    assert "on_demand: true only" in str(refused.value)
    made = world.submit("explore", **FILE)
    (taken,) = snapshots.full().inventory.nodes
    assert (taken.takes_whole, taken.takes_shares, taken.enforcer) == (False, True, "on-demand")
    ask = snapshots.full().workloads[str(made.pk)].ask
    assert ask == job("explore", **FILE).resources, "what is stored is what was asked"
    amending.patch(workload=made, changes={"resources": {**ASKED, "memory": "4Gi"}}, version=None, actor="ada")
    assert snapshots.full().workloads[str(made.pk)].ask.memory == 34 * 1024


@pytest.mark.django_db
def test_where_the_cluster_is_cut_into_cells_it_waits_with_what_it_was_submitted_with() -> None:
    nodes = {name: machine(name, rack=rack, **READY) for name, rack in (("a", "r1"), ("b", "r2"))}
    world = World(PodCluster(nodes))
    policy.change(changes={"scheduling": {"cells": {"north": {"racks": ["r1"]}}}}, author="ann")
    made = world.submit("explore", **FILE)
    (waits,) = standing.waiting()
    assert (waits.uid, waits.wanted.ask) == (made.pk, job("explore", **FILE).resources)
    on = standing.ground((Cell("north", racks=("r1",)),))
    assert on.pools(waits.cell, waits.wanted.ask) == ["main"]
    assert waits.wanted.asked == 200


def test_its_gpu_changes_from_cell_to_cell_and_no_gpu_has_more_memory_or_time_than_it_has() -> None:
    world = SimulatedCluster([_ready(gpus=2)], Conditions(), PROFILES)
    names = [f"n{number}" for number in range(5)]
    for number, name in enumerate(names):
        parts = {"milli": 200, "gpu_memory": 50_000, "memory": 60_000, "cpu_milli": 1000, "enforcer": "on-demand"}
        world.start([pod(name, {"type": "notebook", "on_demand": True}, f"a:{number % 2}", **parts)])
    to_running(world, *(f"{name}-1-0" for name in names))
    seen: dict[str, set[int | None]] = {name: set() for name in names}
    for told in uses(world, 90):
        on = [use.on_gpu for use in told.values()]
        for use in told.values():
            seen[use.workload].add(use.on_gpu)
            assert use.own_duty == 0 or use.on_gpu != IN_HOST_MEMORY, "what computes has a GPU"
        devices = world.gpus()
        for device in devices:
            assert on.count(device.index) <= 1, "two have not room on one"
            own = sum(use.own_duty or 0 for use in told.values() if use.on_gpu == device.index)
            assert own <= device.duty + 1e-9 <= 1 + 1e-9
    assert any({0, 1, IN_HOST_MEMORY} <= places for places in seen.values())


def test_a_lost_gpu_serves_no_cell() -> None:
    lost = SimulatedCluster([_ready(gpus=2, lost=(1,))], Conditions(), PROFILES)
    parts = {"milli": 200, "gpu_memory": 50_000, "memory": 60_000, "cpu_milli": 1000, "enforcer": "on-demand"}
    lost.start([pod("n", {"type": "notebook", "on_demand": True}, "a:0", **parts)])
    to_running(lost, "n-1-0")
    places = {use.on_gpu for told in uses(lost, 60) for use in told.values()}
    assert places == {0, IN_HOST_MEMORY}


@pytest.mark.django_db
def test_many_live_on_few_gpus_the_one_too_many_is_told_what_lacks_and_all_is_shown() -> None:
    preset = catalogue.load("notebooks", data=Path("nowhere"))
    presets.load(preset=preset, password="demo-password", speed=60.0)
    world = SimulatedCluster(preset.nodes, Conditions(seed=0, start=preset.start), PROFILES)
    Driver(Wiring(world, world, "test"), preset, Bell(), contain=False).run_to(preset.start + 1800.0)
    running = Workload.objects.filter(phase="Running")
    assert running.count() == notebooks.FIT
    assert notebooks.FIT * notebooks.ON_GPU > 1.8 * notebooks.GPUS * 48, "nearly twice what their GPUs have"
    waits = Workload.objects.get(phase="Queued")
    assert waits.message.startswith("Needs 38912 MiB of host memory on one node: 8192 MiB of its own, and 30720 MiB")
    held = Usage.objects.aggregate(held=Sum("held"))["held"]
    assert 0 < held <= notebooks.GPUS * WHOLE * 1800, "no GPU is charged for more than its time"
    entries = [one for device in ledger.devices(ledger.keys(), None) for one in device.entries]
    assert {one.hold for one in entries} == {Hold.ON_DEMAND}
    on = [one.on_gpu for one in entries]
    assert IN_HOST_MEMORY in on
    assert set(range(notebooks.GPUS)) & set(on)
    rows = {row.workload.pk: row for row in queries.rows(User.objects.filter(is_superuser=True)[0], list(running))}
    for uid, at in Placement.objects.filter(workload__in=running).values_list("workload_id", "on_gpu"):
        assert rows[uid].in_host_memory == (at == IN_HOST_MEMORY)
        assert rows[uid].gpus == (() if at == IN_HOST_MEMORY else (at,))


class Told(NoMetrics):
    """What the node tells of a notebook on demand."""

    said: PodUse | None = None

    def pods(self, workloads):
        return (self.said,) if self.said else ()


@pytest.mark.django_db
def test_only_time_on_a_gpu_is_charged_and_where_nothing_tells_it_its_guarantee() -> None:
    world = World(PodCluster({"a": machine("a", **READY)}), Told())
    made = world.submit("explore", **FILE)
    world.run(made, "a")
    world.account()

    def charged(own: float | None, on_gpu: int | None) -> tuple[int, int]:
        Usage.objects.all().delete()
        world.metrics.said = PodUse(str(made.pk), 1, 0, None, 100, 100, 0.0, own, on_gpu)
        for _ in range(2):  # where it is counts from the look after the first that tells it
            before = Placement.objects.get(workload=made).accounted_to
            Usage.objects.all().delete()
            world.later(100)
            world.observe()
            world.account()
        seconds = int(Placement.objects.get(workload=made).accounted_to - before)
        found = Usage.objects.filter(workload=made.pk).aggregate(h=Sum("held"), c=Sum("computed"))
        return (found["h"] or 0) // seconds, (found["c"] or 0) // seconds

    assert charged(0.6, 3) == (600, 600)
    assert Placement.objects.get(workload=made).on_gpu == 3
    assert charged(0.0, IN_HOST_MEMORY) == (0, 0)
    assert charged(None, None)[0] == 200


def _ready(**values: Any) -> Node:
    return replace(node("a"), **{**READY, **values})
