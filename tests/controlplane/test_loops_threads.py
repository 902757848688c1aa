"""The loops' threads: one that fails or hangs neither stops the others nor hides it."""

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

import pytest
from django.db import OperationalError
from django.db.models import F
from django.db.models.functions import Now

from controlplane.loops import lease, rounds, threads, wiring
from controlplane.loops.lease import Report
from controlplane.loops.threads import Loops, LoopThread
from controlplane.loops.wiring import Wiring
from controlplane.models import Heartbeat, Lease
from controlplane.runtime import liveness, wake
from controlplane.services.scheduling import leases
from controlplane.services.scheduling.leases import TTL_SECONDS
from tests.controlplane.state import NoMetrics, PodCluster
from tests.controlplane.turning import Round, Told, well
from tests.servers import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass
class Counted(lease.Lease):
    """A lease that counts how often it is renewed, and fails at it if it is told to."""

    name: str = "observe"
    renewals: int = 0
    fails: bool = False
    may_go: threading.Event | None = None  # a renewal waits for it, as for a row that is locked

    def __post_init__(self) -> None:
        super().__init__(self.name, "test")

    def renew_held(self) -> None:
        self.renewals += 1
        if self.may_go is not None:
            self.may_go.wait(20)
        if self.fails:
            raise OperationalError("the connection is lost")
        super().renew_held()


@pytest.fixture(autouse=True)
def wired() -> Iterator[None]:
    wiring.use(lambda: Wiring(PodCluster(), NoMetrics(), "test"))
    yield
    wiring.use(wiring.configured)


@contextlib.contextmanager
def running(
    loops: dict[str, Round], told: Told | None = None, alive: Callable[[], None] = lambda: None
) -> Iterator[Loops]:
    """The loops in their threads; they end with the test."""
    process = Loops(told or Told(), alive, loops, renew_seconds=0.02)
    process.start()
    try:
        yield process
    finally:
        process.stop()
        assert process.join(20)


def broken(wired: Wiring) -> Report:
    raise RuntimeError("division by zero")


@contextlib.contextmanager
def hanging(name: str = "observe") -> Iterator[LoopThread]:
    """A thread in the middle of a round."""
    is_in, may_go = threading.Event(), threading.Event()

    def run_once(wired: Wiring) -> Report:
        is_in.set()
        may_go.wait(20)
        return Report(name)

    thread = LoopThread(name, run_once)
    thread.start()
    try:
        assert is_in.wait(20)
        yield thread
    finally:
        thread.stop()
        may_go.set()
        assert thread.join(20)


# --- failures -----------------------------------------------------------------------------------


def test_a_round_that_fails_backs_off_and_the_others_go_on():
    told = Told()
    with running({"observe": broken, "scale": well("scale")}, told) as process:
        wait_until(lambda: told.has("observe", "failed", 3) and told.has("scale", "done", 3), "rounds", 20)
        assert process.threads[0].turning.failures >= 3
        assert process.threads[1].turning.failures == 0
        assert process.is_turning  # a restart would not mend what is wrong
    at = [at for at, result in zip(told.at, told.results, strict=True) if result == ("observe", "failed")]
    pauses = [later - earlier for earlier, later in itertools.pairwise(at)]
    assert pauses[0] >= threads.BACKOFF_SECONDS
    assert pauses[1] >= 2 * threads.BACKOFF_SECONDS


def test_a_failure_is_told_in_the_heartbeat_and_a_complete_round_clears_it():
    told, mended = Told(), threading.Event()
    with running({"observe": lambda wired: well("observe")(wired) if mended.is_set() else broken(wired)}, told):
        wait_until(lambda: told.has("observe", "failed"), "a failure", 20)
        row = Heartbeat.objects.get(loop="observe")
        assert (row.at, row.error) == (None, "RuntimeError: division by zero")
        mended.set()
        wait_until(lambda: told.has("observe", "done"), "a complete round", 20)
    row = Heartbeat.objects.get(loop="observe")
    assert row.at is not None
    assert (row.holder, row.took_ms, row.error) == ("test", 250.0, "")


def test_a_round_that_was_skipped_is_no_progress_and_no_failure():
    told = Told()
    with running({"observe": lambda wired: Report("observe", skipped="cluster unreachable")}, told) as process:
        wait_until(lambda: told.has("observe", "skipped"), "a round", 20)
        assert process.threads[0].turning.failures == 0
    row = Heartbeat.objects.get(loop="observe")
    assert (row.at, row.error) == (None, "cluster unreachable")


def test_a_process_that_cannot_be_wired_tries_again():
    failures = iter([OperationalError("no database"), OperationalError("no database")])

    def build() -> Wiring:
        for failure in failures:
            raise failure
        return Wiring(PodCluster(), NoMetrics(), "test")

    wiring.use(build)
    told = Told()
    with running({"observe": well("observe")}, told):
        wait_until(lambda: told.has("observe", "done"), "a complete round", 20)
    assert told.results[0] == ("observe", "failed")


# --- hints, standby, the end ----------------------------------------------------------------------


def test_a_hint_that_comes_during_a_round_makes_another():
    count = itertools.count(1)
    told = Told()

    def hinted(wired: Wiring) -> Report:
        if next(count) == 1:
            wake.bells["account"].set()
        return Report("account")

    with running({"account": hinted}, told):
        wait_until(lambda: len(told.results) >= 2, "the second round", 20)  # long before its period
        assert told.at[1] - told.at[0] < threads.PERIODS["account"]


def test_who_stands_by_leaves_the_heartbeat_to_the_holder():
    assert leases.acquire(name="observe", holder="another", ttl=60)
    told = Told()
    with running({"observe": lambda wired: rounds.run("observe", wired, lambda *_: 1)}, told) as process:
        wait_until(lambda: told.has("observe", "standby", 2), "rounds", 20)
        assert process.threads[0].turning.is_standby
    assert not Heartbeat.objects.exists()
    assert Lease.objects.get(name="observe").holder == "another"


def test_at_the_end_the_lease_is_given_back_and_the_others_are_hinted():
    is_in, may_go = threading.Event(), threading.Event()

    def work(*_: object) -> int:
        is_in.set()
        may_go.wait(20)
        return 1

    with running({"observe": lambda wired: rounds.run("observe", wired, work)}) as process:
        assert is_in.wait(20)
        assert Lease.objects.get(name="observe").holder == "test"
        process.stop()
        wake.bells["observe"].clear()  # `stop` rang it
        may_go.set()
        assert process.join(20)
        assert wake.bells["observe"].is_set()
    assert Lease.objects.get(name="observe").holder == ""


def test_a_lease_that_cannot_be_given_back_does_not_keep_the_process():
    class Stuck(lease.Lease):
        def release(self) -> None:
            raise OperationalError("the connection is lost")

    def run_once(wired: Wiring) -> Report:
        wired.kept["lease:observe"] = Stuck("observe", "test")
        return Report("observe")

    told = Told()
    with running({"observe": run_once}, told) as process:
        wait_until(lambda: told.has("observe", "done"), "a round", 20)
    assert process.join(0)


# --- rounds that hang -----------------------------------------------------------------------------


def expires_in(name: str = "observe") -> timedelta:
    row = Lease.objects.annotate(left=F("expires_at") - Now()).get(name=name)
    left: timedelta = row.left
    return left


def in_round(seconds: float | None) -> LoopThread:
    """A loop that holds its lease, has five seconds left of it, and is in a round for so long (None: in none)."""
    thread = LoopThread("observe", well("observe"))
    thread.lease = lease.Lease("observe", "test")
    assert thread.lease.hold()
    Lease.objects.update(expires_at=F("expires_at") - timedelta(seconds=5))
    thread.turning.began_at = None if seconds is None else time.monotonic() - seconds
    return thread


def test_a_round_that_takes_long_has_its_lease_renewed():
    in_round(threads.LONGEST_ROUND_SECONDS - 10).renew()
    wait_until(lambda: expires_in() > timedelta(seconds=6), "the renewal", 20)


@pytest.mark.parametrize("seconds", [None, 0.0, threads.LONGEST_ROUND_SECONDS + 1])
def test_a_round_that_hangs_or_is_over_or_has_just_begun_is_not_renewed_and_another_may_take_the_loop(seconds):
    thread = in_round(seconds)
    thread.renew()
    assert thread.is_renewing is False
    assert expires_in() < timedelta(seconds=6)
    Lease.objects.update(expires_at=F("expires_at") - timedelta(seconds=6))
    assert leases.acquire(name="observe", holder="another")


def test_a_loop_that_never_had_a_lease_has_nothing_to_renew():
    thread = LoopThread("observe", well("observe"))
    thread.turning.began_at = time.monotonic() - threads.YOUNG * TTL_SECONDS
    thread.renew()
    assert not Lease.objects.exists()


def test_a_thread_turns_while_its_round_is_not_longer_than_a_round_may_be():
    with hanging() as thread:
        assert thread.is_turning
        thread.turning.came_round_at = time.monotonic() - threads.LONGEST_ROUND_SECONDS + 10
        assert thread.is_turning
        thread.turning.came_round_at = time.monotonic() - threads.LONGEST_ROUND_SECONDS - 1
        assert not thread.is_turning


@pytest.mark.parametrize(("name", "patience"), [("observe", 30.0), ("account", 180.0)])
def test_a_thread_that_waits_turns_for_three_of_its_periods(name, patience):
    told = Told()
    with running({name: well(name)}, told) as process:
        wait_until(lambda: (name, "done") in told.results, "a round", 20)
        (thread,) = process.threads
        wait_until(lambda: thread.turning.began_at is None, "the end of the round", 20)
        thread.turning.came_round_at = time.monotonic() - patience + 10
        assert thread.is_turning
        thread.turning.came_round_at = time.monotonic() - patience - 1
        assert not thread.is_turning


def test_a_thread_that_has_not_begun_or_has_ended_does_not_turn():
    thread = LoopThread("observe", well("observe"))
    assert not thread.is_turning
    thread.start()
    thread.stop()
    assert thread.join(20)
    assert not thread.is_turning


# --- the keeper -----------------------------------------------------------------------------------


def test_while_all_threads_come_round_the_liveness_file_is_touched_and_goes_stale_when_one_hangs(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_ALIVE", str(tmp_path))
    is_in, may_go, touches = threading.Event(), threading.Event(), itertools.count()
    newest = -1

    def alive() -> None:
        nonlocal newest
        liveness.touch("worker")
        newest = next(touches)

    def hangs(wired: Wiring) -> Report:
        is_in.set()
        may_go.wait(20)
        return Report("observe")

    with running({"observe": hangs, "scale": well("scale")}, alive=alive) as process:
        assert is_in.wait(20)
        wait_until(lambda: newest > 0, "two touches", 20)
        assert liveness.main("worker", "60") == 0
        counted = process.threads[1].lease = Counted("scale")  # tells that the keeper goes on
        process.threads[1].turning.began_at = time.monotonic() - threads.YOUNG * TTL_SECONDS
        process.threads[0].turning.came_round_at = time.monotonic() - threads.LONGEST_ROUND_SECONDS - 1
        try:
            wait_until(lambda: counted.renewals >= 2, "the keeper", 20)
            before, renewals = newest, counted.renewals
            wait_until(lambda: counted.renewals >= renewals + 3, "the keeper", 20)
            assert newest == before
        finally:
            may_go.set()
        wait_until(lambda: newest > before, "another touch", 20)


@pytest.mark.parametrize("trouble", ["fails", "waits"])
def test_a_lease_that_cannot_be_renewed_does_not_keep_the_others_from_it(trouble):
    are_in, may_go = threading.Barrier(3), threading.Event()

    def hangs(wired: Wiring) -> Report:
        are_in.wait(20)
        may_go.wait(20)
        return Report("observe")

    with running({"observe": hangs, "scale": hangs}) as process:
        are_in.wait(20)
        first = Counted("observe", fails=trouble == "fails", may_go=may_go if trouble == "waits" else None)
        second = Counted("scale")
        process.threads[0].lease, process.threads[1].lease = first, second
        try:
            wait_until(lambda: first.renewals >= 1 and second.renewals >= 3, "renewals", 20)
            if trouble == "fails":
                wait_until(lambda: first.renewals >= 2, "another try", 20)
            else:
                assert first.renewals == 1  # one at a time for each lease
        finally:
            may_go.set()
