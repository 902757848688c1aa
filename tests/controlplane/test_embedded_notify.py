"""The loop that tells people needs no cluster, and in the embedded mode has a thread that holds up no round."""

import threading
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from controlplane.loops import embedded_notify, wiring
from controlplane.models import Notice
from controlplane.runtime import wake
from tests.controlplane.telling import Told
from tests.servers import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_worker_that_only_tells_people_needs_no_rights_to_a_cluster(settings: Any) -> None:
    settings.CLUSTER = "none that there is"
    found: list[str] = []

    def work() -> None:
        try:
            wiring.get()
        except ImproperlyConfigured:
            found.append("no cluster")
        found.append(wiring.of("notify").holder)
        connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == ["no cluster", wiring.holder()]


@pytest.mark.embedded
def test_in_the_embedded_mode_a_thread_of_its_own_tells_people_until_it_is_stopped() -> None:
    told, stop = Told(), threading.Event()
    told.rule("ann", "ended")
    told.end("train")
    threads = embedded_notify.start(stop)
    try:
        wait_until(Notice.objects.exists, "the notice", 30)
    finally:
        stop.set()
        embedded_notify.ring()
        for thread in threads:
            thread.join(10)
    assert [thread.name for thread in threads if thread.is_alive()] == []
    assert told.titles("ann") == ["train succeeded"]


@pytest.mark.embedded
def test_waking_it_does_not_make_the_embedded_driver_run_a_round() -> None:
    wake.bell.answer()
    wake.bells["notify"].clear()
    wake.wake("notify")
    assert wake.bells["notify"].is_set()
    assert not wake.bell.answer()
