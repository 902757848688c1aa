"""The adapters that the contract tests run over."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from controlplane.cluster.simulated import SimulatedCluster
from controlplane.cluster.store import ClusterStore
from controlplane.simulator.worlds.profiles import PROFILES
from tests.contract.drive import NODES, Drive, SimulatedDrive
from tests.contract.real import KubernetesDrive


@pytest.fixture(params=["simulated", "simulated-in-a-file", pytest.param("kubernetes", marks=pytest.mark.kubernetes)])
def drive(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Drive]:
    """One cluster of three nodes behind the port `Cluster`."""
    if request.param == "kubernetes":
        with closing(KubernetesDrive(request.getfixturevalue("kubernetes"))) as real:
            yield real
        return
    store = ClusterStore(tmp_path / "cluster.sqlite3") if request.param == "simulated-in-a-file" else None
    yield SimulatedDrive(SimulatedCluster(NODES, profiles=PROFILES, store=store))
    if store is not None:
        store.close()
