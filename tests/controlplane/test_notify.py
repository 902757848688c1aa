"""Who is told of what: once each, what they asked for, and nobody of a team that is not theirs."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from autoscaler.alarms import Alarm
from autoscaler.sla import Standing
from controlplane.cluster.port import PodPhase
from controlplane.loops.pace import Pace
from controlplane.models import (
    Delivery,
    Event,
    EventCursor,
    Lease,
    Membership,
    Notice,
    NotificationRule,
    ServiceAlarm,
    ServiceWindow,
    StartForecast,
    Team,
    User,
    Workload,
)
from controlplane.services.errors import Refused
from controlplane.services.notifications import notices, subscriptions
from controlplane.services.tenancy import budgets
from controlplane.services.workloads import workloads
from tests.controlplane.telling import Told, another_worker

pytestmark = pytest.mark.django_db


@pytest.fixture
def told() -> Told:
    return Told()


def test_whoever_asked_is_told_of_the_end_of_their_own_work_once(told: Told) -> None:
    told.rule("ann", "ended")
    told.rule("ben", "ended")
    job = told.end("train")
    told.round()
    told.round()
    assert told.titles("ann") == ["train succeeded"]
    assert told.titles("ben") == []
    notice = Notice.objects.get()
    assert (notice.team, notice.workload, notice.matter, notice.read_at) == ("red", job.pk, "ended", None)


def test_a_rule_for_a_team_is_about_all_of_it_and_the_teams_below(told: Told) -> None:
    told.rule("ben", "ended", team="red")
    told.end("one", by="ann")
    told.end("two", by="ann", team="red-a")
    told.end("three", by="bob", team="blue")
    told.round()
    assert told.titles("ben") == ["one succeeded", "two succeeded"]


def test_two_rules_that_a_matter_meets_make_one_notice(told: Told) -> None:
    told.rule("ann", "ended")
    told.rule("ann", "ended", team="red")
    told.end("one")
    told.round()
    assert told.titles("ann") == ["one succeeded"]


def test_what_happened_before_the_rule_is_not_told(told: Told) -> None:
    told.rule("ben", "ended", team="red")
    told.end("before")
    told.rule("ann", "ended")
    told.end("after")
    told.round()
    assert told.titles("ann") == ["after succeeded"]
    assert told.titles("ben") == ["before succeeded", "after succeeded"]


def test_whoever_lost_their_role_is_told_no_more(told: Told) -> None:
    told.rule("ann", "ended")
    told.rule("ann", "ended", team="red")
    job = told.end("one")
    Membership.objects.filter(user__username="ann").delete()
    told.round()
    assert told.titles("ann") == []
    assert Event.objects.filter(workload=job.pk, kind="Succeeded").exists()


def test_a_user_who_is_disabled_is_not_told(told: Told) -> None:
    told.rule("ann", "ended")
    User.objects.filter(username="ann").update(is_active=False)
    told.end("one")
    told.round()
    assert told.titles("ann") == []


def test_nobody_is_told_of_what_they_did_themselves(told: Told) -> None:
    told.rule("ann", "ended")
    told.rule("ben", "ended", team="red")
    job = told.job("one", by="ann")
    workloads.stop(workload=job, actor="ann")
    told.round()
    assert told.titles("ann") == []
    assert told.titles("ben") == ["one was stopped"]


def test_preempted_work_is_told_with_what_the_scheduler_says(told: Told) -> None:
    told.rule("ann", "preempted")
    victim, claimant = told.job("victim"), told.job("claimant", by="ben")
    told.world.run(victim, "a")
    told.world.evict(victim, claimant)
    told.round()
    assert told.titles("ann") == ["victim was preempted"]


def test_a_failure_says_why(told: Told) -> None:
    told.rule("ann", "ended")
    job = told.job("bad")
    told.world.run(job, "a")
    told.world.pods(job, PodPhase.FAILED, reason="OOMKilled", exit_code=137)
    told.world.observe()
    told.round()
    assert told.titles("ann") == ["bad failed"]
    assert "OOMKilled, exit code 137" in Notice.objects.get().message


def test_a_wait_beyond_the_interval_that_was_told_first_is_told_once(told: Told) -> None:
    told.rule("ann", "waits-long")
    job, at = told.job("waits"), told.world.cluster.at
    StartForecast.objects.create(workload=job.pk, asked_at=at, first_high=at + 100, told_at=at, told_high=at + 9000)
    told.round()
    assert told.titles("ann") == []
    told.world.later(101)
    told.world.observe()
    told.round()
    told.round()
    assert told.titles("ann") == ["waits waits longer than expected"]


def test_a_budget_is_told_at_80_and_at_100_percent_each_once(told: Told) -> None:
    told.rule("ann", "budget", team="red")
    budgets.save(team=Team.objects.get(name="red"), period="month", gpu_hours=10, is_hard=True, actor="root")
    told.world.run(told.job("job", gpus=8), "a")
    for hours in (0.5, 0.6, 0.1, 0.2):
        told.world.later(hours * 3600)
        told.world.observe()
        told.world.account()
        told.round()
    assert told.titles("ann") == [
        "red has used 80 % of its budget for this month",
        "red has used 100 % of its budget for this month",
    ]


def test_a_service_that_burns_its_error_budget_is_told_of(told: Told) -> None:
    told.rule("ann", "slo")
    service, at = told.job("chat", kind="inference", replicas={"min": 1, "max": 1}), told.world.cluster.at
    told.world.run(service, "a")
    ServiceWindow.objects.create(workload=service.pk, start=at, requests=1000, over=0)
    told.round()
    assert told.titles("ann") == []
    ServiceWindow.objects.create(workload=service.pk, start=at + 60, requests=1000, over=500)
    told.round()
    told.round()
    assert told.titles("ann") == ["chat has missed its objective"]


def burn(service: Workload, at: float, late: int) -> None:
    """Minutes of the hour up to now: of 1,000 requests each, so many are late; and days that were calm before."""
    ServiceWindow.objects.filter(workload=service.pk).delete()
    ServiceWindow.objects.create(workload=service.pk, start=at - 7 * 3600, requests=10_000_000, over=0)
    ServiceWindow.objects.bulk_create(
        ServiceWindow(workload=service.pk, start=at - 60 * (minute + 1), requests=1000, over=late)
        for minute in range(60)
    )


def test_each_change_of_a_services_standing_is_told_once_and_its_end_after_a_calm_while(told: Told) -> None:
    told.rule("ann", "slo")
    service = told.job("chat", kind="inference", replicas={"min": 1, "max": 1})
    told.world.run(service, "a")
    for minutes, late in ((1, 20), (1, 0), (1, 20), (1500, 20), (1, 500), (1, 0), (10, 0), (40, 0), (1, 20)):
        told.world.later(60.0 * minutes)
        told.world.observe()
        burn(service, told.world.cluster.at, late)
        told.round()
        told.round()
    assert told.titles("ann") == [
        "chat burns its error budget",  # and once only: neither the flutter nor another day tells it again
        "chat has missed its objective",
        "chat keeps its objective again",
        "chat burns its error budget",
    ]
    rows = Notice.objects.order_by("pk").values_list("key", flat=True)
    assert len({key.rsplit(":", 1)[1] for key in rows}) == 4, "each has the moment of its change"


def test_who_subscribes_later_is_told_how_it_stands_then(told: Told) -> None:
    told.rule("ann", "slo")
    service = told.job("chat", kind="inference", replicas={"min": 1, "max": 1})
    told.world.run(service, "a")
    burn(service, told.world.cluster.at, 20)
    told.round()
    told.rule("ben", "slo", team="red")
    told.round()
    assert told.titles("ben") == told.titles("ann") == ["chat burns its error budget"]


def test_a_worker_that_lost_its_lease_changes_no_alarm(told: Told) -> None:
    held = told.world.lease("notify")
    Lease.objects.filter(name="notify").update(epoch=99, holder="another")
    with pytest.raises(Exception, match="is over"):
        notices.tell(users=[], webhooks=[], read=None, lease=held, alarms={uuid4(): Alarm(Standing.AT_RISK, 1.0)})
    assert not ServiceAlarm.objects.exists()


def test_without_rules_a_round_is_a_few_reads_and_no_write(told: Told, django_assert_num_queries) -> None:
    told.end("one")
    told.round()
    with django_assert_num_queries(3):  # rules, the database's clock, what is due
        told.round()
    assert not EventCursor.objects.exists()


def test_when_the_last_rule_goes_reading_begins_anew_with_the_next(told: Told) -> None:
    rule = told.rule("ann", "ended")
    told.end("one")
    told.round()
    subscriptions.remove(rule=rule, actor="ann")
    told.round()
    assert not EventCursor.objects.exists()
    told.end("unseen")
    told.rule("ann", "ended")
    told.end("two")
    told.round()
    assert told.titles("ann") == ["one succeeded", "two succeeded"]


def test_a_new_holder_goes_on_where_the_last_one_was(told: Told) -> None:
    told.rule("ann", "ended")
    told.end("one")
    told.round()
    Lease.objects.update(expires_at=Now() - timedelta(seconds=1))
    told.end("two")
    told.round(another_worker())
    assert told.titles("ann") == ["one succeeded", "two succeeded"]


def test_a_worker_that_lost_its_lease_writes_nothing(told: Told) -> None:
    told.rule("ann", "ended")
    held = told.world.lease("notify")
    Lease.objects.filter(name="notify").update(epoch=99, holder="another")
    with pytest.raises(Exception, match="is over"):
        notices.tell(users=[], webhooks=[], read=(5, ()), lease=held)
    assert not EventCursor.objects.exists()


def test_the_table_itself_lets_nobody_be_told_twice(told: Told) -> None:
    told.rule("ann", "ended")
    told.end("one")
    told.round()
    seen = Notice.objects.get()
    with pytest.raises(IntegrityError), transaction.atomic():
        Notice.objects.create(
            user=seen.user, key=seen.key, matter="ended", team="red", title="", cluster_at=0, at=seen.at
        )


def test_a_user_marks_their_own_notices_as_read_and_no_others(told: Told) -> None:
    told.rule("ann", "ended", team="red")
    told.rule("ben", "ended", team="red")
    told.end("one", by="bob")
    told.round()
    bens = Notice.objects.get(user__username="ben")
    assert notices.mark_read(user=told.user("ann").pk, pks=[bens.pk]) == 0
    assert notices.mark_read(user=told.user("ann").pk) == 1
    assert Notice.objects.filter(read_at__isnull=True).get() == bens


def test_what_is_old_is_deleted(told: Told) -> None:
    told.rule("ann", "ended")
    told.end("one")
    told.round()
    Notice.objects.update(at=Now() - timedelta(days=notices.KEEP_DAYS + 1))
    told.world.wiring.kept["notify prunes"] = Pace(0.0, 0.0)
    told.round()
    assert not Notice.objects.exists()
    assert not Delivery.objects.exists()


def test_rules_that_cannot_be_are_refused_with_their_field(told: Told) -> None:
    refused = []
    for matter, team in (("nonsense", "red"), ("budget", "")):
        with pytest.raises(Refused) as error:
            told.rule("ann", matter, team=team)
        refused.append(error.value.field)
    assert refused == ["event_type", "team"]
    assert not NotificationRule.objects.exists()


def test_there_is_an_end_to_rules(told: Told) -> None:
    ann, now = told.user("ann"), Now()
    teams = Team.objects.bulk_create(Team(name=f"t{n}") for n in range(subscriptions.MAX_RULES))
    NotificationRule.objects.bulk_create(
        NotificationRule(user=ann, team=team, matter="ended", created_at=now) for team in teams
    )
    with pytest.raises(Refused, match="100 rules"):
        told.rule("ann", "ended")


def test_pages_of_notices_are_those_of_the_site(told: Told) -> None:
    from django.urls import resolve

    told.rule("ann", "ended")
    job = told.end("one")
    assert Workload.objects.filter(pk=job.pk).exists()
    assert resolve(f"/workloads/{job.pk}/").view_name == "frontend:workload"
    assert resolve("/teams/").view_name == "frontend:teams"
    assert resolve("/notices/").view_name == "frontend:notices"
    assert resolve("/notices/unsubscribe/x").view_name == "frontend:unsubscribe"
