"""The self-audit of a database: quiet when all is well, and it names what is not."""

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from io import StringIO

import pytest
from django.core.management import call_command
from django.db.models import F

from controlplane.api import metrics
from controlplane.cluster.port import PodPhase
from controlplane.domain.cycle import digest_text
from controlplane.invariants.check import INVARIANTS
from controlplane.invariants.state import Violation
from controlplane.loops import audit as self_audit
from controlplane.loops import schedule, wiring
from controlplane.loops.pace import Pace
from controlplane.models import Action, Audit, Cycle, Lease, Placement, Usage, Workload
from controlplane.queries.audit import audit
from controlplane.queries.audit.audit import decision_of
from controlplane.queries.reports import health
from controlplane.queries.scheduling import atrest
from controlplane.services.audit import audits
from controlplane.services.scheduling import policy
from controlplane.services.scheduling.leases import LeaseLost
from scheduler.model.decision import Evict, EvictReason, Place, Reason, Shrink, Wait
from scheduler.model.workload import Assignment
from tests.controlplane.state import World, node

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    """One job has ended, one runs, one leaves for another, one waits, and all is accounted."""
    world = World()
    done, runs, victim = world.submit("done"), world.submit("runs", workers=2), world.submit("victim", gpus=8)
    world.run(done, "a")
    world.place(runs, "a", "a")
    Placement.objects.filter(workload=runs, rank=1).update(gpus=[1])  # `place` puts every rank on device 0
    world.actuate()
    world.pods(runs, PodPhase.RUNNING)
    world.run(victim, "b")
    world.later(100)
    world.pods(done, PodPhase.SUCCEEDED, exit_code=0)
    claimant = world.submit("claimant", gpus=8)
    world.evict(victim, by=claimant)
    world.place(claimant, "b", after=[victim])
    world.submit("waits", gpus=8, workers=2)
    schedule.run_once(world.wiring)
    world.account()
    return world


def broken(world: World | None = None) -> set[str]:
    pods = tuple(world.cluster.pods.values()) if world else None
    return {violation.name for violation in audit.violations(pods=pods)}


def test_a_sound_database_has_nothing_to_tell(world):
    assert audit.violations(pods=tuple(world.cluster.pods.values())) == ()
    assert Cycle.objects.filter(loop="schedule", input__isnull=False).exists()


def test_a_device_given_twice_is_s1(world):
    Placement.objects.filter(workload__name="runs", rank=1).update(gpus=[0])
    assert broken() == {"S1"}


def test_a_pod_elsewhere_than_its_placement_is_s2(world):
    Placement.objects.filter(workload__name="runs", rank=1).update(gpus=[2])
    assert broken(world) == {"S2"}


def test_a_gang_with_a_part_of_its_places_is_s4(world):
    Placement.objects.filter(workload__name="runs", rank=1).update(state="Released", released_at=F("bound_at"))
    Usage.objects.filter(name="runs").update(held=F("held") / 2)
    assert broken() == {"S4"}


def test_a_worker_on_a_device_that_does_not_exist_is_s6(world):
    Placement.objects.filter(workload__name="runs", rank=1).update(gpus=[12])
    assert broken() == {"S6"}


def test_a_round_under_an_older_epoch_is_s7(world):
    newest = Cycle.objects.order_by("-pk").first()
    Cycle.objects.filter(pk=newest.pk).update(epoch=0)
    assert broken() == {"S7"}


def test_a_phase_that_no_event_tells_of_is_s12(world):
    Workload.objects.filter(name="waits").update(phase="Held")
    assert broken() == {"S12"}


def test_a_bill_that_does_not_add_up_is_s13(world):
    Usage.objects.filter(name="done").update(held=F("held") + 1)
    assert broken() == {"S13"}


def evicted_again(world: World, victim: Workload, by: Workload) -> None:
    """It runs once more on node c, and is made to leave."""
    world.pods(victim, PodPhase.GONE)
    world.run(victim, "c")
    world.later(60)
    world.evict(victim, by=by)


def test_an_eviction_is_judged_by_the_policy_that_it_was_decided_by(world):
    world.cluster.nodes["c"] = node("c")
    world.observe_all()
    victim, claimant = Workload.objects.get(name="victim"), Workload.objects.get(name="claimant")
    evicted_again(world, victim, claimant)
    policy.change(changes={"scheduling": {"max_preemptions": 1}}, author="ada")
    world.later(60)
    schedule.run_once(world.wiring)
    assert "S10" not in broken()  # it was made to leave twice, when three times were allowed
    evicted_again(world, victim, claimant)
    assert "S10" in broken()


@pytest.mark.parametrize(
    "decision",
    [
        Place("w", 3, (Assignment(0, "a", (1, 2)), Assignment(1, "b", ())), ("v",), (("nodes", 2),)),
        Evict("w", 3, EvictReason.RECLAIMED, "v", "why", (("priority", 0),)),
        Shrink("w", 3, (1, 4), "why"),
        Wait("w", 3, Reason.FRAGMENTED, "why", (("free", 3), ("pool", "a"))),
    ],
)
def test_decisions_come_back_as_they_were_kept(decision):
    import json

    assert decision_of(json.loads(json.dumps(schedule.record(decision)))) == decision


@dataclass
class Clock:
    at: float = 0.0

    def __call__(self) -> float:
        return self.at


def audited(world: World, clock: Clock) -> dict[str, float]:
    """What /metrics tells after a round of the audit loop a minute later, by invariant."""
    world.wiring.kept.setdefault("audit pace", Pace(self_audit.PERIOD_SECONDS, self_audit.REST, clock))
    clock.at += self_audit.PERIOD_SECONDS
    assert not self_audit.run_once(world.wiring).skipped
    told = metrics.registry()
    values = {name: told.get_sample_value("weft_invariant_violations", {"name": name}) for name in INVARIANTS}
    return {name: value for name, value in values.items() if value is not None}


def test_metrics_tell_zero_for_every_invariant_of_a_sound_database(world):
    assert audited(world, Clock()) == dict.fromkeys(INVARIANTS, 0.0)
    age = metrics.registry().get_sample_value("weft_audit_age_seconds")
    assert age is not None
    assert 0 <= age < 60


def test_a_broken_invariant_shows_in_metrics_until_it_is_mended(world):
    clock = Clock()
    Placement.objects.filter(workload__name="runs", rank=1).update(gpus=[0])
    found = {name: count for name, count in audited(world, clock).items() if count}
    assert found == {"S1": 2.0, "S2": 1.0}  # now and later; and the pod is where its place was
    assert "a/0" in Audit.objects.get(name="S1").example
    Placement.objects.filter(workload__name="runs", rank=1).update(gpus=[1])
    assert audited(world, clock)["S1"] == 0.0


def test_a_round_that_decided_on_what_it_had_not_read_is_s2(world):
    Cycle.objects.filter(loop="schedule", input__isnull=False).update(digest=digest_text(0))
    assert audited(world, Clock())["S2"] == 1.0


def test_a_round_of_another_version_is_counted_and_not_compared(world):
    assert audit.rounds_of_other_versions(20) == 0
    Cycle.objects.filter(loop="schedule", input__isnull=False).update(digest="0" * 32)
    assert audited(world, Clock())["S2"] == 0.0
    wiring.use(lambda: world.wiring)
    try:
        with pytest.raises(SystemExit) as ended:
            call_command("audit", stdout=(out := StringIO()))
    finally:
        wiring.use(wiring.configured)
    assert ended.value.code == 0
    assert out.getvalue() == (
        "Rounds of another version of Weft, whose inputs cannot be compared: 1.\n"
        "0 broken (the cluster's pods included).\n"
    )
    call_command("replay", stdout=(out := StringIO()), stderr=(err := StringIO()))
    assert "the same again" in out.getvalue()
    assert "another version" in err.getvalue()


def test_the_loop_compares_pods_with_their_places(world):
    world.actuate()
    clock = Clock()
    assert audited(world, clock)["S2"] == 0.0
    (name,) = [n for n, pod in world.cluster.pods.items() if pod.node == "a" and pod.rank == 1]
    world.cluster.pods[name] = replace(world.cluster.pods[name], gpus=(2,))
    assert audited(world, clock)["S2"] == 1.0
    assert name in Audit.objects.get(name="S2").example
    world.cluster.answers = False
    assert audited(world, clock)["S2"] == 0.0  # nothing is claimed of pods that nobody can see


def test_pods_of_what_moves_while_the_cluster_is_asked_are_not_judged(world):
    runs = Workload.objects.get(name="runs")
    pods = [pod for pod in world.cluster.pods.values() if pod.workload == str(runs.pk)]
    before = atrest.live_rows()
    assert before.still(pods, atrest.live_rows()) == pods
    Placement.objects.filter(workload=runs, rank=1).update(state="Leaving")
    assert before.still(pods, atrest.live_rows()) == []
    before = atrest.live_rows()
    Action.objects.create(verb="stop", workload=runs.pk, created_at=0.0)
    assert before.still(pods, atrest.live_rows()) == []
    assert atrest.live_rows().still(pods, before) == []


def test_a_pod_whose_workload_had_ended_before_is_s5(world):
    world.actuate()
    done = Workload.objects.get(name="done")
    (name,) = [n for n, pod in world.cluster.pods.items() if pod.workload == str(done.pk)]
    world.cluster.pods[name] = replace(world.cluster.pods[name], phase=PodPhase.RUNNING)
    assert audited(world, Clock())["S5"] == 1.0


def test_an_invariant_that_is_checked_no_more_is_told_no_more(world):
    Audit.objects.create(name="S99", violations=3, at=datetime.now(UTC))
    audited(world, Clock())
    assert {row.name for row in health.audit()} == INVARIANTS.keys()


def test_before_the_first_audit_nothing_is_claimed(world):
    assert health.audit() == ()
    assert math.isnan(metrics.registry().get_sample_value("weft_audit_age_seconds"))
    assert metrics.registry().get_sample_value("weft_invariant_violations", {"name": "S1"}) is None


def test_an_audit_is_due_once_a_minute_and_after_a_long_one_later():
    clock = Clock()
    pace = Pace(self_audit.PERIOD_SECONDS, self_audit.REST, clock)
    assert not pace.is_due
    clock.at = self_audit.PERIOD_SECONDS
    assert pace.is_due
    pace.spend(0.1)
    assert not pace.is_due
    clock.at += self_audit.PERIOD_SECONDS
    assert pace.is_due
    pace.spend(3.0)
    clock.at += self_audit.PERIOD_SECONDS
    assert not pace.is_due
    clock.at += self_audit.REST * 3.0 - self_audit.PERIOD_SECONDS
    assert pace.is_due


def test_a_process_that_lost_the_lease_records_nothing(world):
    lease = world.lease("audit")
    Lease.objects.filter(name="audit").update(holder="another", epoch=F("epoch") + 1)
    with pytest.raises(LeaseLost):
        audits.record(found={"S1": [Violation("S1", "a/0", "Over.")]}, lease=lease)
    assert health.audit() == ()
