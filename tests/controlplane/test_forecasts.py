"""Expected starts in the database: what is told of each wait, what became of it, and what history learns from it."""

import pytest

from controlplane.loops import predict_starts
from controlplane.loops.pace import Pace
from controlplane.models import StartForecast, Workload
from controlplane.queries.scheduling import forecasts, learning
from controlplane.services.scheduling import forecasts as services
from controlplane.services.scheduling.forecasts import Forecast
from controlplane.services.scheduling.leases import LeaseLost
from controlplane.services.workloads import workloads
from scheduler.model.history import MIN, NEWEST
from scheduler.predict.run_times import Spread
from tests.controlplane.state import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    """Both nodes are held by one, and one waits."""
    world = World()
    world.run(world.submit("holds", gpus=8, workers=2), "a", "b")
    return world


def look(world: World) -> None:
    """One round of the loop, due at once."""
    world.wiring.kept["predict pace"] = Pace(0.0, 0.0)
    assert not predict_starts.run_once(world.wiring).skipped


def test_who_waits_has_an_expected_start_and_who_runs_has_none(world: World) -> None:
    waits = world.submit("waits")
    look(world)
    (told,) = forecasts.told([str(w.pk) for w in Workload.objects.all()]).items()
    assert told[0] == str(waits.pk)
    assert world.cluster.at < told[1].low < told[1].median < told[1].high


def test_what_is_told_moves_on_and_what_was_predicted_first_stays(world: World) -> None:
    waits = world.submit("waits")
    look(world)
    before = StartForecast.objects.get(workload=waits.pk)
    world.later(7200)
    world.observe()
    look(world)
    after = StartForecast.objects.get(workload=waits.pk)
    assert (after.asked_at, after.median) == (before.asked_at, before.median)
    assert after.told_median > before.told_median


def test_a_start_is_compared_with_what_was_predicted(world: World) -> None:
    waits = world.submit("waits")
    look(world)
    world.cluster.at += 500
    holds = Workload.objects.get(name="holds")
    workloads.stop(workload=holds, actor="alice")
    world.actuate()
    world.cluster.forget(holds)
    world.observe_all()
    world.run(waits, "a")
    look(world)
    row = StartForecast.objects.get(workload=waits.pk)
    assert row.waited == pytest.approx(waits.started_at - row.asked_at)
    assert forecasts.told([str(waits.pk)]) == {}


def test_who_is_stopped_before_a_start_teaches_nothing(world: World) -> None:
    waits = world.submit("waits")
    look(world)
    workloads.stop(workload=waits, actor="alice")
    look(world)
    assert not StartForecast.objects.exists()


def test_of_one_that_may_not_start_any_more_nothing_is_told(world: World) -> None:
    waits = world.submit("waits")
    look(world)
    services.record(found={}, at=world.cluster.at, lease=world.lease(predict_starts.LOOP))
    assert forecasts.told([str(waits.pk)]) == {}
    assert StartForecast.objects.get(workload=waits.pk).waited is None


def test_who_starts_with_the_next_round_is_not_predicted() -> None:
    world = World()
    world.submit("starts")
    look(world)
    assert not StartForecast.objects.exists()


def over(number: int, waited: float) -> StartForecast:
    return StartForecast(
        workload=f"00000000-0000-0000-0000-{number:012}", asked_at=0, low=100, median=200, high=300, told_at=0,
        waited=waited, ended_at=number,
    )  # fmt: skip


def test_history_learns_by_how_much_waits_were_off(world: World) -> None:
    StartForecast.objects.bulk_create([over(number, 460.0) for number in range(MIN)])
    factors = learning.learnt().mistakes
    assert [values[10] for values in factors] == [round(520 / 160, 3), 2.0, round(520 / 360, 3)]


def test_old_waits_are_forgotten(world: World) -> None:
    StartForecast.objects.bulk_create([over(number, 1.0) for number in range(2 * NEWEST + 1)])
    services.record(found={}, at=world.cluster.at, lease=world.lease(predict_starts.LOOP))
    assert StartForecast.objects.count() == NEWEST
    assert StartForecast.objects.order_by("ended_at").first().ended_at == NEWEST + 1


def test_a_lost_lease_writes_nothing(world: World) -> None:
    waits, lease = world.submit("waits"), world.lease(predict_starts.LOOP)
    services.record(found={}, at=0.0, lease=lease)
    from controlplane.models import Lease

    Lease.objects.filter(name=predict_starts.LOOP).update(holder="another", epoch=99)
    found = {str(waits.pk): Forecast(Spread(1, 2, 3), Spread(1, 2, 3))}
    with pytest.raises(LeaseLost):
        services.record(found=found, at=0.0, lease=lease)
    assert not StartForecast.objects.exists()
