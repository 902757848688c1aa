"""A change on trial ends, whatever its windows say; it is kept when it helped, and rolled back when it did not."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.experiment.experiment import LIMITS, Decision, Experiment, Limits, Phase, Window, restored, step
from autoscaler.experiment.experiment import written as as_row
from autoscaler.experiment.verdict import Terms

SHORT = Limits(Terms(before=4, fewest=2, most=6), settle=1, start=3)
windows = st.builds(
    Window,
    step=st.none() | st.floats(0.01, 100.0),
    is_changed=st.booleans(),
    has_failed=st.booleans(),
)


def played(text: str, limits: Limits = SHORT) -> str:
    """What is decided in each window. `1.0` is a step time before, `0.5*` one with the change, `-` lost, `!` failed."""
    known, said = Experiment(), list[str]()
    for word in text.split():
        is_lost = word.strip("*") in ("-", "!")
        seen = Window(None if is_lost else float(word.strip("*")), None, None, "*" in word, "!" in word)
        known, decision = step(known, seen, limits)
        said.append({Decision.WAIT: ".", Decision.CHANGE: "C", Decision.KEEP: "K", Decision.ROLL_BACK: "R"}[decision])
    return "".join(said)


@pytest.mark.parametrize(
    ("world", "decided"),
    [
        ("1.0 1.01 0.99 1.0  -  0.5* 0.5* 0.5*", "...C...K"),  # kept: the first window that runs changed is not counted
        ("1.0 1.1 0.9 1.0  9.0* 2.0* 2.0* 2.0*", "...C..R."),  # slower: back, and nothing more happens
        ("1.0 1.1 0.9 1.0  1.0 1.0 1.0", "...C..R"),  # the change never came to run
        ("1.0 1.1 0.9 1.0  - 0.5* ! 0.5*", "...C..R."),  # it failed with the change
        ("1.0 1.1 0.9 1.0  0.5* - - - - - - - - - - - -", "...C............R"),  # nothing is seen of it any more
        ("1.0 - - - - - - -", ".......R"),  # too little is known of what is to be changed
        ("1.0 ! 1.1 0.9 1.0", "....C"),  # a failure before the change is none of the change
        ("1.0 5.0* 1.1 0.9 1.0", "....C"),  # a change before it is on its way back
    ],
)
def test_a_change_is_kept_or_rolled_back(world: str, decided: str) -> None:
    assert played(world) == decided


@given(st.lists(windows, min_size=LIMITS.longest, max_size=LIMITS.longest + 5))
def test_an_experiment_ends_within_its_windows_and_decides_once(seen: list[Window]) -> None:
    known, decided = Experiment(), list[Decision]()
    for window in seen:
        known, decision = step(known, window)
        decided.append(decision)
    assert known.has_ended
    ends = [one for one in decided if one in (Decision.KEEP, Decision.ROLL_BACK)]
    assert len(ends) == 1
    assert decided.count(Decision.CHANGE) <= 1
    assert (known.phase is Phase.KEPT) == (ends == [Decision.KEEP])
    if ends == [Decision.KEEP]:
        assert Decision.CHANGE in decided


@given(st.lists(windows, max_size=60), st.integers(0, 60))
def test_an_experiment_goes_on_from_what_was_written_of_it(seen: list[Window], at: int) -> None:
    whole, again = Experiment(), Experiment()
    for place, window in enumerate(seen):
        if place == at:
            again = restored(json.loads(json.dumps(as_row(again), allow_nan=False)))
        whole, said = step(whole, window, SHORT)
        again, said_again = step(again, window, SHORT)
        assert said == said_again
    assert whole == again


def test_what_was_not_written_by_an_experiment_is_refused() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        restored({**as_row(Experiment()), "phase": "nonsense"})
