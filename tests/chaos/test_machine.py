"""Hypothesis drives the in-memory engine: any events in any order, 10^4 steps, shrunk to the few that matter."""

import itertools
import math

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from controlplane.simulator.chaos.run import WEIGHTS, Runner, World
from tests.thoroughness import at_least

STEPS = at_least(10_000, 2_500)
LONGEST = 100  # steps of an example; one that Hypothesis makes of an earlier one may end anywhere
# Common events several times, so that a draw among the names is about as frequent as in a run.
NAMES = [name for name, weight in WEIGHTS.items() for _ in range(max(1, round(weight)))]


class Engine(RuleBasedStateMachine):
    """One world of 64 x 8 GPUs; every event is followed by the invariants (Runner.happen)."""

    @initialize(seed=st.integers(0, 2**32 - 1))
    def begin(self, seed: int) -> None:
        self.runner = Runner(seed, World(ask_again_every=5))
        for _ in range(12):  # something to run, before anything else can happen
            self.runner.happen("submit")
        for name in ("observe", "decide", "commit"):
            self.runner.happen(name)
        while self.runner.happen("perform"):
            pass
        Engine.steps += 1

    steps = 0

    @rule(name=st.sampled_from(NAMES))
    def something_happens(self, name: str) -> None:
        self.runner.happen(name)
        Engine.steps += 1

    @rule()
    def a_round_is_made_and_carried_out(self) -> None:
        for name in ("pass_time", "observe", "commit", "decide", "commit", "perform", "perform"):
            self.runner.happen(name)
        Engine.steps += 1

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            found = self.runner.violations()
            assert not found, found


@pytest.mark.slow
def test_no_order_of_events_breaks_an_invariant():
    Engine.steps = 0
    for number in itertools.count(1):
        if Engine.steps >= STEPS:
            break
        run(number, examples=1 + math.ceil((STEPS - Engine.steps) / LONGEST))


def run(number: int, examples: int) -> None:
    """Run so many examples of this seed; how many steps they take is not known before."""
    run_state_machine_as_test(
        seed(number)(Engine),
        settings=settings(
            max_examples=examples,
            stateful_step_count=LONGEST,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
