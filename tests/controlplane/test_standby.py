"""Standby through the product: what may be asked, what it costs, what is told of it, and what a borrower is charged."""

import pytest

from controlplane.cluster.port import PodPhase, PodSpec, ServiceUse
from controlplane.jobspec.spec import SpecError, parse
from controlplane.loops import scale, schedule
from controlplane.models import (
    Action,
    Cycle,
    Event,
    Node,
    NodePool,
    Placement,
    Quota,
    ServiceWindow,
    Team,
    Workload,
)
from controlplane.queries.workloads import details, standby
from controlplane.queries.workloads import workloads as queries
from controlplane.services.scheduling import policy
from controlplane.services.workloads import workloads as services
from frontend import words
from tests.autoscaler.services import look
from tests.controlplane.state import NoMetrics, World, job

pytestmark = pytest.mark.django_db

WHOLE = {"gpu_share": {"guarantee": 1, "memory": "6Gi"}, "cpu": 1, "memory": "1Gi"}


class Busy(NoMetrics):
    told = None
    served: tuple[ServiceUse, ...] = ()

    def services(self, workloads):
        return self.served

    def scrapes(self, workloads):
        return dict.fromkeys(workloads, self.told) if self.told else {}


@pytest.fixture
def world() -> World:
    policy.change(
        changes={
            "scheduling": {"lend_after_seconds": 0, "settle_seconds": 0, "surplus_after_seconds": 0},
            "scaling": {"young_seconds": 0, "fall_seconds": 1},
        },
        author="root",
    )
    return World(metrics=Busy())


def service(world: World, **file) -> Workload:
    values = {"replicas": {"min": 1, "max": 3}, "standby": 2, "resources": WHOLE, "objective": {"p95_latency": "500ms"}}
    made = world.submit("chat", kind="inference", **values | file)
    up(world)
    made.refresh_from_db()
    return made


def up(world: World) -> None:
    """What waits is placed and runs."""
    schedule.run_once(world.wiring)
    world.actuate()
    for one in Workload.objects.filter(phase__in=("Admitted", "Starting", "Scaling", "Running")):
        world.pods(one, PodPhase.RUNNING)


def started(world: World, workload: Workload) -> list[PodSpec]:
    """What the cluster was told to start of it, by rank."""
    return [pod for pod in world.cluster.started if pod.workload == str(workload.pk)]


@pytest.mark.parametrize(
    ("file", "field", "says"),
    [
        ({"standby": "some"}, "standby", "Write a whole number, or auto."),
        ({"standby": True}, "standby", "Write a whole number, or auto."),
        ({"standby": -1}, "standby", "Set it to at least 0."),
        ({"standby": 1, "resources": {"gpus": 1, "cpu": 1, "memory": "1Gi"}}, "standby", "gpu_share: {guarantee: 1"),
        (
            {"standby": 1, "resources": {"gpu_share": {"guarantee": 0.5, "memory": "1Gi"}, "cpu": 1, "memory": "1Gi"}},
            "standby",
            "gpu_share: {guarantee: 1",
        ),
    ],
)
def test_what_cannot_be_on_standby_is_refused_with_the_field_and_the_fix(file, field, says):
    asked = {"replicas": {"max": 3}, "resources": WHOLE, "objective": {"p95_latency": "1s"}, "standby": 1} | file
    with pytest.raises(SpecError) as refused:
        job("chat", "nlp", "inference", **{name: value for name, value in asked.items() if value is not None})
    assert [(one.field, says in one.message) for one in refused.value.errors] == [(field, True)]


def test_without_an_objective_nothing_would_wake_it():
    file = {"type": "inference", "name": "chat", "team": "nlp", "image": "registry.example/chat:1", "resources": WHOLE}
    with pytest.raises(SpecError, match="there is no objective to wake replicas by. Add objective."):
        parse(file | {"replicas": {"max": 3}, "standby": "auto"})


def test_a_training_has_no_standby():
    with pytest.raises(SpecError, match="It belongs to inference"):
        job("t", "nlp", "training", standby=1)


def test_standby_is_loaded_at_once_and_sleeps(world):
    made = service(world)
    assert (made.workers, made.awake, made.standby, made.phase) == (3, 1, 2, "Running")
    seats = Placement.objects.filter(workload=made.pk).order_by("rank")
    assert [seat.asleep_at is not None for seat in seats] == [False, True, True]
    assert [pod.is_asleep for pod in started(world, made)] == [False, True, True]


def test_auto_is_all_up_to_the_most(world):
    assert service(world, standby="auto", replicas={"min": 1, "max": 2}).workers == 2


def test_a_preview_says_what_it_costs():
    assert standby.price(3, 1, 2).startswith("Standby holds up to 2 GPUs, 48 GPU hours a day.")
    assert standby.price(2, 1, 4).startswith("Standby holds up to 1 GPU, 24 GPU hours a day.")
    assert standby.price(3, 1, 0) == standby.price(1, 1, 5) == ""


@pytest.mark.parametrize(
    ("bound", "says"),
    [
        (None, "Standby holds up to 4 GPUs, 96 GPU hours a day. It counts"),
        (5, "Standby holds up to 4 GPUs, 96 GPU hours a day. It counts"),
        (4, "Standby holds up to 3 GPUs, 72 GPU hours a day, not 4: the team's quotas let it hold 4 GPUs at most. It"),
        (1, "No GPU is kept on standby: the team's quotas let it hold 1 GPU at most."),
        (0, "No GPU is kept on standby: the team's quotas let it hold 0 GPUs at most."),
    ],
)
def test_what_it_costs_is_bounded_by_what_the_team_may_hold(bound: int | None, says: str) -> None:
    assert standby.price(5, 1, 4, bound).startswith(says)


def test_what_a_team_may_hold_is_what_it_owns_and_may_borrow_where_gpus_take_shares(world):
    red = Team.objects.get(name="red")
    Quota.objects.filter(team=red).delete()
    assert standby.may_hold("red") is None, "no quota, no limit"
    pool = NodePool.objects.get(name="main")
    Quota.objects.create(team=red, pool=pool, nominal=3000, borrowing_limit=1500)
    assert Node.objects.filter(pool=pool).count() > 1
    assert standby.may_hold("red") == 4
    other = NodePool.objects.create(name="other")
    Quota.objects.create(team=red, pool=other, nominal=9000, borrowing_limit=0)
    assert standby.may_hold("red") == 4, "no GPU there"
    Quota.objects.filter(team=red, pool=pool).update(borrowing_limit=None)
    assert standby.may_hold("red") is None
    NodePool.objects.filter(pk=pool.pk).update(takes="whole")
    assert standby.may_hold("red") is None


def test_a_gang_borrows_and_gives_back_and_is_charged_nothing(world):
    made = service(world)
    plain = world.submit("plain", kind="inference", resources={"cpu": 1, "memory": "1Gi"})
    served = (str(made.pk), str(plain.pk))
    gang = world.submit("t", resources={"gpus": 1, "gpu_memory": "6Gi", "cpu": 1, "memory": "1Gi"},
                        workers={"count": 1, "max": 3})  # fmt: skip
    full = world.submit("full", resources={"gpus": 1, "cpu": 1, "memory": "1Gi"}, workers={"count": 12})
    for _ in range(3):
        world.cluster.at += 10
        up(world)
    assert full.phase == "Queued"  # as it was submitted: it has all that is free now
    lent = Placement.objects.filter(workload=gang.pk, lender=str(made.pk))
    assert sorted(lent.values_list("milli", "state")) == [(0, "Bound"), (0, "Bound")]
    assert [(pod.milli, pod.gpu_memory, pod.is_lent) for pod in started(world, gang)[1:]] == [(0, 6144, True)] * 2
    world.cluster.at += 3600
    found = standby.of_service(made, world.cluster.at)
    assert (found.serving, found.asleep, found.lent) == (1, 2, 2)
    assert standby.borrowed(gang, world.cluster.at) == (2, pytest.approx(found.lent_gpu_hours))
    assert found.lent_cost == 0
    NodePool.objects.filter(name=lent[0].pool).update(price_per_gpu_hour="2.50")
    found = standby.of_service(made, world.cluster.at)
    assert float(found.lent_cost) == pytest.approx(2.5 * found.lent_gpu_hours) != 0
    gang.refresh_from_db()
    assert details.autoscaling(made, world.cluster.at)["standby"] == found.shown()
    assert [w["is_lent"] for w in queries.placement(gang)["workers"]] == [False, True, True]
    world.metrics.served = tuple(ServiceUse(uid, world.cluster.at, 60.0, 1.0, 0.1, 0, 60, 0) for uid in served)
    world.account()
    windows = {row.workload: (row.replicas, row.wanted, row.asleep, row.lent) for row in ServiceWindow.objects.all()}
    assert windows == {made.pk: (1, 1, 2, 2), plain.pk: (1, 1, None, None)}
    (shown,) = details.metrics(made, 5, world.cluster.at, None)["windows"]
    assert (shown["asleep"], shown["lent"], shown["lent_to"]) == (2, 2, [{"team": "red", "gpus": 2}])
    (shown,) = details.metrics(made, 5, world.cluster.at, ["blue"])["windows"]
    assert shown["lent_to"] == [{"team": None, "gpus": 2}], "the reader may not see that team"
    (shown,) = details.metrics(plain, 5, world.cluster.at, None)["windows"]
    assert (shown["lent"], shown["lent_to"]) == (None, None)

    world.metrics.told = look(world.cluster.at, 100.0, waiting=400, seconds=0.2)
    scale.run_once(world.wiring)
    assert set(lent.values_list("state", flat=True)) == {"Leaving"}
    assert not Placement.objects.filter(workload=made.pk, asleep_at__isnull=False).exists()
    verbs = list(Action.objects.filter(done_at=None).order_by("id").values_list("verb", "payload__ranks"))
    assert verbs == [("wake", [1, 2]), ("stop", [1, 2])]
    world.actuate()
    assert ("rotate", f"{made.pk}-1", (1, 2), True) in world.cluster.calls
    the_price_is_kept(world, made, gang)


def the_price_is_kept(world, made, gang):
    """With the stored decision, the event, and what both are told of it."""
    shrunk = Event.objects.get(workload=gang.pk, kind="Shrunk")
    terms = {"team": "red", "workers": 2, "leaves_milli": 2000, "lost_milli_seconds": 156, "whose": "lent"}
    assert (shrunk.data["terms"], shrunk.data["by"]) == (terms, str(made.pk))
    sentence = "2 workers left 2 GPUs that were lent to it; about 0.2 GPU-seconds lost."
    told = {"workers": 2, "milli_gpu": 2000, "lost_gpu_seconds": 0.156, "whose": "lent", "sentence": sentence}
    assert queries.event_row(shrunk)["reclaim_price"] == told
    assert words.event_sentence("Shrunk", "", "Gives 2 back.", shrunk.data) == f"Gives 2 back. {sentence}"
    at = world.cluster.at
    (taken,) = details.autoscaling(made, at, None)["taken"]
    assert (taken["name"], taken["team"], taken["reclaim_price"]) == ("t", "red", told)
    (taken,) = details.autoscaling(made, at)["taken"]
    assert (taken["name"], taken["workload"], taken["team"]) == ("", None, "red"), "who may not see it is told the team"
    cycle = Cycle.objects.filter(loop="scale").latest("pk")
    (stored,) = [one for one in cycle.decisions if one["kind"] == "Shrink"]
    assert dict(stored["terms"]) == terms


def test_the_number_may_be_changed_while_it_runs(world):
    made = service(world)
    services.patch(workload=made, changes={"standby": 1}, version=None, actor="alice")
    scale.run_once(world.wiring)
    made.refresh_from_db()
    assert (made.workers, made.awake, made.standby) == (2, 1, 1)
    services.patch(workload=made, changes={"standby": None}, version=None, actor="alice")
    scale.run_once(world.wiring)
    made.refresh_from_db()
    assert (made.workers, made.awake, made.standby) == (1, 1, 0)
