import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

import pytest
from django.db import transaction

from controlplane.cluster.port import Observation
from controlplane.cluster.simulated import Conditions, SimulatedCluster
from controlplane.jobspec.spec import parse
from controlplane.loops.embedded import Driver, Timer
from controlplane.loops.wiring import FULL_SLOTS, Wiring
from controlplane.models import ClusterState, Event, Membership, Quota, Team, User, Workload
from controlplane.queries.scheduling.digest import of_history
from controlplane.runtime.wake import Bell
from controlplane.services.scheduling import changes
from controlplane.services.workloads import presets
from controlplane.services.workloads.arrivals import CursorMovedError, submit
from controlplane.services.workloads.submission import submit as submit_one
from controlplane.simulator.worlds import catalogue
from controlplane.simulator.worlds.demo import OPENING as START
from controlplane.simulator.worlds.presets import Preset
from controlplane.simulator.worlds.profiles import PROFILES
from tests import traces

pytestmark = [pytest.mark.django_db, pytest.mark.embedded]


class Until:
    """A stop signal that is given when the driver's next round would be after `at`."""

    def __init__(self, driver: Driver, at: float) -> None:
        self.driver, self.at = driver, at

    def is_set(self) -> bool:
        return self.driver.rounds > 0 and self.driver.next_round > self.at

    def wait(self, seconds: float) -> bool:
        time.sleep(seconds)
        return self.is_set()


class Recording(SimulatedCluster):
    """A simulated cluster that keeps when it was asked for everything."""

    asked: tuple[float, ...] = ()

    def observe(self, cursor: str | None) -> Observation:
        if cursor is None:
            self.asked += (self.now() - START,)
        return super().observe(cursor)


class Moody(SimulatedCluster):
    """A simulated cluster that answers no observation while `broken`."""

    broken = False

    def observe(self, cursor: str | None) -> Observation:
        if self.broken:
            raise RuntimeError("the cluster's answer makes no sense")
        return super().observe(cursor)


def demo(seed: int = 0) -> Preset:
    return catalogue.load(seed=seed, data=Path("nowhere"))


def drive(preset: Preset, kind: type[SimulatedCluster] = SimulatedCluster, **options: bool) -> Driver:
    """A driver of this world, loaded into the database unless it is there already."""
    if presets.loaded() is None:
        presets.load(preset=preset, password="demo-password", speed=60.0)
    cluster = kind(preset.nodes, Conditions(seed=preset.seed, start=preset.start), PROFILES)
    return Driver(
        Wiring(cluster, cluster, "test", full_seconds=FULL_SLOTS * preset.pace.slot), preset, Bell(), **options
    )


@contextmanager
def undone() -> Iterator[None]:
    """Leave the database as it was."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


# --- determinism --------------------------------------------------------------------------------


def test_decisions_are_the_same_at_any_speed() -> None:
    digests = []
    for speed in (None, 4000.0, 100_000.0):
        with undone():
            driver = drive(demo(), contain=False)
            end = START + 300
            if speed is None:
                driver.run_to(end)
            else:
                presets.set_pace(speed=speed)
                driver.run(Until(driver, end))  # type: ignore[arg-type]
            digests.append((of_history(), driver.rounds))

    assert digests[0] == digests[1] == digests[2]


def test_the_clusters_clock_alone_says_when_everything_is_observed() -> None:
    driver = drive(demo(), Recording, contain=False)
    driver.run_to(START + 1300)  # takes seconds by any other clock

    assert isinstance(driver.cluster, Recording)
    assert driver.cluster.asked == (0, 600, 1200)


def test_another_seed_gives_another_history() -> None:
    digests = []
    for seed in (0, 1):
        with undone():
            drive(demo(seed), contain=False).run_to(START + 60)
            digests.append(of_history())

    assert digests[0] != digests[1]


# --- arrivals -----------------------------------------------------------------------------------


def test_a_driver_that_starts_again_submits_every_arrival_once() -> None:
    preset = demo()
    first = drive(preset, contain=False)
    first.run_to(START + 120)
    again = Driver(first.wiring, preset, Bell(), contain=False)
    again.run_to(START + 300)

    due = takewhile(lambda arrival: arrival.at <= again.now, preset.arrivals)
    expected = [(d["team"], d["name"]) for arrival in due for d in arrival.documents]
    assert list(Workload.objects.order_by("seq").values_list("team__name", "name")) == expected


def test_arrivals_that_another_process_has_submitted_are_not_submitted_again() -> None:
    preset = demo()
    driver = drive(preset, contain=False)
    driver.run_to(START)
    count = Workload.objects.count()
    arrivals = list(takewhile(lambda arrival: arrival.at == START, preset.arrivals))

    with pytest.raises(CursorMovedError):
        submit(arrivals=arrivals, seen=0, world=preset.identity)

    assert Workload.objects.count() == count


def test_an_arrival_that_is_refused_holds_up_no_other() -> None:
    preset = demo()
    presets.load(preset=preset, password="demo-password", speed=60.0)
    Team.objects.filter(name="vision").update(name="gone")
    driver = drive(preset, contain=False)
    driver.run_to(START + 60)

    assert set(Workload.objects.values_list("team__name", flat=True)) == {"research", "nlp", "product"}


# --- rounds -------------------------------------------------------------------------------------


def test_a_loop_that_fails_is_tried_again_and_the_others_go_on() -> None:
    driver = drive(demo(), Moody)
    driver.run_to(START + 30)
    driver.cluster.broken = True  # type: ignore[attr-defined]
    driver.run_to(START + 60)
    assert driver.health["observe"].failures >= 1
    assert driver.health["schedule"].failures == driver.health["actuate"].failures == 0
    assert driver.now == START + 60

    driver.cluster.broken = False  # type: ignore[attr-defined]
    deadline = time.monotonic() + 20
    while driver.health["observe"].failures and time.monotonic() < deadline:
        driver.run_to(driver.now + 60)
    assert driver.health["observe"].failures == 0


def test_without_containment_a_failure_is_raised() -> None:
    driver = drive(demo(), Moody, contain=False)
    driver.cluster.broken = True  # type: ignore[attr-defined]

    with pytest.raises(RuntimeError, match="makes no sense"):
        driver.run_to(START)


def test_a_paused_clock_stands_still_but_a_user_is_served() -> None:
    preset = demo()
    driver = drive(preset)
    driver.run_to(START)
    presets.set_pace(paused=True)
    document = {"type": "notebook", "name": "mine", "team": "research", "image": "a/b:1"}
    mine = submit_one(spec=parse(document | {"resources": {"cpu": 1, "memory": "1Gi"}}), user=None, actor="mel")
    bell = driver._bell
    threading.Timer(0.05, bell.ring).start()
    rounds = driver.rounds

    class Answered:
        def is_set(self) -> bool:
            return driver.rounds > rounds

    driver.run(Answered())  # type: ignore[arg-type]

    mine.refresh_from_db()
    assert (driver.now, mine.phase) == (START, "Admitted")
    assert not changes.are_there()


def test_a_driver_does_not_answer_its_own_bell() -> None:
    bell = Bell()
    bell.adopt()
    bell.ring()
    assert not bell.answer()

    other = threading.Thread(target=bell.ring)
    other.start()
    other.join()
    assert bell.answer()
    assert not bell.answer()


def test_a_timer_is_due_once_a_period_of_the_clock_however_late_it_is_asked() -> None:
    timer = Timer(60.0)

    assert [timer.is_due(at) for at in (0.0, 30.0, 59.0, 60.0, 61.0, 250.0, 299.0, 300.0)] == [
        True, False, False, True, False, True, False, True,
    ]  # fmt: skip


# --- what a preset loads ------------------------------------------------------------------------


def test_loading_a_preset_makes_teams_quotas_and_one_person_of_each_role() -> None:
    drive(demo())

    assert ClusterState.objects.get().preset == "demo load=1.2 seed=0"
    assert Team.objects.get(name="nlp").parent == Team.objects.get(name="research")
    roots = Quota.objects.filter(team__parent=None)  # what a parent owns includes what its children own
    assert sum(roots.values_list("nominal", flat=True)) == 120_000
    assert User.objects.get(username="admin").is_superuser
    assert dict(Membership.objects.values_list("user__username", "role")) == {
        "ada": "admin", "mel": "member", "vic": "viewer",
    }  # fmt: skip
    assert User.objects.get(username="vic").check_password("demo-password")


# --- what a preset shows ------------------------------------------------------------------------


def worlds() -> list[pytest.param]:
    """The demo on five seeds; models and trace files on the first one, and on all five in nightly.

    Not the world of notebooks alone, in which nothing is preempted.
    """

    def marks(name: str, seed: int) -> list[pytest.MarkDecorator]:
        return [] if name == "demo" else [pytest.mark.nightly if seed else pytest.mark.nightly_too]

    return [
        pytest.param(name, seed, id=f"{name}-{seed}", marks=marks(name, seed))
        for name in catalogue.NAMES
        if name != "notebooks"
        for seed in range(5)
    ]


def shown(since: float) -> set[str]:
    """What a visitor of the pages could have seen by now."""
    evictions = set(Event.objects.filter(kind="Evicted").values_list("reason", flat=True))
    reasons = set(Event.objects.filter(kind="Waiting").values_list("reason", flat=True))
    gangs = Workload.objects.filter(kind="training", workers__gt=1, first_started_at__gt=since)
    return (
        {f"evicted: {reason}" for reason in evictions}
        | ({"three reasons"} if len(reasons) >= 3 else set())
        | ({"a gang"} if gangs.exists() else set())
    )


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), worlds())
def test_two_minutes_show_a_gang_a_preemption_a_reclaim_and_three_reasons(name: str, seed: int) -> None:
    traces.needed(name)
    preset = catalogue.load(name, seed=seed, data=traces.DATA)
    driver = drive(preset, contain=False)
    wanted = {"evicted: Preempted", "evicted: Reclaimed", "three reasons", "a gang"}

    while not wanted <= shown(preset.start) and driver.now < preset.start + 120 * preset.pace.speed:
        driver.run_to(driver.now + 2 * preset.pace.speed)

    assert wanted <= shown(preset.start)
