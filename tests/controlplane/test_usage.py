"""Accounting: exact, to the second, the same however often and whenever it runs."""

import pytest
from django.db.models import Sum
from hypothesis import given
from hypothesis import strategies as st

from controlplane.cluster.port import GpuUse, PodPhase, ServiceUse
from controlplane.models import Gpu, NodePool, Placement, Quota, ServiceWindow, Team, TeamSample, Usage, Workload
from controlplane.services.tenancy.usage import HOUR, hours
from tests.controlplane.state import NoMetrics, World

pytestmark = pytest.mark.django_db


class Measured(NoMetrics):
    uses: tuple[GpuUse, ...] = ()
    served: tuple[ServiceUse, ...] = ()

    def gpus(self):
        return self.uses

    def services(self, workloads):
        return tuple(use for use in self.served if use.workload in workloads)


@pytest.fixture
def world() -> World:
    return World(metrics=Measured())


def held() -> int:
    return Usage.objects.aggregate(n=Sum("held"))["n"] or 0


@given(st.integers(0, 10**7), st.integers(0, 10**5))
def test_hours_cut_an_interval_without_losing_a_second(start, length):
    parts = list(hours(start, start + length))
    assert sum(seconds for _, seconds in parts) == length
    assert all(hour % HOUR == 0 and 0 < seconds <= HOUR for hour, seconds in parts)
    assert [hour for hour, _ in parts] == sorted({hour for hour, _ in parts})


def test_a_job_over_several_hours_has_a_row_for_each_and_they_add_up(world):
    job = world.submit("job", gpus=2)
    world.run(job, "a")
    world.later(2 * HOUR)
    world.pods(job, PodPhase.SUCCEEDED, exit_code=0)
    world.account()
    place = Placement.objects.get()
    assert held() == 2000 * (place.released_at - place.bound_at) == Workload.objects.get().attained
    assert Usage.objects.count() == 3
    assert Placement.objects.get().is_settled


def test_accounting_often_or_once_gives_the_same_rows(world):
    often, once = world.submit("often"), world.submit("once")
    world.run(often, "a")
    for _ in range(5):
        world.later(977)
        world.account()
        world.account()
    world.pods(often, PodPhase.SUCCEEDED, exit_code=0)
    world.account()
    world.account()
    length = Workload.objects.get(pk=often.pk).attained
    assert Usage.objects.filter(workload=often.pk).aggregate(n=Sum("held"))["n"] == length
    assert not Usage.objects.filter(workload=once.pk).exists()


def test_a_place_that_was_only_reserved_costs_nothing(world):
    victim, claimant = world.submit("victim"), world.submit("claimant")
    world.run(victim, "a")
    world.evict(victim, by=claimant)
    world.place(claimant, "a", after=[victim])
    world.later(500)
    world.account()
    assert not Usage.objects.filter(workload=claimant.pk).exists()


def test_what_is_leaving_is_paid_for_until_it_is_gone(world):
    job, other = world.submit("job"), world.submit("other")
    world.run(job, "a")
    world.evict(job, by=other)
    world.later(60)
    world.account()
    world.pods(job, PodPhase.GONE)
    world.account()
    assert held() == Workload.objects.get(pk=job.pk).attained > 60_000


def test_computed_time_is_the_measured_part_of_what_is_held(world):
    job = world.submit("job", gpus=2)
    world.metrics.uses = (GpuUse("a", 0, 1.0, 1000), GpuUse("a", 1, 0.5, 1000))
    world.run(job, "a")
    start = Placement.objects.get().bound_at
    world.later(100)
    world.observe()
    world.account()
    row = Usage.objects.get()
    assert row.held == 2000 * (int(world.cluster.at) - int(start))
    assert row.computed == row.held * 3 // 4
    assert Gpu.objects.get(index=1).duty == 0.5


def test_a_gpu_that_stops_reporting_is_not_known_any_more(world):
    world.metrics.uses = (GpuUse("a", 0, 1.0, 1000),)
    world.account()
    world.metrics.uses = ()
    world.later()
    world.account()
    assert Gpu.objects.get().duty is None


def test_teams_are_sampled_with_what_they_own_hold_and_wait_for(world):
    red = Team.objects.get(name="red")
    Quota.objects.create(team=red, pool=NodePool.objects.get(), nominal=4000)
    world.run(world.submit("job", gpus=3), "a")
    world.submit("more")
    world.account()
    sample = TeamSample.objects.get(team=red)
    assert (sample.nominal, sample.held, sample.computing, sample.waiting) == (4000, 3000, 0, 1)
    world.account()
    assert TeamSample.objects.count() == 2


def test_a_services_window_is_written_once(world):
    service = world.submit("chat", kind="inference")
    world.run(service, "a")
    at = world.cluster.at
    world.metrics.served = (ServiceUse(str(service.pk), at, 60.0, 12.0, 0.15, 3, 720, 0),)
    world.account()
    world.account()
    row = ServiceWindow.objects.get()
    assert (row.start, row.requests, row.over, row.replicas, row.wanted) == (at - 60, 720, 3, 1, 1)


def test_nobody_is_billed_for_the_time_between_a_pods_end_and_its_being_seen(world):
    job = world.submit("job")
    world.run(job, "a")
    world.later(10)
    world.cluster.set(job, PodPhase.SUCCEEDED, exit_code=0)
    world.later(60)
    world.account()  # the cluster's clock is a minute ahead of what was observed
    world.observe()
    world.account()
    place = Placement.objects.get()
    assert held() == 1000 * (place.released_at - place.bound_at) == Workload.objects.get().attained
