"""When the first token of a request is there, and what is late where that is promised."""

import json

import numpy as np
import pytest

from autoscaler.latency import FIRST_TOKEN, Within
from controlplane.cluster.serving.run import Replica, Run, Setup, State
from controlplane.cluster.serving.scraped import scrape
from controlplane.cluster.serving.split import Split
from controlplane.cluster.serving.traffic import FIRST_PART, Drawn, Rate, Recorded, Sizes

PROMISED = Setup(objective=Within(1.0, FIRST_TOKEN))
ONE = Replica("a", 1, 2.0)  # one request at once, 2 s each


def run(times: list[float], firsts: list[float] | None = None, setup: Setup = PROMISED) -> Run:
    found = Run(Recorded(times, [1.0] * len(times), firsts or ()), setup, State.begin(0.0))
    found.change(0.0, [ONE])
    found.to(60.0)
    return found


def test_a_request_is_late_when_its_wait_and_its_first_token_take_longer() -> None:
    # Each is served for 2 s, its first token after .4 s. The second one waits 1 s, the third 1.5 s, the fourth 0 s.
    seen = run([1.0, 2.0, 3.5, 20.0]).window(60.0)
    assert (seen.requests, seen.over) == (4, 2)
    assert seen.p95_seconds == pytest.approx(1.9)
    answers = run([1.0, 2.0, 3.5, 20.0], setup=Setup(objective=Within(1.0))).window(60.0)
    assert (answers.over, answers.p95_seconds) == (4, pytest.approx(3.5))


def test_a_list_may_say_when_the_first_token_of_each_request_is_there() -> None:
    seen = run([1.0, 10.0], [0.9, 0.1]).window(60.0)
    assert (seen.over, seen.p95_seconds) == (1, pytest.approx(1.8))
    with pytest.raises(ValueError, match="firsts: 1 are given for 2 times"):
        Recorded([1.0, 2.0], [1.0, 1.0], [0.5])


def test_of_tokens_the_first_one_comes_after_the_prompt_and_else_after_a_settled_part() -> None:
    size, first = Sizes("tokens", 0.5, 100).parted(np.random.default_rng(1), 50_000)
    assert float((size * first).mean()) == pytest.approx(0.5, rel=0.02)
    assert float(first.std()) > 0.1
    assert (Sizes("tokens", 0.5, 100).draw(np.random.default_rng(1), 50_000) == size).all()
    assert set(Sizes("lognormal").parted(np.random.default_rng(1), 9)[1]) == {FIRST_PART}


def test_a_look_tells_of_first_tokens_without_the_wait_where_they_are_promised() -> None:
    told = scrape(run([50.0, 51.0, 52.0]), 1)
    assert told.first is not None
    assert sum(told.first) == told.answered == 3
    assert told.answered_seconds == pytest.approx(6.0)
    assert scrape(run([50.0], setup=Setup()), 1).first is None


def test_requests_that_fail_are_over_whenever_their_first_token_came() -> None:
    found = Run(Recorded([1.0]), PROMISED, State.begin(0.0))
    found.change(0.0, [ONE])
    found.change(2.0, [], lost=["a"])
    found.to(10.0)
    seen = found.window(10.0)
    assert (seen.requests, seen.over, seen.failed) == (1, 1, 1)


def test_of_a_split_each_revision_counts_by_its_first_tokens() -> None:
    found = Run(Drawn(Rate("k", 2.0, 0.0, burst_part=0.0), Sizes()), PROMISED, State.begin(0.0))
    found.change(0.0, [Replica("a", 20, 2.0, 1), Replica("b", 20, 9.0, 2)], split=Split(2, 50))
    found.to(120.0)
    assert found.state.tallies[1][1] == 0, "first tokens after .4 s"
    assert found.state.tallies[2][1] == found.state.tallies[2][0] > 0, "and after 1.8 s"


@pytest.mark.parametrize("setup", [PROMISED, Setup(objective=Within(1.0))])
def test_a_run_goes_on_from_its_stored_state(setup: Setup) -> None:
    traffic = Drawn(Rate("k", 30.0, 0.0, burst_part=0.0), Sizes("tokens", 0.5, 100))
    whole, half = (Run(traffic, setup, State.begin(0.0)) for _ in "ab")
    for one in (whole, half):
        one.change(0.0, [Replica("a", 40, 1.0)])
        one.to(61.3)
    stored = json.loads(json.dumps(half.state.plain()))
    has_first = setup is PROMISED
    assert (len(stored[6]), len(stored[7])) == ((6, 8) if has_first else (5, 6)), "as ever where none is promised"
    again = Run(traffic, setup, State.of(stored))
    for one in (whole, again):
        one.to(180.0)
    assert again.state.plain() == whole.state.plain()
    assert again.window(60.0) == whole.window(60.0)
