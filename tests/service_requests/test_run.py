"""A service request by request: the same at whatever time it is asked; and replicas that come and go."""

import json
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.latency import Within
from controlplane.cluster.serving.run import Replica, Run, Setup, State
from controlplane.cluster.serving.traffic import Drawn, Rate, Recorded, Sizes
from tests import servers
from tests.service_requests.streams import SETUPS, constant, played, running, told


@pytest.mark.parametrize("setup", SETUPS)
@given(st.lists(st.floats(0.0, 400.0), max_size=5), st.booleans())
@settings(max_examples=25, deadline=None)
def test_it_does_not_matter_where_time_is_cut_nor_whether_the_state_was_kept_in_between(
    setup: Setup, cuts: list[float], is_kept: bool
) -> None:
    whole, cut = played([], setup), played(cuts, setup, is_kept)
    assert cut.state.plain() == whole.state.plain()
    if not is_kept:
        assert cut.window(60.0) == whole.window(60.0)


def test_another_process_draws_the_same_requests() -> None:
    script = "import json; from tests.service_requests.streams import told; print(json.dumps(told()))"
    there = subprocess.run([sys.executable, "-c", script], cwd=servers.ROOT, capture_output=True, text=True, check=True)
    assert json.loads(there.stdout) == told()


def test_other_seeds_and_blocks_draw_other_requests() -> None:
    one, other = constant(100.0, key="1:s"), constant(100.0, key="2:s")
    first = one.block(3).at[:20] - 90.0
    assert not np.allclose(first, other.block(3).at[:20] - 90.0)
    assert not np.allclose(first, one.block(4).at[:20] - 120.0)


def test_requests_come_at_the_rate_and_are_as_large_as_was_said() -> None:
    traffic = Drawn(Rate("k", 200.0, amplitude=0.5, period=1200.0, burst_part=0.0), Sizes("tokens"))
    blocks = [traffic.block(number) for number in range(120)]
    came = np.concatenate([block.at for block in blocks])
    assert len(came) == pytest.approx(200 * 3600, rel=0.03)
    assert (np.diff(came) >= 0).all()
    for kind, deviation in (("tokens", 0.61), ("lognormal", 0.7), ("exponential", 1.0), ("fixed", 0.0)):
        sizes = Sizes(kind).draw(np.random.default_rng(0), 200_000)
        assert sizes.mean() == pytest.approx(1, rel=0.01)
        assert sizes.std() == pytest.approx(deviation, abs=0.02)
        assert (sizes > 0).all()


def at(times: list[float], *replicas: Replica, setup: Setup | None = None, sizes: tuple[float, ...] = ()) -> Run:
    """Requests of a list, for these replicas."""
    run = Run(Recorded(times, sizes), setup or Setup(), State.begin(0.0))
    run.change(0.0, replicas)
    return run


def ends(run: Run) -> list[float]:
    return sorted(np.round(run.outcomes.ended, 6).tolist())


def test_a_queue_is_first_come_first_served_by_the_slot_that_is_free_first() -> None:
    run = at([1.0, 1.1, 1.2, 9.0], Replica("a", 1, 2.0), Replica("b", 1, 3.0), sizes=(1.0, 1.0, 0.5, 1.0))
    run.to(20.0)
    assert ends(run) == [3.0, 4.0, 4.1, 11.0]  # the last goes to the slot that has been idle longest
    run = at([1.0, 1.1, 1.2], Replica("a", 1, 2.0))
    run.to(2.0)
    assert run.waiting == 2


def test_a_batch_takes_what_waits_and_ends_as_one() -> None:
    run = at([1.0, 1.1, 1.2, 1.3], Replica("a", 1, 1.0), setup=Setup(batch=2, growth=0.5))
    run.to(20.0)
    assert ends(run) == [2.0, 3.5, 3.5, 4.5]


def test_a_client_gives_up_when_its_patience_ends() -> None:
    run = at([1.0, 1.1], Replica("a", 1, 5.0), setup=Setup(patience=2.0, objective=Within(9.0)))
    run.to(60.0)
    seen = run.window(60.0)
    assert (seen.requests, seen.failed, seen.over) == (2, 1, 1)
    assert ends(run) == [3.1, 6.0]


def test_a_replica_that_leaves_ends_what_it_has_begun_and_one_that_is_lost_fails_it() -> None:
    for lost, failed in (((), 0), (("a",), 1)):
        run = at([1.0, 1.1], Replica("a", 1, 4.0))
        run.change(2.0, [Replica("b", 1, 4.0)], lost)
        run.to(60.0)
        assert run.window(60.0).failed == failed
        assert ends(run) == ([2.0, 6.0] if lost else [5.0, 6.0])


def test_without_a_replica_requests_are_refused_or_held() -> None:
    for holds, failed in ((False, 2), (True, 0)):
        run = at([1.0, 1.1, 3.0], setup=Setup(holds=holds))
        run.change(2.0, [Replica("a", 1, 0.5)])
        run.to(60.0)
        assert run.window(60.0).failed == failed


def test_a_window_counts_the_requests_that_ended_in_it() -> None:
    run = running(constant(100.0), 8, setup=Setup(objective=Within(0.04)))
    run.to(300.0)
    seen = run.window(60.0)
    assert seen.requests == pytest.approx(6000, rel=0.05)
    assert seen.over == seen.requests
    assert seen.failed == 0
    assert seen.duty == pytest.approx(0.05 / 8 * seen.arrived / 60, rel=0.02)
    assert seen.p95_seconds is not None
    assert seen.p95_seconds >= 0.05


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Recorded([2.0, 1.0]), "times: they do not ascend"),
        (lambda: Recorded([1.0], [1.0, 2.0]), "sizes: 2 are given for 1 times"),
        (lambda: Setup(batch=0), "batch: 0 requests"),
        (lambda: Setup(growth=-1.0), "growth: -1.0"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        make()


def test_the_example_of_the_documentation_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (servers.ROOT / "docs" / "services.md").read_text()
    exec(text.split("```python")[1].split("```")[0], {})  # our own page
    assert "failed=0" in capsys.readouterr().out
