"""What /metrics tells of services and of loops: the product's own word, and nothing where nothing is known."""

from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from prometheus_client import CollectorRegistry

from autoscaler.sla import Standing
from controlplane.api import metrics
from controlplane.models import Lease, ServiceWindow, Workload
from controlplane.queries.reports import sla
from tests.controlplane.state import World

pytestmark = pytest.mark.django_db
CHAT = {"team": "red", "service": "chat"}


@pytest.fixture
def world() -> World:
    cache.clear()
    return World()


def told(world: World) -> CollectorRegistry:
    cache.clear()
    world.observe()
    return metrics.registry()


def serve(world: World, late: int) -> Workload:
    service = world.submit("chat", kind="inference", replicas={"min": 1, "max": 1})
    world.run(service, "a")
    at = world.cluster.at
    ServiceWindow.objects.create(workload=service.pk, start=at - 7 * 3600, requests=10_000_000, over=0)
    ServiceWindow.objects.bulk_create(
        ServiceWindow(
            workload=service.pk, start=at - 60 * (minute + 1), requests=1000, over=late, p95_seconds=0.15,
            requests_per_second=16.7, replicas=1, wanted=1,
        )
        for minute in range(60)
    )  # fmt: skip
    return service


@pytest.mark.parametrize(("late", "word"), [(0, "met"), (20, "at risk"), (500, "violated")])
def test_a_service_stands_as_on_its_page(world: World, late: int, word: str) -> None:
    service = serve(world, late)
    found = told(world)
    row = sla.one(world.cluster.at, service)
    assert row is not None
    assert row.standing == word
    for one in Standing:
        expected = float(one == word)
        assert found.get_sample_value("weft_service_standing", {**CHAT, "standing": one.value}) == expected
    assert found.get_sample_value("weft_service_budget_left", CHAT) == row.budget_left
    for span, name in metrics.SPANS.items():
        assert found.get_sample_value("weft_service_burn_rate", {**CHAT, "span": name}) == row.burn_rates[span]
    assert found.get_sample_value("weft_service_p95_seconds", CHAT) == 0.15
    assert found.get_sample_value("weft_service_p95_target_seconds", CHAT) == 0.2
    assert found.get_sample_value("weft_service_availability_target", CHAT) == 0.999


def test_what_is_not_known_of_a_service_has_no_series(world: World) -> None:
    world.run(world.submit("chat", kind="inference", replicas={"min": 1, "max": 1}), "a")
    found = told(world)
    assert found.get_sample_value("weft_service_standing", {**CHAT, "standing": "not known"}) == 1.0
    for name in ("weft_service_budget_left", "weft_service_p95_seconds", "weft_service_requests_per_second"):
        assert found.get_sample_value(name, CHAT) is None, name
    assert found.get_sample_value("weft_service_burn_rate", {**CHAT, "span": "1h"}) is None


def test_a_service_that_ended_is_not_told_of_any_more(world: World) -> None:
    service = serve(world, 0)
    Workload.objects.filter(pk=service.pk).update(phase="Stopped")
    assert told(world).get_sample_value("weft_service_budget_left", CHAT) is None


def test_the_spans_are_those_of_the_rule() -> None:
    assert tuple(metrics.SPANS) == sla.sla.SPANS


def test_services_are_summed_once_in_half_a_minute_however_often_prometheus_asks(
    world: World, django_assert_num_queries: object
) -> None:
    serve(world, 0)
    told(world)
    list(metrics.Installation().collect())
    with django_assert_num_queries(0):  # type: ignore[operator]
        list(metrics._services())


def test_a_loop_without_a_lease_is_told_of(world: World) -> None:
    world.lease("schedule")
    has = "weft_loop_has_lease"
    assert told(world).get_sample_value(has, {"loop": "schedule"}) == 1.0
    assert told(world).get_sample_value(has, {"loop": "scale"}) == 0.0
    Lease.objects.filter(name="schedule").update(expires_at="2020-01-01T00:00Z")
    assert told(world).get_sample_value(has, {"loop": "schedule"}) == 0.0


def test_the_lag_of_decisions_is_the_age_of_the_oldest_workload_without_one(world: World) -> None:
    lag = "weft_queue_undecided_seconds"
    assert told(world).get_sample_value(lag) == 0.0
    job = world.submit("new")
    world.later(90)
    assert told(world).get_sample_value(lag) == pytest.approx(91, abs=5)
    Workload.objects.filter(pk=job.pk).update(reason="WaitingForQuota", reason_at=world.cluster.at)
    assert told(world).get_sample_value(lag) == 0.0


def test_services_are_named_to_those_who_show_the_token_only(world: World, client: Client, settings: Any) -> None:
    serve(world, 0)
    cache.clear()
    settings.EMBEDDED, settings.METRICS_TOKEN = True, "secret"
    open_to_all = client.get("/metrics").content.decode()
    assert "weft_queue_length" in open_to_all
    assert "chat" not in open_to_all
    cache.clear()
    shown = client.get("/metrics", headers={"Authorization": "Bearer secret"}).content.decode()
    assert 'weft_service_standing{service="chat"' in shown
