"""The adapters that the contract tests run over."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.cluster.simulated import SimulatedCluster
from controlplane.cluster.store import ClusterStore
from controlplane.simulator.profiles import PROFILES
from tests.contract.drive import NODES, Drive, SimulatedDrive


@pytest.fixture(params=["simulated", "simulated-in-a-file"])
def drive(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Drive]:
    """One cluster of three nodes behind the two ports."""
    store = ClusterStore(tmp_path / "cluster.sqlite3") if request.param == "simulated-in-a-file" else None
    yield SimulatedDrive(SimulatedCluster(NODES, profiles=PROFILES, store=store))
    if store is not None:
        store.close()
