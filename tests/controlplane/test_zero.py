"""Scale to zero through the product: what may be asked, asleep and awake in rows, and what is told of it."""

from dataclasses import replace

import pytest
from django.test import override_settings

from autoscaler.sla import Standing
from controlplane.cluster.port import PodPhase
from controlplane.jobspec.spec import SpecError, parse, stored
from controlplane.loops import scale, schedule
from controlplane.models import Action, Event, Placement, Workload
from controlplane.queries.reports import sla, standings
from controlplane.queries.workloads import details, sleeping
from controlplane.services.errors import Refused
from controlplane.services.scheduling import policy
from controlplane.services.workloads import workloads as services
from tests.autoscaler.test_zero import quiet
from tests.controlplane.state import NoMetrics, World, open_actions, phase, story

pytestmark = pytest.mark.django_db

FILE = {"replicas": {"min": 0, "max": 3, "scale_to_zero_after": "2m"}, "gateway": {"slots": 4}}
DOCUMENT = {
    "type": "inference", "name": "chat", "team": "red", "image": "registry.example/chat:1",
    "objective": {"p95_latency": "500ms"}, "resources": {"gpus": 1}, **FILE,
}  # fmt: skip


class Told(NoMetrics):
    scrape = None

    def scrapes(self, workloads):
        return dict.fromkeys(workloads, self.scrape) if self.scrape else {}


@pytest.fixture
def world() -> World:
    policy.change(changes={"scaling": {"young_seconds": 0}}, author="root")
    return World(metrics=Told())


def awake(world: World, **file) -> Workload:
    """A service with one replica that runs."""
    made = world.submit("chat", kind="inference", **FILE | file)
    schedule.run_once(world.wiring)
    world.actuate()
    world.pods(made, PodPhase.RUNNING)
    made.refresh_from_db()
    return made


def sleep(world: World, service: Workload) -> None:
    """Nothing comes until it sleeps and its replica is gone."""
    for _ in range(12):
        world.cluster.at += 15.0
        world.metrics.scrape = quiet(world.cluster.at)
        scale.run_once(world.wiring)
    world.actuate()
    world.pods(service, PodPhase.GONE)
    service.refresh_from_db()


def wake(world: World, service: Workload, start_seconds: float) -> None:
    """A request waits, and so much later a replica serves."""
    world.metrics.scrape = replace(quiet(world.cluster.at), waiting=1)
    scale.run_once(world.wiring)
    schedule.run_once(world.wiring)
    world.actuate()
    world.cluster.at += start_seconds
    world.pods(service, PodPhase.RUNNING)
    service.refresh_from_db()


# --- what may be asked ----------------------------------------------------------------------------


def test_a_service_without_a_least_begins_with_one_replica_and_says_when_it_sleeps() -> None:
    spec = parse(DOCUMENT)
    assert (spec.workers.count, spec.workers.min, spec.workers.max, spec.idle_after) == (1, 0, 3, 120.0)
    assert spec.document()["normalised"]["scale_to_zero_after_seconds"] == 120.0
    assert stored(spec.document()) == spec
    few = parse({**DOCUMENT, "replicas": {"min": 0}})
    assert (few.workers.max, few.idle_after) == (1, 600.0)
    always = parse({**DOCUMENT, "replicas": {"min": 1, "scale_to_zero_after": "2m"}})
    assert always.idle_after is None
    assert "scale_to_zero_after_seconds" not in always.document()["normalised"]


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"gateway": None}, "replicas.min", "Add gateway, such as {slots: 8}, or set min to 1."),
        ({"objective": None}, "replicas.min", "Add objective, such as {p95_latency: 500ms}, or set min to 1."),
        ({"standby": 1, "resources": {"gpu_share": {"guarantee": 1, "memory": "6Gi"}}}, "standby", "Remove standby"),
        ({"replicas": {"min": 0, "scale_to_zero_after": "5s"}}, "replicas.scale_to_zero_after", "1m"),
        ({"replicas": {"min": -1}}, "replicas.min", "0"),
    ],
)
def test_what_cannot_wake_it_is_refused_by_the_name_of_the_field(changes, field: str, message: str) -> None:
    document = {name: value for name, value in {**DOCUMENT, **changes}.items() if value is not None}
    with pytest.raises(SpecError) as refused:
        parse(document)
    (error,) = refused.value.errors
    assert error.field == field
    assert message in error.message


@override_settings(CLUSTER="kubernetes", ACTIVATORS=())
def test_where_no_queue_would_wake_it_it_is_refused_at_the_submission_and_when_it_is_changed(world: World) -> None:
    with pytest.raises(Refused, match="nothing would wake it"):
        world.submit("chat", kind="inference", **FILE)
    made = world.submit("other", kind="inference", gateway={"slots": 4})
    with pytest.raises(Refused, match="nothing would wake it"):
        services.patch(workload=made, changes={"replicas": {"min": 0}}, version=None, actor="alice")


# --- asleep and awake -----------------------------------------------------------------------------


def test_it_sleeps_holds_nothing_and_its_address_stays_before_its_replica_leaves(world: World) -> None:
    service = awake(world)
    world.cluster.calls.clear()
    sleep(world, service)
    assert (service.phase, service.workers) == ("Running", 0)
    assert not Placement.objects.filter(workload=service.pk).exclude(state="Released").exists()
    assert ("keep_address", str(service.pk), True) in world.cluster.calls
    verbs = list(Action.objects.filter(workload=service.pk).order_by("id").values_list("verb", flat=True))
    assert verbs == ["start", "address", "stop"]
    assert schedule.run_once(world.wiring).did == 0
    assert "1 to 0 replicas: no request came for 2 min" in Event.objects.filter(kind="Scaled").latest("id").message


def test_one_that_scales_while_it_falls_asleep_comes_to_rest_in_running(world: World) -> None:
    service = awake(world)
    Workload.objects.filter(pk=service.pk).update(phase="Scaling", workers=2)
    sleep(world, service)
    assert (service.phase, service.workers) == ("Running", 0)


def test_metrics_that_fail_leave_it_its_replica(world: World) -> None:
    service = awake(world)
    world.metrics.scrape = quiet(world.cluster.at)
    for _ in range(40):
        world.cluster.at += 15.0
        scale.run_once(world.wiring)
    assert Workload.objects.get(pk=service.pk).workers == 1


def test_what_it_takes_to_wake_is_learned_and_told(world: World) -> None:
    service = awake(world)
    before = sleeping.of_service(service)
    assert before is not None
    assert (before.is_asleep, before.times_woken) == (False, 0)
    for seconds in (90.0, 30.0, 40.0):
        sleep(world, service)
        wake(world, service, seconds)
        assert (service.phase, service.workers) == ("Running", 1)
    sleep(world, service)
    shown = details.autoscaling(service, world.cluster.at)["sleep"]
    assert shown.pop("cold_start_seconds") == pytest.approx(40.0, abs=3.0)  # an observation is a second
    assert shown == {"is_asleep": True, "after_seconds": 120.0, "times_woken": 3}
    message = Event.objects.filter(kind="Scaled").latest("id").message
    told = sleeping.of_service(service)
    assert told is not None
    assert "asleep, as no request came for 2 min; the next one waits about 4" in told.sentence
    assert "the next one waits about 4" in message


def test_a_revision_that_is_brought_in_keeps_it_awake_and_asleep_it_wakes_with_the_newest(world: World) -> None:
    service = awake(world)
    services.patch(workload=service, changes={"image": "registry.example/chat:2"}, version=None, actor="alice")
    for _ in range(20):
        world.cluster.at += 15.0
        world.metrics.scrape = quiet(world.cluster.at)
        scale.run_once(world.wiring)
    service.refresh_from_db()
    assert (service.workers, service.rollout is None) == (1, False)


def test_suspended_asleep_it_gives_its_address_up_and_begins_again_with_a_replica(world: World) -> None:
    service = awake(world)
    sleep(world, service)
    services.suspend(workload=service, actor="alice")
    assert phase(service) == "Suspended"
    assert open_actions(service) == ["address"]
    world.actuate()
    assert world.cluster.calls[-1] == ("keep_address", str(service.pk), False)
    services.resume(workload=service, actor="alice")
    service.refresh_from_db()
    assert (service.phase, service.workers) == ("Queued", 1)


def test_an_address_that_was_to_stay_is_left_alone_once_it_is_awake_again(world: World) -> None:
    service = awake(world)
    for _ in range(12):
        world.cluster.at += 15.0
        world.metrics.scrape = quiet(world.cluster.at)
        scale.run_once(world.wiring)
    world.metrics.scrape = replace(quiet(world.cluster.at), waiting=1)
    scale.run_once(world.wiring)
    world.cluster.calls.clear()
    world.actuate()
    assert [call for call in world.cluster.calls if call[0] == "keep_address"] == []
    assert story(service)[-2:] == ["Scaled", "Scaled"]


def test_a_least_of_one_wakes_it_for_good(world: World) -> None:
    service = awake(world)
    sleep(world, service)
    services.patch(workload=service, changes={"replicas": {"min": 1}}, version=None, actor="alice")
    schedule.run_once(world.wiring)
    world.actuate()
    world.pods(service, PodPhase.RUNNING)
    sleep_again = Workload.objects.get(pk=service.pk)
    assert (sleep_again.workers, sleep_again.workers_min) == (1, 1)
    for _ in range(20):
        world.cluster.at += 15.0
        world.metrics.scrape = quiet(world.cluster.at)
        scale.run_once(world.wiring)
    assert Workload.objects.get(pk=service.pk).workers == 1


def test_asleep_its_max_duration_ends_it_at_once_and_its_address_goes(world: World) -> None:
    service = awake(world, max_duration="1h")
    sleep(world, service)
    world.cluster.at += 3600.0
    world.observe()
    assert phase(service) == "Stopped"
    assert story(service)[-2:] == ["Stopping", "Stopped"]
    assert Event.objects.filter(workload=service.pk).latest("id").reason == "MaxDurationExceeded"
    assert open_actions(service) == ["address"]
    world.actuate()
    assert world.cluster.calls[-1] == ("keep_address", str(service.pk), False)


def test_stopped_before_the_replica_exists_that_a_least_of_one_asks_for_its_address_goes(world: World) -> None:
    service = awake(world)
    sleep(world, service)
    services.patch(workload=service, changes={"replicas": {"min": 1}}, version=None, actor="alice")
    schedule.run_once(world.wiring)
    services.stop(workload=service, actor="alice")
    world.actuate()
    assert ("keep_address", str(service.pk), False) in world.cluster.calls
    world.observe_all()
    assert phase(service) == "Stopped"


# --- how it stands --------------------------------------------------------------------------------


def test_asleep_and_just_awake_it_is_met_and_not_known_only_when_awake_and_silent(world: World) -> None:
    service = awake(world)
    world.cluster.at += 1000.0
    stand = sla.one(world.cluster.at, service)
    assert stand is not None
    assert stand.standing is Standing.UNKNOWN
    sleep(world, service)
    stand = sla.one(world.cluster.at + 5000.0, service)
    assert stand is not None
    assert (stand.standing, stand.replicas) == (Standing.MET, 0)
    world.cluster.at += 5000.0
    wake(world, service, 30.0)
    woke_at = world.cluster.at
    (found,) = sla.standings(woke_at, [service.pk]).values()
    assert found is Standing.MET
    (found,) = sla.standings(woke_at + 1000.0, [service.pk]).values()
    assert found is Standing.UNKNOWN


def test_the_past_says_the_same(world: World) -> None:
    service = awake(world)
    sleep(world, service)
    slept_at = Event.objects.filter(kind="Scaled").latest("id").cluster_at
    world.cluster.at += 5000.0
    wake(world, service, 30.0)
    woke_at = Event.objects.filter(kind="Scaled").latest("id").cluster_at
    service.refresh_from_db()
    found = standings.history(service, slept_at - 300.0, woke_at + 2000.0)
    words = {moment.at: moment.standing for moment in found}
    assert {word for at, word in words.items() if slept_at <= at < woke_at + 900.0} == {Standing.MET}
    assert {word for at, word in words.items() if at < slept_at or at >= woke_at + 900.0} == {Standing.UNKNOWN}


def test_a_service_with_a_least_is_judged_as_before(world: World) -> None:
    made = world.submit("other", kind="inference", replicas={"min": 1, "max": 2})
    world.run(made, "a")
    world.cluster.at += 1000.0
    (found,) = sla.standings(world.cluster.at, [made.pk]).values()
    assert found is Standing.UNKNOWN
    assert sleeping.of_service(made) is None
    assert details.autoscaling(made, world.cluster.at)["sleep"] is None
