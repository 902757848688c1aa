"""A replica on standby is woken on a real node, once with each kind of borrower, as `benchmark reclaim` does often."""

from pathlib import Path

import pytest

from controlplane.benchmarks.harness.figure import Options
from controlplane.benchmarks.reliability import reclaim, reclaiming


@pytest.mark.node
@pytest.mark.kubernetes
@pytest.mark.postgres
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_lent_gpu_is_back_and_its_replica_answers(tmp_path: Path) -> None:
    result = reclaim.run(Options(tmp_path, repeat=1), lambda part, text: None)
    figures = {figure.name.removeprefix("reclaim."): figure.value for figure in result.figures}
    for end in reclaim.KINDS.values():
        assert 0 < figures[f"p95_seconds{end}"] < figures[f"gone_p95_seconds{end}"]
        assert figures[f"p95_seconds{end}"] <= figures[f"awake_p95_seconds{end}"]
        assert figures[f"steps_redone{end}"] == 0
        assert 0 < figures[f"loss_p95_seconds{end}"] < reclaiming.GIVE_UP_SECONDS
