"""What running workloads used is sampled now and then, and counted in money."""

from decimal import Decimal
from uuid import UUID, uuid4

import pytest

from controlplane.cluster.port import GpuUse, TrainingUse
from controlplane.models import NodePool, Placement, Usage, Workload, WorkloadSample
from controlplane.queries.workloads import measured
from controlplane.services.workloads import samples
from controlplane.services.workloads.samples import Seat
from scheduler.model.workload import Phase
from tests.frontend.factory import NOW, World, document

USES = (GpuUse("a", 0, 0.9, 1000), GpuUse("a", 1, 0.7, 3000), GpuUse("b", 0, 0.5, 500))


def seat(uid: UUID, *gpus: int, kind: str = "training", is_whole: bool = True) -> Seat:
    return Seat(uid, kind, "a", gpus, is_whole)


def stored() -> list[tuple[UUID, float | None, int | None, float | None]]:
    return list(WorkloadSample.objects.order_by("at", "pk").values_list("workload", "duty", "memory", "step_seconds"))


@pytest.mark.django_db
def test_a_sample_is_the_mean_over_its_gpus_with_the_time_of_a_step() -> None:
    uid = uuid4()
    steps = [TrainingUse(str(uid), 1, 10, 0.25, None, None, None)]
    assert samples.note(at=NOW, found=[seat(uid, 0), seat(uid, 1)], uses=USES, steps=steps) == 1
    assert stored() == [(uid, 0.8, 2000, 0.25)]


@pytest.mark.django_db
def test_what_a_shared_or_silent_device_does_is_not_known() -> None:
    shared, silent = uuid4(), uuid4()
    found = [seat(shared, 0, kind="notebook", is_whole=False), seat(silent, 7)]
    samples.note(at=NOW, found=found, uses=USES, steps=())
    assert stored() == [(shared, None, None, None), (silent, None, None, None)]


@pytest.mark.django_db
def test_a_moment_is_kept_once() -> None:
    uid = uuid4()
    for at in (NOW, NOW):
        samples.note(at=at, found=[seat(uid, 0)], uses=USES, steps=())
    assert list(WorkloadSample.objects.values_list("at", flat=True)) == [NOW]


def test_only_running_workers_are_sampled_and_only_trainings_have_steps(db: None) -> None:
    world = World().base()
    training = world.add(document("training", "t", "nlp"), Phase.RUNNING)
    notebook = world.add(document("notebook", "n", "nlp"), Phase.RUNNING)
    for w in (training, notebook):
        if not w.placements.exists():
            world.place(w, "Bound")
    found = samples.seats()
    assert {(one.workload, one.is_whole) for one in found} == {(training.pk, True), (notebook.pk, False)}
    assert samples.trainings(found) == [str(training.pk)]
    Placement.objects.update(pod_phase="Pending")
    assert samples.seats() == ()


def test_a_workloads_cost_is_its_hours_at_each_pools_price(db: None) -> None:
    world = World().base()
    w = world.add(document("training", "t", "nlp"), Phase.RUNNING)
    if not w.placements.exists():
        world.place(w, "Bound")
    NodePool.objects.filter(name="a100").update(price_per_gpu_hour=Decimal("2.5"))
    NodePool.objects.filter(name="l40s").update(price_per_gpu_hour=Decimal("1"))
    for pool, hours in (("a100", 4), ("l40s", 2)):
        milli = hours * 3600 * 1000
        Usage.objects.create(
            team=w.team, workload=w.pk, name=w.name, pool=pool, hour=0, held=milli, computed=milli // 2
        )
    cost = measured.cost(Workload.objects.get(pk=w.pk))
    assert [(share.pool, share.spent.cost) for share in cost.shares] == [("a100", Decimal(10)), ("l40s", Decimal(2))]
    assert (cost.whole.cost, cost.wasted) == (Decimal(12), Decimal(6))
    assert cost.hourly == {"a100": Decimal("2.5"), "l40s": Decimal(1)}[w.placements.get().pool]
    Placement.objects.update(state="Released")
    assert measured.cost(w).hourly is None
