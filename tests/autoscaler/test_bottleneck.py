"""The diagnosis names what is planted, and nothing in a healthy training."""

import math

import pytest

from autoscaler.bottleneck.advice import told
from autoscaler.bottleneck.detect import LATELY, Diagnosis, Evidence, observe
from autoscaler.bottleneck.straggler import Pace, follow
from autoscaler.bottleneck.window import Bottleneck, Levels, Window, Worker

BUSY = {"cpu": 0.5, "throttled": 0.02, "disk": 0.1, "nic": 0.05, "sm": (0.9, 0.9)}


def window(*, step: float = 1.0, wait: float = 0.01, sync: float = 0.05, nodes: int = 2, **levels: object) -> Window:
    worker = Worker(step, wait, sync)
    return Window((worker, worker), Levels(**{**BUSY, **levels}), nodes)  # type: ignore[arg-type]


def diagnose(one: Window | None, count: int = 20) -> Diagnosis:
    told = Diagnosis()
    for _ in range(count):
        told = observe(told, one)
    return told


@pytest.mark.parametrize(
    ("one", "named"),
    [
        (window(), Bottleneck.GPU_COMPUTE),
        (window(wait=0.4, cpu=0.98, throttled=0.5), Bottleneck.INPUT_CPU),
        (window(cpu=0.98, throttled=0.4), Bottleneck.GPU_COMPUTE),  # throttled, to no harm
        (window(wait=0.4, disk=0.8), Bottleneck.STORAGE),
        (window(wait=0.4, disk=0.95, cpu=0.98, throttled=0.4), Bottleneck.STORAGE),
        (window(wait=0.4), Bottleneck.GPU_COMPUTE),  # nothing is busy: nothing is named
        (window(sync=0.4, nic=0.5), Bottleneck.NETWORK),
        (window(sync=0.4, nic=0.5, nodes=1), Bottleneck.GPU_COMPUTE),
        (window(nic=0.6), Bottleneck.GPU_COMPUTE),  # a neighbour's traffic
        (window(sync=0.5, server_cpu=0.8, nic=0.5), Bottleneck.PARAMETER_SERVER),
        (window(sm=(0.2, 0.2)), Bottleneck.TOO_SMALL),
        (window(sm=(0.2, 0.2), wait=0.3), Bottleneck.GPU_COMPUTE),  # it waits: it is not too small
    ],
)
def test_a_planted_bottleneck_is_named(one: Window, named: Bottleneck) -> None:
    assert diagnose(one).bottleneck is named


def test_the_slow_worker_is_named_and_those_that_wait_for_it_do_not_blame_the_network() -> None:
    fast, slow = Worker(1.0, 0.01, 0.4), Worker(1.0, 0.01, 0.02)
    told = diagnose(Window((fast, fast, slow, fast), Levels(nic=0.5, sm=(0.6, 0.6, 0.9, 0.6)), 2))
    assert (told.bottleneck, told.slow_worker) == (Bottleneck.STRAGGLER, 2)


def test_lost_scrapes_change_nothing_and_few_windows_say_nothing() -> None:
    assert diagnose(None) == Diagnosis()
    assert diagnose(window(wait=0.4, disk=0.9), 3).bottleneck is None


def test_a_checkpoint_of_two_windows_is_no_bottleneck() -> None:
    told = diagnose(window())
    for one in (window(step=2.0, wait=1.0, disk=0.95),) * 2 + (window(),) * 3:
        told = observe(told, one)
        assert told.bottleneck is Bottleneck.GPU_COMPUTE


def test_a_training_without_a_reporter_has_levels_and_no_diagnosis() -> None:
    told = diagnose(Window((), Levels(cpu=0.99, throttled=0.5), 1))
    assert (told.bottleneck, told.windows, told.levels.cpu) == (None, 0, 0.99)


def test_workers_of_another_number_begin_anew() -> None:
    pace = follow(follow(Pace(), (1.0, 1.0, 1.0)), (2.0, 2.0))
    assert (pace.seen, len(pace.means)) == (1, 2)
    assert pace.means[0] == pytest.approx(math.log(2.0))


def test_the_advice_says_what_would_go_of_a_step_only_where_it_would_get_shorter() -> None:
    for one in Bottleneck:
        said = told(Diagnosis(9, evidence={one: Evidence(9.0, 0.25)}, bottleneck=one))
        is_shorter = one not in (Bottleneck.GPU_COMPUTE, Bottleneck.TOO_SMALL)
        assert ("About 25 % of a step would go." in said) is is_shorter
    assert told(Diagnosis()).startswith("Too little is known")


def test_the_newest_looks_are_kept_as_they_were_the_newest_last() -> None:
    told = diagnose(window(), 3)
    for wait in (*[0.4] * 20, 0.2):
        told = observe(told, window(wait=wait, disk=0.99))
    lately = told.evidence[Bottleneck.STORAGE].lately
    assert (len(lately), lately[:3], lately[-2:]) == (24, (0.0, 0.0, 0.0), pytest.approx((0.4, 0.2)))
    many = diagnose(window(sync=0.4, nic=0.5), LATELY + 5)
    assert many.evidence[Bottleneck.NETWORK].lately == pytest.approx((0.4,) * LATELY)
