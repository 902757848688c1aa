"""One rig for each test, over the run's API server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.testbed.kubernetes import TestCluster
from tests.adopted.rig import Rig, rig


@pytest.fixture
def adopted(kubernetes: TestCluster, tmp_path: Path, transactional_db: None, settings: object) -> Iterator[Rig]:
    settings.KUBERNETES_USERS = {f"system:serviceaccount:people:{name}": name for name in ("ada", "vic")}  # type: ignore[attr-defined]
    with rig(kubernetes, tmp_path) as made:
        yield made
