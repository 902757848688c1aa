"""Two workers on real Postgres and a real API server, the holder of the leases paused: nothing old is ever written."""

from pathlib import Path

import pytest

from controlplane.benchmarks.harness.site import site
from controlplane.benchmarks.reliability import fencing
from controlplane.testbed.compose import KILLED_ONLY

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]

STOPS, IN_ROUND = 6, 2


@pytest.fixture
def seen(tmp_path: Path) -> fencing.Seen:
    with site(tmp_path, running=20, waiting=5, database_options=KILLED_ONLY) as found:
        return fencing.measure(found, tmp_path, STOPS, IN_ROUND, lambda part, text: None)


def test_a_worker_that_was_paused_in_mid_round_writes_nothing_once_another_holds_the_lease(seen: fencing.Seen) -> None:
    assert seen.in_round + seen.holders >= STOPS
    assert seen.in_round >= IN_ROUND
    assert seen.judged > 0
    assert seen.takeovers > STOPS  # each loop's first, and one for each stop
    assert (seen.old_writes, seen.wrong) == (0, frozenset())
