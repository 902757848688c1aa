"""A node with one fake GPU. Driver, program and library are built once for the run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.enforcer import build
from controlplane.testbed.fakecuda import device
from controlplane.testbed.fakecuda.rig import Rig


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> device.Built:
    return device.build(tmp_path_factory.mktemp("driver"))


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory, built: device.Built) -> Path:
    return build.build(tmp_path_factory.mktemp("library"))


@pytest.fixture
def rig(tmp_path: Path, built: device.Built, library: Path) -> Iterator[Rig]:
    made = Rig(tmp_path, built, library)
    yield made
    made.close()
