"""The adapters that the contract tests run over."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from controlplane.cluster.simulated import SimulatedCluster
from controlplane.cluster.store import ClusterStore
from controlplane.simulator.worlds.profiles import PROFILES
from tests.contract.drive import NODES, Drive, SimulatedDrive
from tests.contract.real import KubernetesDrive


@pytest.fixture
def is_fenced() -> bool:
    """Whether the API server has our admission policies and the teams' quotas too."""
    return False


@pytest.fixture(params=["simulated", "simulated-in-a-file", pytest.param("kubernetes", marks=pytest.mark.kubernetes)])
def drive(request: pytest.FixtureRequest, tmp_path: Path, is_fenced: bool) -> Iterator[Drive]:
    """One cluster of three nodes behind the port `Cluster`."""
    if request.param == "kubernetes":
        with closing(KubernetesDrive(request.getfixturevalue("kubernetes"), is_fenced=is_fenced)) as real:
            yield real
        return
    with ExitStack() as stores:

        def kept() -> SimulatedCluster:
            """The cluster in the file, as a process that has just started finds it."""
            store = stores.enter_context(closing(ClusterStore(tmp_path / "cluster.sqlite3")))
            return SimulatedCluster(NODES, profiles=PROFILES, store=store)

        if request.param == "simulated-in-a-file":
            yield SimulatedDrive(kept(), kept)
        else:
            yield SimulatedDrive(SimulatedCluster(NODES, profiles=PROFILES))
