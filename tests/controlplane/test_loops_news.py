"""The cluster's news ring for the loop that observes it, and for no other round."""

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator

import pytest

from controlplane.loops import threads, wiring
from controlplane.loops.lease import Report
from controlplane.loops.threads import LoopThread
from controlplane.loops.wiring import Wiring
from controlplane.runtime import wake
from tests.controlplane.state import NoMetrics, PodCluster
from tests.controlplane.turning import Round, Told, well
from tests.servers import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


@contextlib.contextmanager
def listening(run_once: Round, told: Told) -> Iterator[PodCluster]:
    """The observe loop, which waits for ever unless something rings; the cluster it listens to, after a first round."""
    cluster = PodCluster()
    wiring.use(lambda: Wiring(cluster, NoMetrics(), "test"))
    thread = LoopThread("observe", run_once, told, period=3600.0)
    thread.start()
    try:
        wait_until(lambda: len(told.results) >= 1, "the first round", 20)
        yield cluster
    finally:
        thread.stop()
        assert thread.join(20)
        wiring.use(wiring.configured)


def test_the_clusters_news_make_a_round_at_once_and_a_burst_of_them_hardly_more_than_one():
    told = Told()
    with listening(well("observe"), told) as cluster:
        for number in range(1000):
            cluster.change("a", rack=f"rack-{number}")
        wait_until(lambda: len(told.results) >= 2, "a round for the news", 20)
        began = time.monotonic()
        wait_until(lambda: not wake.bells["observe"].is_set(), "the last of the burst", 20)
        took = time.monotonic() - began
    assert len(told.results) <= 4 + took / threads.REST_SECONDS


def test_what_the_observing_thread_does_to_the_cluster_itself_rings_for_no_other_round():
    told, rounds = Told(), itertools.count()

    def moves(wired: Wiring) -> Report:
        if next(rounds) == 1:
            wired.cluster.change("a", rack="own")  # type: ignore[attr-defined]
            assert not wake.bells["observe"].is_set()
        return Report("observe")

    with listening(moves, told) as cluster:
        cluster.change("a", rack="another's")
        wait_until(lambda: len(told.results) >= 2, "a round for the news", 20)
    assert ("observe", "failed") not in told.results


def test_news_do_not_wake_a_standby_but_who_takes_over_looks_once_more():
    has_lease, told = threading.Event(), Told()

    def run_once(wired: Wiring) -> Report:
        return Report("observe", is_standby=not has_lease.is_set())

    with listening(run_once, told) as cluster:
        wait_until(lambda: cluster.listeners != [], "the listener", 20)
        wake.bells["observe"].clear()
        cluster.change("a", rack="new")
        assert not wake.bells["observe"].is_set()
        has_lease.set()
        wait_until(lambda: told.results.count(("observe", "done")) >= 2, "a second round as the holder", 20)
