"""Runs at random are whole in CI, and `make test` says where they were not."""

import os
import subprocess
import sys

import pytest

from tests.servers import ROOT

ASKED = "from tests.chaos.test_runs import EVENTS, SEEDS; print(len(SEEDS) * EVENTS)"


@pytest.mark.parametrize(("required", "events"), [("1", 50_000), ("", 25_000)])
def test_fifty_thousand_events_happen_in_ci_and_some_of_them_elsewhere(required: str, events: int) -> None:
    env = {**os.environ, "WEFT_REQUIRE_ALL": required}
    told = subprocess.run([sys.executable, "-c", ASKED], cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    assert int(told.stdout) == events
