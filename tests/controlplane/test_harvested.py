"""What a worker in the time of shares is charged: what was measured of it, and nothing of a GPU twice."""

import pytest
from django.db.models import Sum
from hypothesis import given
from hypothesis import strategies as st

from controlplane.cluster.port import GpuUse, PodUse
from controlplane.lifecycle.harvested import NOTHING, Part, Tenant, parts
from controlplane.models import Placement, Usage
from controlplane.queries.scheduling import ledger
from gpushare.gpu import WHOLE
from tests.controlplane.harvesting import ON, harvested
from tests.controlplane.state import NoMetrics, World


class Told(NoMetrics):
    """What holds shares to their parts tells of each pod, by workload; None: nothing."""

    own: dict[str, float | None] = {}

    def gpus(self):
        return (GpuUse(ON, 0, 1.0, 1000),)

    def pods(self, workloads):
        told = [(one, self.own[one]) for one in workloads if one in self.own]
        return tuple(PodUse(uid, 1, 0, None, 100, 100, 0.0, own) for uid, own in told)


def used(*names: str) -> tuple[int, int]:
    """(held, computed) milli-GPU seconds of these workloads."""
    found = Usage.objects.filter(name__in=names).aggregate(h=Sum("held"), c=Sum("computed"))
    return found["h"] or 0, found["c"] or 0


@pytest.fixture
def world(db: None) -> World:
    """A share of a quarter, and beside it a training that harvests; both run."""
    made = harvested(Told())
    made.metrics.own = {}
    return made


def passed(world: World, seconds: float, **own: float | None) -> int:
    """Account so many seconds in which that was told."""
    uids = dict(Placement.objects.values_list("workload__name", "workload_id"))
    world.metrics.own = {str(uids[name]): value for name, value in own.items()}
    before = Placement.objects.filter(workload__name="share").get().accounted_to
    world.later(seconds)
    world.observe()
    world.account()
    return int(Placement.objects.filter(workload__name="share").get().accounted_to - before)


def test_what_it_measurably_computed_beside_the_guarantee_is_charged(world: World) -> None:
    seconds = passed(world, 100, share=0.1, gang=0.6)
    assert used("gang") == (600 * seconds, 600 * seconds)
    assert used("share") == (250 * seconds, 100 * seconds)


def test_time_that_a_share_pays_for_is_computed_and_not_charged_again(world: World) -> None:
    seconds = passed(world, 100, share=0.0, gang=1.0)
    assert used("gang") == (750 * seconds, 1000 * seconds)
    assert sum(used(name)[0] for name in ("share", "gang")) == WHOLE * seconds


def test_it_never_has_more_than_what_the_share_left(world: World) -> None:
    seconds = passed(world, 100, share=0.5, gang=0.9)
    assert used("gang") == (500 * seconds, 500 * seconds)


def test_where_nothing_is_measured_of_it_nothing_is_charged(world: World) -> None:
    passed(world, 100)
    assert used("gang") == (0, 0)
    passed(world, 100, share=0.5, gang=None)
    assert used("gang") == (0, 0)
    assert used("share")[0] > 0


def test_on_the_gpu_of_a_replica_on_standby_nothing_is_charged(world: World) -> None:
    Placement.objects.filter(workload__name="share").update(milli=WHOLE)
    passed(world, 100, share=0.0, gang=1.0)
    assert used("gang") == (0, 0)


def test_the_ledger_of_gpus_has_what_is_told_of_each(world: World) -> None:
    passed(world, 10, share=0.1, gang=0.6)
    (gpu,) = ledger.devices([(ON, 0)], None)
    assert [(one.hold.value, one.duty) for one in gpu.entries] == [("share", 0.1), ("harvest", 0.6)]
    passed(world, 10, share=0.2)
    (gpu,) = ledger.devices([(ON, 0)], None)
    assert [one.duty for one in gpu.entries] == [0.2, None]


DUTY = st.none() | st.floats(0, 1.05)


@given(st.lists(st.tuples(st.integers(1, 500), DUTY), max_size=4), st.lists(DUTY, max_size=3))
def test_a_gpu_is_never_charged_nor_computed_more_than_once(
    shares: list[tuple[int, float | None]], gangs: list[float | None]
) -> None:
    kept: list[Tenant] = []
    for guarantee, own in shares:
        if sum(one.guarantee for one in kept) + guarantee <= WHOLE:
            kept.append(Tenant(guarantee, own))
    there = [*kept, *(Tenant(0, own) for own in gangs)]
    found = parts(there)
    assert found[: len(kept)] == [NOTHING] * len(kept)
    assert sum(one.guarantee for one in kept) + sum(part.charged for part in found) <= WHOLE
    ran = sum(min(one.guarantee, one.guarantee if one.own is None else int(one.own * WHOLE)) for one in kept)
    assert ran + sum(part.computed for part in found) <= WHOLE
    assert all(part.charged <= part.computed for part in found)


def test_two_that_harvest_divide_what_is_left() -> None:
    assert parts([Tenant(250, 0.25), Tenant(0, 0.5), Tenant(0, 0.5)]) == [NOTHING, Part(500, 500), Part(250, 250)]
