"""A new demo has a week behind it: what the file in the repository holds, and that a database goes on from it."""

import io
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import pytest
from django.db import transaction
from django.db.models import JSONField, Q, Sum
from django.test import Client, override_settings

from controlplane.cluster.simulated import SimulatedCluster
from controlplane.loops import wiring
from controlplane.loops.embedded import Driver
from controlplane.management.commands import up
from controlplane.models import ClusterState, Event, Placement, ServiceWindow, TeamSample, Usage, User, Workload
from controlplane.models.past import MODELS, kept
from controlplane.queries.audit import audit
from controlplane.queries.reports import dashboard, reports, sla
from controlplane.simulator.worlds import catalogue, demo, pastfile
from controlplane.simulator.worlds.demand import Demand
from controlplane.simulator.worlds.hours import DAY, HOUR
from controlplane.simulator.worlds.pastfile import Past
from controlplane.simulator.worlds.presets import START, Preset
from scheduler.model.workload import ENDED, WAITING

pytestmark = [pytest.mark.django_db, pytest.mark.embedded]
PAGES = (
    "/", "/?range=7d&view=table", "/charts/gpus?range=7d", "/workloads/", "/workloads/?phase=ended", "/queue/", "/map/",
    "/services/", "/decisions/", "/decisions/rounds/", "/usage/?range=7d&view=table", "/usage/?range=7d&group=user",
    "/teams/", "/nodes/", "/notebooks/", "/what-if/",
)  # fmt: skip


@pytest.fixture(scope="module")
def past() -> Past:
    """The file in the repository."""
    return pastfile.read_past(pastfile.DEMO.read_bytes())


def prepared() -> Preset:
    """What `make up` does before it serves: the first time it loads the demo, later it goes on with it."""
    return up.Command(stdout=io.StringIO())._world(dict.fromkeys(("trace", "load", "seed", "speed")))


@pytest.fixture(scope="module")
def opened(django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A new demo after its first round, as `up` starts it; its database is as before when this module is done."""
    folder = tmp_path_factory.mktemp("week")
    with (
        django_db_blocker.unblock(),
        override_settings(DATA_DIR=folder, SIMULATED_STORE=folder / "cluster.sqlite3", STATIC_ROOT=folder / "static"),
        transaction.atomic(),
    ):
        preset = prepared()
        driver = Driver(wiring.simulated(preset), preset, contain=False)
        driver.run_to(preset.start)
        yield driver
        transaction.set_rollback(True)


# --- the file -----------------------------------------------------------------------------------


def test_the_file_ends_where_the_demo_starts_and_is_small(past: Past) -> None:
    assert (past.since, past.until) == (START, demo.OPENING)
    assert pastfile.DEMO.stat().st_size < 2_500_000


def test_the_file_has_what_the_demos_people_would_submit_today(past: Past) -> None:
    """Else the demand has changed since: make the file again with `manage.py demo_week`."""
    arrivals = Demand(sum(node.gpus for node in demo.nodes()), catalogue.DEFAULT_LOAD, seed=0, start=START)
    names = past.tables["Workload"]["name"]
    submitted = list(zip(past.tables["Workload"]["team_id"], names, strict=True))
    expected = [(d["team"], d["name"]) for a in arrivals.until(past.until) for d in a.documents]

    assert submitted == expected


def test_what_is_written_is_read_again() -> None:
    table = {
        "few": ["a", "a", "a", "a", None],
        "whole": [3, 5, 5, 9, 1],
        "all": [1, 1, 1, 1, 1],
        "x": [0.5, 1, 2, 3, 4],
    }
    past = Past("world", 1.0, 2.0, {"Some": table, "None": {"empty": []}})

    assert pastfile.read_past(pastfile.write(past)) == past
    assert pastfile.write(past) == pastfile.write(past)


def test_nothing_is_kept_as_nothing_and_not_as_a_json_null(past: Past) -> None:
    columns = [(model, name, field.null) for model, name, field in json_columns() if name in past.tables[model]]
    assert [name for _, name, _ in columns].count("resize") == 1
    assert [(model, name) for model, name, _ in columns if "null" in past.tables[model][name]] == []
    assert [(model, name) for model, name, null in columns if None in past.tables[model][name] and not null] == []


def json_columns() -> Iterator[tuple[str, str, Any]]:
    for title, model in MODELS.items():
        yield from ((title, field.attname, field) for field in kept(model) if isinstance(field, JSONField))


def test_the_queue_fills_every_working_day_and_empties_every_night(past: Past) -> None:
    waiting = waiting_for_room(past)

    for day in range(7):
        night = [count for at, count in waiting if 0 <= at - START - (day + 1) * DAY <= 8 * HOUR]
        assert min(night) == 0, f"the night after day {day}"
    for day in (0, 1, 4, 5, 6):  # Thursday, Friday, Monday, Tuesday, Wednesday
        busy = [count for at, count in waiting if 10 * HOUR <= at - START - day * DAY <= 18 * HOUR]
        assert max(busy) > 50, f"day {day}"


def test_nothing_that_was_to_end_is_left_of_days_ago(past: Past) -> None:
    workloads = past.tables["Workload"]
    ended = {phase.value for phase in ENDED}
    left = [
        (name, kind, phase)
        for name, kind, phase, at in zip(
            workloads["name"], workloads["kind"], workloads["phase"], workloads["submitted_at"], strict=True
        )
        if phase not in ended and at < past.until - 2 * DAY and phase != "Suspended"
    ]

    assert sorted(name for name, _, _ in left) == ["asr", "chat", "detector", "ranker"]


def waiting_for_room(past: Past) -> list[tuple[float, int]]:
    """(since when, how many wait), without those that wait for other work of their pipeline."""
    rows, events, after = (past.tables[name] for name in ("Workload", "Event", "Dependency"))
    pairs = zip(after["workload_id"], after["needs_id"], strict=True)
    gated = {w: rows["ended_at"][needs] or past.until for w, needs in pairs}
    changes: dict[float, int] = {}
    is_waiting = [False] * len(rows["name"])
    for at, workload, phase in zip(events["cluster_at"], events["workload"], events["phase"], strict=True):
        if workload is not None and phase and (phase in WAITING) != is_waiting[workload]:
            since = max(at, gated.get(workload, at))
            is_waiting[workload] = phase in WAITING
            changes[since] = changes.get(since, 0) + (1 if is_waiting[workload] else -1)
    return list(zip(sorted(changes), accumulate(changes[at] for at in sorted(changes)), strict=True))


# --- a database that begins with it -------------------------------------------------------------


def test_each_of_the_last_seven_days_has_usage_decisions_samples_and_requests(opened: Driver) -> None:
    for day in range(7):
        since = opened.now - (day + 1) * DAY
        within = (since, since + DAY)
        assert Usage.objects.filter(hour__range=within).values("team").distinct().count() == 4
        assert TeamSample.objects.filter(at__range=within).count() > 4 * 24 * 6 - 8
        assert Event.objects.filter(cluster_at__range=within, kind="Evicted").exists()
        assert ServiceWindow.objects.filter(start__range=within).aggregate(n=Sum("requests"))["n"] > 1e6


def test_the_books_of_the_whole_week_balance(opened: Driver) -> None:
    assert audit.violations(last_rounds=0, pods=opened.cluster.observe(None).pods) == ()


def test_what_ran_at_the_end_of_the_week_runs_on(opened: Driver, past: Past) -> None:
    assert isinstance(opened.cluster, SimulatedCluster)
    running = Workload.objects.filter(phase="Running", first_started_at__lt=past.until)
    assert running.count() > 30
    assert opened.cluster.overcommits == 0
    lost = Event.objects.filter(cluster_at__gte=past.until, kind__in=("Requeued", "Failed", "Degraded"))
    before = Event.objects.filter(cluster_at__gte=past.until - HOUR, cluster_at__lt=past.until, kind="Requeued").count()
    assert lost.count() <= before
    # What leaves was told to by the first rounds: services are scaled by what they learn from then on.
    decided = Event.objects.filter(cluster_at__gte=past.until, kind__in=("Evicted", "Shrunk", "Scaled"))
    leaving = Placement.objects.filter(state="Leaving", bound_at__lt=past.until)
    assert leaving.exclude(workload__in=decided.values("workload")).count() == 0
    assert leaving.count() <= running.count() // 10


def test_of_what_has_ended_nothing_is_under_way(opened: Driver) -> None:
    """A round would look at all of it for ever."""
    under_way = Q(resize__isnull=False) | Q(rollout__isnull=False)
    assert not Workload.objects.filter(under_way, phase__in=[p.value for p in ENDED]).exists()


def test_a_second_start_goes_on_and_loads_nothing_again(opened: Driver) -> None:
    before = Workload.objects.count(), Event.objects.count(), opened.now

    assert prepared().identity == opened.preset.identity
    assert (Workload.objects.count(), Event.objects.count(), ClusterState.objects.get().now) == before


def test_the_charts_go_on_without_a_seam(opened: Driver) -> None:
    line = dashboard.line(opened.now, 6 * HOUR, 40)
    assert len(line) >= 40
    assert line[-1].held == pytest.approx(line[-2].held, rel=0.15)
    assert line[-1].computing == pytest.approx(line[-2].computing, rel=0.4)  # one moment beside a mean
    lines = reports.usage(opened.now - 6 * DAY, opened.now, group_by=("team",), step=reports.Step.DAY, names=None)
    assert len({one.start for one in lines}) == 7


def test_services_stand_somewhere_against_their_objectives(opened: Driver) -> None:
    rows = {row.name: row for row in sla.services(opened.now)}
    for name in ("asr", "chat", "detector", "ranker"):
        assert rows[name].requests > 1e5
        assert rows[name].budget_left is not None


def test_the_first_arrivals_after_the_start_are_submitted_once(opened: Driver) -> None:
    arrivals = opened.preset.arrivals
    assert isinstance(arrivals, Demand)
    assert ClusterState.objects.get().arrivals == len(arrivals.running())
    assert not Workload.objects.filter(submitted_at__gt=opened.preset.start).exists()


@pytest.mark.parametrize("page", PAGES)
def test_every_page_shows_the_week(opened: Driver, client: Client, page: str) -> None:
    client.force_login(User.objects.get(username="admin"))
    assert client.get(page).status_code == 200
