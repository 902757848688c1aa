"""What the benchmark makes of judged cells, and rules that it compares with."""

import numpy as np
import pytest

from autoscaler.observed import NONE, Scrape
from controlplane.benchmarks.slo import cells, compare, policies
from controlplane.benchmarks.slo.cells import Cell
from controlplane.benchmarks.slo.judge import Policy, Seen, judge
from controlplane.benchmarks.slo.traces import Trace


def cell(policy: str, trace: str, start: float, hours: float, *, attained: bool = True, bad: int = 0) -> Cell:
    return Cell(policy, trace, 5, start, 0.0, bad, attained, hours, 0, 0.0, 10.0, 0.0)


def test_in_hindsight_the_cheapest_hpa_that_attains_a_cell_is_compared_with() -> None:
    judged = [
        cell("standby", "ramp", 2.0, 12.0),
        cell("hpa-cpu 0.3 60s", "ramp", 90.0, 20.0),
        cell("hpa-rps 0.5 60s", "ramp", 90.0, 16.0),
        cell("hpa-cpu 0.9 60s", "ramp", 90.0, 11.0, attained=False, bad=3),
        cell("knative 0.9 60s", "ramp", 90.0, 12.0),  # none of HPA's
    ]
    assert compare.over_hpa(judged, ("ramp",), (90.0,)) == {("ramp", 90.0): 0.75}


def test_where_no_hpa_attains_a_cell_the_one_with_fewest_bad_windows_is_compared_with() -> None:
    judged = [
        cell("standby", "ramp", 2.0, 12.0),
        cell("hpa-cpu 0.3 60s", "ramp", 90.0, 24.0, attained=False, bad=1),
        cell("hpa-rps 0.5 60s", "ramp", 90.0, 30.0, attained=False, bad=1),
        cell("hpa-cpu 0.9 60s", "ramp", 90.0, 11.0, attained=False, bad=3),
    ]
    assert compare.over_hpa(judged, ("ramp",), (90.0,)) == {("ramp", 90.0): 0.5}


def steady(rate: float = 3.0, seconds: float = 1800.0) -> Trace:
    """Requests of a second at equal distances, for replicas with one slot."""
    at = np.arange(0.0, seconds, 1.0 / rate)
    return Trace("ramp", at, np.full(len(at), 1.0), 1, 3.0, seconds)


def test_the_fewest_static_replicas_are_those_that_keep_up() -> None:
    found = cells.static(steady(2.0), 0)
    assert found.attained
    assert found.hours == pytest.approx(3 * 0.5, rel=0.01)  # two would never work off what waited at first


def seen(at: float, slow: float | None) -> Seen:
    """Four replicas, and nine of ten requests took `slow` s at most."""
    return Seen(Scrape(at, 15.0, 0.0, 0.0, NONE), 0, 0.0, 4, 4, slow)


@pytest.mark.parametrize(("slow", "wanted"), [(1.5, 4), (2.4, 7), (3.0, 8), (30.0, 8), (None, 4)])
def test_llm_d_has_as_many_as_bring_slow_requests_to_its_part_of_the_objective(slow: float | None, wanted: int) -> None:
    policy = policies.llm_d(0.5, 60.0)(
        steady(), 30.0
    )  # the objective is 3 s; HPA's step is four more, or twice as many
    assert policy.look(seen(15.0, slow)) == wanted


def test_llm_d_counts_no_look_above_twice_the_objective_and_takes_the_mean_of_three() -> None:
    policy = policies.llm_d(1.0, 60.0)(steady(), 30.0)
    assert [policy.look(seen(15.0 * n, slow)) for n, slow in enumerate((300.0, 3.0, 3.0, 3.0))] == [8, 6, 6, 4]


def test_a_fall_of_llm_d_waits_for_its_window() -> None:
    policy = policies.llm_d(0.5, 60.0)(steady(), 30.0)
    assert [policy.look(seen(15.0 * n, slow)) for n, slow in enumerate((1.5, *[0.15] * 7))] == [4, 4, 4, 4, 3, 2, 1, 1]


def test_what_nine_of_ten_took_counts_their_wait() -> None:
    looks: list[Seen] = []

    def one(now: Seen) -> int:
        looks.append(now)
        return 1

    trace = Trace("ramp", np.zeros(10), np.full(10, 1.0), 1, 3.0, 60.0)  # ten at once, one after the other
    judge(trace, Policy(one), start=0.0, most=1)
    assert [look.slow for look in looks if look.slow is not None] == [pytest.approx(9.1)]
