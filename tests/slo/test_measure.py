"""What the benchmark makes of judged cells, and rules that it compares with."""

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest

from autoscaler.observed import NONE, Scrape
from controlplane.benchmarks.slo import cells, compare, measure, notes, policies, traces
from controlplane.benchmarks.slo.cells import Cell
from controlplane.benchmarks.slo.judge import Policy, Seen, judge
from controlplane.benchmarks.slo.traces import Trace, noise


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


def alike(name: str, seed: int, policy: str, start: float, hours: float = 12.0, room: float = 1.5) -> Cell:
    resting = 0.5 if policy.startswith(("standby", "batching")) else 0.0  # others let go what they do not hold
    one = cell(policy, name, start, hours - resting)
    return replace(one, seed=seed, room=room, gross=40.0 * room, first_late=1.5, onset=4, resting=resting)


def all_of(seeds: tuple[int, ...] = (5, 6)) -> list[Cell]:
    """Each policy on each trace, all alike but for what a test changes."""
    found = []
    for name, seed in product(traces.NAMES, seeds):
        one = partial(alike, name, seed)
        found += [one("standby", wake, room=room) for wake in (2.0, 10.0) for room in (1.5, 3.0)]
        found.append(one("batching", 2.0, room=3.0))
        found += [one("batching", 2.0), one("standby hpa-rps 0.3", 2.0), one("static", 30.0)]
        for start in cells.STARTS:
            found += [one("alone", start), one("hpa-cpu 0.3 60s", start, 24.0), one("keda 1 60s", start, 9.0)]
            found += [one("headroom 0.5", start, 20.0), one("headroom 1", start, 30.0), one("alone", start, room=3.0)]
    return found


def test_what_lies_beside_the_figures_is_printed() -> None:
    text = "\n".join(notes.notes(all_of(), (5, 6), ("noise, alone",)))
    for said in (
        "baselines on seeds 5, 6",
        "azure: 2 s: late 0.000 %, net at 5, 60, 180 s a call 1.20, 1.20, 1.20, 0.0 calls and 0.0 lends a replica-hour",
        "10 s: late 0.000 %, 0 bad, net 1.20, 1.20, 1.20; alone",
        "2 s, were a replica lent from its last answer on, not once it has slept for 15 s: net 1.150",
        "1.5 x the busiest minute, 2 s: late 0.000 %, 0 bad, net 1.200; net (gross) of each: azure 1.20 (6.0)",
        "3 x the busiest minute, 2 s: late 0.000 %, 0 bad, net 1.200; net (gross) of each: azure 1.20 (12.0)",
        "3 x the busiest minute, 10 s: late 0.000 %, 0 bad but for step and spike, net 1.200; net (gross)",
        "3 x the busiest minute, with batching, 2 s: late 0.000 %, 0 bad but for step and spike, net 1.200",
        "\n2 s: net over the oracle of starts of 30/90/300 s: azure 1.20/1.17/1.17, azure8 1.20/1.19/1.17",
        "\n10 s: net over the oracle of starts of 30/90/300 s: azure 1.20/1.17/1.17, azure8 1.20/1.19/1.17",
        "the cell's own start, 30/90/300 s: azure 1.20/1.17/1.17",
        "the very first minute, 2 s, late of its arrivals, %, worst seed: azure 1.50",
        "the very first minute, 10 s, late of its arrivals, %, worst seed: azure 1.50",
        "minutes of onset at starts of 30/90/300 s, the most of a seed: azure 4/4/4",
        "the half that was not used (azure8, genaiQ34, genai13d, step, diurnal), seeds as above: 2 s: late 0.0000 %",
        "without standby, hpa-cpu 0.3 60s: 60 of 60 cells; hours over the oracle's: azure 2.40",
        "the best keda of each cell, chosen in hindsight: 60 of 60 cells; hours over the oracle's (cells attained):",
        "standby of 2 s by hpa-rps 0.3: late 0.000 %, 0 bad, net 1.20",
        "standby of 2 s by the best hpa-rps of each trace, chosen in hindsight: net 1.20; azure 0.3 1.20 (0 bad)",
        "fewest static replicas that attain it, chosen in hindsight; hours over the oracle's: azure 1.20",
        "alone within the hours of hpa-cpu 0.3 60s (60 cells): alone, 60 cells at 0.50 x its hours; all tried:",
        "3 x the busiest minute, without standby, alone: 60 of 60 cells",
        "noise, alone",
    ):
        assert said in text, said
    assert "without standby, batching" not in text


def test_headroom_is_taken_as_far_as_hpas_hours_go_where_it_attains_more() -> None:
    judged = all_of((5,))
    judged = [replace(c, attained=c.policy != "alone" or c.trace != "ramp") for c in judged]
    found = compare.with_headroom(judged)
    assert found is not None
    assert (found[0].label, found[0].attained, found[1].label) == ("headroom 0.5", 30, "hpa-cpu 0.3 60s")
    dear = [replace(c, hours=99.0) if c.policy == "headroom 0.5" else c for c in judged]
    less = compare.with_headroom(dear)
    assert less is not None
    assert (less[0].label, less[0].attained) == ("alone", 27)


def test_a_cell_counts_its_first_minute_its_onset_and_all_that_is_held() -> None:
    late = Trace("ramp", np.array([0.0, 0.5, *np.arange(60.0, 600.0, 10.0)]), np.full(56, 2.0), 1, 3.0, 600.0)
    found = cells.judged("static", late, 5, 30.0, policies.static(1))
    assert (found.first_late, found.onset) == (50.0, 4)  # the jump from 2 to 6 in a minute is one, too
    assert found.gross == pytest.approx(late.max_replicas / 6)
    assert (found.calls, found.lends) == (0, 0)


def test_with_the_same_standby_hpa_is_shown_with_the_setting_that_suits_each_trace() -> None:
    judged = [
        cell("standby hpa-rps 0.3", "ramp", 2.0, 15.0),
        cell("standby hpa-rps 0.5", "ramp", 2.0, 13.0),
        cell("standby hpa-rps 0.9", "ramp", 2.0, 9.0, bad=2),
        cell("standby hpa-rps 0.9", "step", 2.0, 9.0, bad=2),
        cell("standby hpa-rps 0.3", "step", 2.0, 15.0, bad=4),
    ]
    text = "\n".join(notes._beside(judged))  # noqa: SLF001 - the rest of the notes needs all traces
    assert "chosen in hindsight: net 1.08; ramp 0.5 1.30 (0 bad), step 0.9 0.90 (2 bad)" in text


@pytest.mark.parametrize(("wants", "seconds"), [((2, 2, 2, 1, 1), 15), ((2, 1, 1, 1, 1), 15), ((2, 1, 2, 2, 2), 15)])
def test_what_is_let_go_is_lent_by_the_product_fifteen_seconds_later(wants: tuple[int, ...], seconds: float) -> None:
    """Let go at 60, 30 and 30 s of 75, and in the last case called back after 15 s."""
    told = iter(wants)
    found = judge(steady(0.1, 75.0), Policy(lambda _: next(told)), start=0.0, most=2)
    assert found.resting * 3600 == pytest.approx(seconds, abs=1.0)


def test_what_rests_before_it_is_lent_counts_where_there_is_a_standby_and_only_there() -> None:
    trace, wants = steady(0.1, 75.0), (2, 1, 1, 1, 1)

    def told(label: str) -> Cell:
        looks = iter(wants)
        return cells.judged(label, trace, 5, 0.0, lambda *_: Policy(lambda _: next(looks)))

    lent, alone = told("standby"), told("alone")
    assert lent.hours == alone.hours
    assert (lent.net(0.0) - alone.net(0.0)) * lent.oracle * 3600 == pytest.approx(15, abs=1.0)
    assert lent.net_at_once == pytest.approx(alone.net())


def test_turns_of_the_first_hour_are_told_beside_those_that_count() -> None:
    trace = noise(5)
    wants = iter((1, 2) * 500)
    one = judge(trace, Policy(lambda _: next(wants)), start=30.0, most=2)
    text = "\n".join(measure._of_noise([one] * 3, [one]))  # noqa: SLF001 - the whole benchmark takes minutes
    assert "the first hour counted as well: at most 239.5" in text


def test_each_replica_that_is_let_go_is_lent_again() -> None:
    wants = iter((3, 3, 1, 2))
    told = judge(steady(0.1, 60.0), Policy(lambda _: next(wants)), start=0.0, most=3)
    assert (told.starts, told.lends) == (3, 2)
