"""What is told of a service's standing: each change once, and nothing of a flutter at a threshold."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.alarms import CALM_SECONDS, Alarm, after
from autoscaler.sla import Standing

MET, RISK, VIOLATED, UNKNOWN = Standing.MET, Standing.AT_RISK, Standing.VIOLATED, Standing.UNKNOWN
LOOK = 15.0
RANK = {MET: 0, RISK: 1, VIOLATED: 2}


def told(*looks: tuple[Standing, float]) -> list[tuple[Standing, float]]:
    """(standing, when) of what is told, where the service stands so for so many seconds, one after the other."""
    alarm, at, found = Alarm(), 0.0, []
    for standing, seconds in looks:
        for _ in range(round(seconds / LOOK)):
            at += LOOK
            now = after(alarm, standing, at)
            if now.since != alarm.since:
                found.append((now.standing, at))
            alarm = now
    return found


def test_getting_worse_is_told_at_once_and_once() -> None:
    assert told((MET, 600), (RISK, 86_400), (VIOLATED, 86_400)) == [(RISK, 615), (VIOLATED, 87_015)]


def test_getting_better_is_told_after_a_calm_while() -> None:
    assert told((RISK, 60), (MET, 7200)) == [(RISK, 15), (MET, 75 + CALM_SECONDS)]


def test_a_flutter_at_the_threshold_is_told_once() -> None:
    flutter = [(RISK, 300), (MET, 600)] * 50
    assert told(*flutter) == [(RISK, 15)]


def test_what_was_violated_goes_back_to_the_worst_of_the_calm_while() -> None:
    assert told((VIOLATED, 60), (MET, 900), (RISK, 300), (MET, 900)) == [(VIOLATED, 15), (RISK, 75 + CALM_SECONDS)]


def test_what_is_not_known_is_nothing_to_tell_and_no_calm() -> None:
    assert told((UNKNOWN, 7200)) == []
    assert told((RISK, 60), (UNKNOWN, 7200)) == [(RISK, 15)]
    assert told((RISK, 60), (MET, 1500), (UNKNOWN, 15), (MET, 1500)) == [(RISK, 15)]


@given(st.lists(st.sampled_from(Standing), max_size=400))
def test_nothing_is_told_twice_and_a_better_word_never_soon_after_a_worse_one(words: list[Standing]) -> None:
    found = told(*((word, LOOK) for word in words))
    assert all(one[0] is not other[0] for one, other in pairwise(found))
    assert all(other[1] - one[1] > CALM_SECONDS for one, other in pairwise(found) if RANK[other[0]] < RANK[one[0]])
    worst = max((RANK[word] for word in words if word is not UNKNOWN), default=0)
    assert max((RANK[word] for word, _ in found), default=0) == worst, "what was worst was told"
