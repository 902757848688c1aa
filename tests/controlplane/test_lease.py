"""One holder at a time, by the database's clock; whoever lost the lease cannot write."""

from datetime import timedelta

import pytest
from django.db import transaction
from django.db.models import F

from controlplane.loops.lease import Lease, release_all
from controlplane.models import Lease as LeaseRow
from controlplane.models import Workload
from controlplane.services.scheduling import decisions, leases
from controlplane.services.scheduling.cycles import CycleInput
from controlplane.services.scheduling.leases import LeaseLost
from scheduler.model.decision import Place
from scheduler.model.workload import Assignment
from tests.controlplane.state import World, phase

pytestmark = pytest.mark.django_db


def expire(name: str = "schedule") -> None:
    LeaseRow.objects.filter(name=name).update(expires_at=F("expires_at") - timedelta(hours=1))


def test_the_first_to_ask_gets_it_and_the_second_does_not():
    assert leases.acquire(name="schedule", holder="one") is not None
    assert leases.acquire(name="schedule", holder="two") is None


def test_an_expired_lease_goes_to_another_with_a_new_epoch():
    first = leases.acquire(name="schedule", holder="one")
    expire()
    second = leases.acquire(name="schedule", holder="two")
    assert first and second and second.epoch == first.epoch + 1


def test_a_process_started_again_under_its_name_gets_it_at_once_with_a_new_epoch():
    first = leases.acquire(name="schedule", holder="one")
    again = leases.acquire(name="schedule", holder="one")
    assert first and again and again.epoch == first.epoch + 1
    with pytest.raises(LeaseLost):
        first.check()


def test_the_holder_keeps_its_epoch_when_it_renews():
    lease = Lease("schedule", "one", ttl=0.0)
    first = lease.hold()
    assert lease.hold() == first


def test_a_lease_is_not_asked_for_again_before_a_third_of_its_time(django_assert_num_queries):
    lease = Lease("schedule", "one")
    lease.hold()
    with django_assert_num_queries(0):
        assert lease.hold() is not None


def test_a_released_lease_is_free_at_once():
    world = World()
    world.lease("schedule")
    release_all(world.wiring)
    assert leases.acquire(name="schedule", holder="two") is not None


def test_a_paused_holder_writes_nothing_after_another_took_over():
    world = World()
    job = world.submit("job")
    paused = world.lease()
    expire()
    leases.acquire(name="schedule", holder="two")
    late = Place(str(job.pk), 1, (Assignment(0, "a", (0,)),))
    with pytest.raises(LeaseLost):
        decisions.commit([late], lease=paused, cycle=CycleInput("schedule", world.cluster.at))
    assert phase(job) == "Queued"
    assert Workload.objects.get().placements.count() == 0


def test_of_two_holders_in_turn_only_the_current_epoch_is_ever_accepted():
    world = World()
    held = {}
    accepted = []
    for turn in range(20):
        name = ("one", "two")[turn % 2]
        expire()
        held[name] = leases.acquire(name="schedule", holder=name)
        for lease in held.values():
            try:
                with transaction.atomic():
                    lease.check()
                    accepted.append(lease.epoch)
            except LeaseLost:
                pass
    assert accepted == sorted(accepted)
    assert len(accepted) == 20
    assert world.cluster.answers
