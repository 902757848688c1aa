"""Preemption on a real node, again and again: what CI sees twice happens twenty times."""

from pathlib import Path

import pytest

from controlplane.benchmarks.harness.figure import Options
from controlplane.benchmarks.reliability import node


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_twenty_of_twenty_gangs_resume_at_their_checkpoints(tmp_path: Path) -> None:
    result = node.run(Options(tmp_path), lambda part, text: None)
    figures = {figure.name: figure.value for figure in result.figures}
    assert figures["node.resumed_of_20"] == node.TIMES
