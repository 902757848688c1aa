"""A demo that was started before: a second start takes a fifth of the processor time of a first."""

import shutil
from pathlib import Path

import pytest

from tests.flows.processes import started


@pytest.fixture(scope="session")
def _started_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a demo that was made, with its week of history, and stopped as soon as it answered."""
    home = tmp_path_factory.mktemp("demo") / "home"
    with started(home):
        pass
    return home


@pytest.fixture
def home(_started_once: Path, tmp_path: Path) -> Path:
    """A copy of that folder, for tests that are not about the first start."""
    return Path(shutil.copytree(_started_once, tmp_path / "home"))
