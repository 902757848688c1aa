"""From any start state the rounds come to rest and then decide nothing (L1)."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Wait
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import Phase
from tests.strategies import worlds

RULES = st.sampled_from([Settings(), Settings(overtaken_seconds=50.0, overtaken_waits=0.0)])  # who waits catches up
# Seconds between rounds. Within all of them no minimum run time or rest ends, and no wait passes the limit of a rule:
# once a head has waited for as long as borrowers take to leave, its own team's others may start past it, and do.
PERIOD = 0.01
QUIET = 10  # rounds without a write once it is at rest
few_or_all = pytest.mark.parametrize("examples", [100, pytest.param(10_000, marks=pytest.mark.nightly)])


@few_or_all
def test_from_any_state_rounds_come_to_rest_while_the_cluster_does_nothing(examples: int) -> None:
    """All that was decided is still to be done: within 3 + the number of waiting gangs rounds, then nothing more."""

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(worlds(), RULES)
    def rests(world: Snapshot, rules: Settings) -> None:
        _comes_to_rest(world, rules, lambda now: now)

    rests()


@few_or_all
def test_from_any_state_rounds_come_to_rest_while_the_cluster_obeys(examples: int) -> None:
    """Between rounds all that leaves has left, and all that has a place runs: in as many rounds, and nothing more."""

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(worlds(), RULES)
    def rests(world: Snapshot, rules: Settings) -> None:
        _comes_to_rest(world, rules, obeyed)

    rests()


def _comes_to_rest(world: Snapshot, rules: Settings, meanwhile: Callable[[Snapshot], Snapshot]) -> None:
    waited: set[str] = set()
    rounds = 0
    while True:
        waited |= {w.id for w in world.workloads.values() if w.is_waiting}  # those made to leave wait from then on
        decisions = schedule(world, rules)
        after = world.after(decisions)
        then = meanwhile(after)
        if all(isinstance(decision, Wait) for decision in decisions) and then.workloads == after.workloads:
            break
        rounds += 1
        assert rounds <= 3 + len(waited), f"still deciding: {decisions}"
        world = then.replace(at=then.at + PERIOD)
    for later in range(1, QUIET + 1):
        assert schedule(after.replace(at=after.at + later * PERIOD), rules) == ()


def obeyed(world: Snapshot) -> Snapshot:
    """The world once the cluster has done all that was decided: what is gone has left, what was placed runs."""
    changed = []
    for old in world.workloads.values():
        staying = tuple(replace(a, reserved=False) for a in old.placement if not a.leaving)
        if old.phase is Phase.CHECKPOINTING:
            changed.append(replace(old, phase=Phase.QUEUED, placement=(), started_at=None))
        elif staying != old.placement or old.phase in (Phase.RESERVED, Phase.ADMITTED, Phase.STARTING, Phase.SCALING):
            started = world.at if old.started_at is None else old.started_at
            changed.append(replace(old, phase=Phase.RUNNING, placement=staying, after=(), started_at=started))
    return world.replace(changed=changed)
