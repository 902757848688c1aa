"""The embedded driver's rounds go by the cluster's clock alone."""

import pytest

from controlplane.cluster.simulated import SimulatedCluster
from controlplane.loops import observe, wiring
from controlplane.simulator.worlds import catalogue

pytestmark = pytest.mark.django_db


def test_everything_is_observed_as_often_however_fast_the_clock_goes(tmp_path) -> None:
    made = wiring.simulated(catalogue.load(data=tmp_path), in_memory=True)
    assert isinstance(made.cluster, SimulatedCluster)
    assert observe.run_once(made).skipped == ""
    began, full_at = made.cluster.now(), made.kept["full_at"]
    for _ in range(3):  # within a blink of this process's clock
        made.cluster.advance(made.cluster.now() + made.full_seconds)
        observe.run_once(made)
        assert made.kept["full_at"] == made.cluster.now()
    assert made.kept["full_at"] - full_at == made.cluster.now() - began == 3 * made.full_seconds
