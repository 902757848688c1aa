"""The judge of failing measurements: when they fail, what arrives then, and that an unsafe rule would be seen."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from autoscaler.observed import NONE, Scrape
from controlplane.benchmarks.slo import faults, policies
from controlplane.benchmarks.slo.judge import judge
from controlplane.benchmarks.slo.traces import Trace


def steady(rate: float = 20.0, until: float = 2400.0) -> Trace:
    """Requests of 1 s, four at once on a replica."""
    rng = np.random.default_rng(3)
    at = np.sort(rng.uniform(0, until, int(rate * until)))
    return Trace("made", at, np.ones(len(at)), 4, 5.0, until)


def scrape(at: float, arrived: float = 10.0) -> Scrape:
    return Scrape(at, 15.0, arrived, arrived, NONE, 0, 0, 0)


def test_measurements_fail_for_ten_minutes_of_each_hour() -> None:
    assert [faults.in_fault(at) for at in (1185.0, 1200.0, 1785.0, 1800.0, 4800.0)] == [False, True, True, False, True]


def test_what_arrives_in_a_fault_is_what_its_name_says() -> None:
    seen = [scrape(1200.0 + 15 * n, 10.0 + n) for n in range(4)]
    told = {name: fault(seen) for name, fault in faults.FAULTS.items()}
    assert told["gone"] == told[faults.ALL_GONE] == ()
    assert told["stale"] == (seen[0],)
    assert told["slow"] == (seen[1],)
    assert seen[-1].at - told["slow"][0].at == 30.0
    assert faults.FAULTS["slow"](seen[:2]) == ()
    assert told["twice"] == (seen[3], seen[3])
    assert not any(one.is_sound for name in ("no numbers", "lies") for one in told[name])
    assert math.isnan(told["no numbers"][0].arrived)
    (part,) = told["reset"]
    assert part.is_partial
    assert part.arrived == pytest.approx(0.4 * 13)


def test_of_a_long_load_the_first_six_hours_are_judged() -> None:
    trace = Trace("made", np.array([0.0, 10_800.0, 21_601.0]), np.ones(3), 1, 3.0, 259_200.0)
    found = faults.clipped(trace)
    assert (found.at.tolist(), len(found.service), found.seconds) == ([0.0, 10_800.0], 2, 21_600.0)
    assert faults.clipped(found) is found


@pytest.mark.parametrize("mode", faults.MODES)
def test_no_fault_makes_a_service_with_a_steady_load_smaller(mode: str) -> None:
    trace = steady()
    usual = faults.played(faults.Scaled(trace, mode, None))
    for label, fault in faults.FAULTS.items():
        found = faults.compared(label, faults.Scaled(trace, mode, fault, label != faults.ALL_GONE), usual)
        assert (found.fault, found.falls, found.jumps, found.looks) == (label, 0, 0, 40)


def test_a_rule_that_takes_silence_for_no_load_would_be_counted() -> None:
    def silent(seen: Sequence[Scrape]) -> tuple[Scrape, ...]:
        return (scrape(seen[-1].at, 0.0),)

    trace, mode = steady(), "standby of 2 s"
    usual = faults.played(faults.Scaled(trace, mode, None))
    assert faults.compared("silent", faults.Scaled(trace, mode, silent), usual).falls > 0


@pytest.mark.parametrize(("mode", "make"), [("standby of 2 s", policies.standby), ("starts of 30 s", policies.alone)])
def test_without_a_fault_the_product_decides_as_the_law_that_slo_judges(mode: str, make: policies.Make) -> None:
    trace, start = steady(), faults.MODES[mode]
    ours = judge(trace, faults.Scaled(trace, mode, None).policy, start=start, most=trace.max_replicas)
    assert ours.series == judge(trace, make(trace, start), start=start, most=trace.max_replicas).series
