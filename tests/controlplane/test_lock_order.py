"""Transactions lock workloads in one order, so that loops and users never wait for each other in a circle."""

import threading

import pytest
from django.db import OperationalError, connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from controlplane.cluster.port import PodPhase
from controlplane.loops import rounds
from controlplane.loops.wiring import Wiring
from controlplane.models import Workload
from controlplane.services.scheduling.leases import HeldLease
from controlplane.services.workloads.transitions import Batch
from tests.controlplane.state import World, phase


def has_locks() -> bool:
    """Whether rows are locked one by one (Postgres); SQLite lets one transaction write at a time."""
    return bool(connection.features.has_select_for_update)


@pytest.mark.django_db
def test_an_observation_locks_all_that_it_may_change_in_its_first_statement() -> None:
    world = World()
    train, victim, claimant, late = (world.submit(name) for name in ("train", "victim", "claimant", "late"))
    waiting = world.submit("waiting", after=["train"])
    world.run(train, "a")
    world.run(victim, "b")
    world.place(late, "a")
    world.evict(victim, claimant)
    world.place(claimant, "b", after=[victim])
    world.later(400)  # longer than a gang may take to come up
    world.cluster.set(train, PodPhase.SUCCEEDED)
    world.cluster.set(victim, PodPhase.GONE)
    with CaptureQueriesContext(connection) as seen:
        world.observe_all()
    assert [phase(w) for w in (train, victim, claimant, late)] == ["Succeeded", "Queued", "Admitted", "Degraded"]
    waiting.refresh_from_db()
    assert waiting.unmet == []
    first, *later = [
        {w.name for w in Workload.objects.all() if w.pk.hex in query["sql"].replace("-", "")}
        for query in seen.captured_queries
        if 'FROM "controlplane_workload"' in query["sql"] and "FOR NO KEY UPDATE" in query["sql"]
    ] or [set()]
    assert len(first) == (5 if has_locks() else 0)
    assert set().union(*later) <= first


@pytest.mark.django_db(transaction=True)
def test_a_submission_waits_until_it_is_known_how_what_it_needs_ended() -> None:
    world = World()
    train = world.submit("train")
    told: list[str] = []

    def submit() -> None:
        if has_locks():
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '100ms'")
        try:
            told.append(str(world.submit("next", after=["train"]).unmet))
        except OperationalError:
            told.append("it waited")
        connections.close_all()

    thread = threading.Thread(target=submit)
    with transaction.atomic():
        batch = Batch(world.cluster.at, "test")
        batch.lock([train.pk])
        thread.start()
        if has_locks():
            thread.join()
    thread.join()
    assert told == ["it waited" if has_locks() else "['train']"]


@pytest.mark.django_db(transaction=True)
def test_a_round_that_waits_in_a_circle_is_given_up_and_made_again() -> None:
    world = World()
    one, other = world.submit("one"), world.submit("other")
    both = threading.Barrier(2)
    told: list[str] = []

    def locking(first: Workload, second: Workload) -> None:
        def work(wiring: Wiring, lease: HeldLease) -> int:
            with transaction.atomic():
                batch = Batch(world.cluster.at, "test")
                batch.lock([first.pk])
                if has_locks():
                    both.wait(30)
                batch.lock([second.pk])
            return 0

        told.append(rounds.run(f"round of {first.name}", Wiring(world.cluster, world.metrics, "test"), work).skipped)
        connections.close_all()

    threads = [threading.Thread(target=locking, args=pair) for pair in ((one, other), (other, one))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) == ["", "rows changed meanwhile" if has_locks() else ""]


@pytest.mark.django_db(transaction=True)
def test_a_round_whose_rows_somebody_else_holds_for_long_is_given_up_and_made_again() -> None:
    world = World()
    one = world.submit("one")
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            Batch(world.cluster.at, "test").lock([one.pk])
            held.set()
            if has_locks():
                over.wait(30)
        connections.close_all()

    def work(wiring: Wiring, lease: HeldLease) -> int:
        with transaction.atomic():
            Batch(world.cluster.at, "test").lock([one.pk])
        return 1

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(30)
    report = rounds.run("one round", world.wiring, work)
    over.set()
    holder.join()
    assert (report.skipped, report.did) == (("rows changed meanwhile", 0) if has_locks() else ("", 1))
