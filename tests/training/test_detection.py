"""What is drawn for `detection` is what it says, and what judges the diagnosis knows no more than a cluster shows."""

from collections.abc import Iterator

import grimp
import numpy as np
import pytest

from autoscaler.bottleneck.hypothesis import hypotheses
from autoscaler.bottleneck.window import Bottleneck, Levels
from controlplane.benchmarks.training import planted, watchers
from controlplane.benchmarks.training.detection import kept_percent, score
from controlplane.benchmarks.training.paces import BEFORE, Stretch
from controlplane.benchmarks.training.planted import CLASSES, HEALTHY, Planted, Row, Watched
from controlplane.benchmarks.training.watchers import NAMES

ROWS = (
    Row("one", 1, 4, 0.2, 0.01),
    Row("two", 2, 4, 0.3, 0.10),
    Row("three", 4, 4, 0.25, 0.12),
    Row("four", 2, 2, 0.4, 0.02),
)


def drawn(kind: str, count: int = 20, noise: float = 0.1) -> Iterator[Planted]:
    rng = np.random.default_rng(3)
    return (planted.plant(kind, ROWS, rng, noise) for _ in range(count))


def test_what_draws_trainings_imports_nothing_of_what_judges_them() -> None:
    graph = grimp.build_graph("autoscaler", "controlplane", include_external_packages=False)
    drawers = [f"controlplane.benchmarks.training.{name}" for name in ("planted", "paces")]
    seen = {name for drawer in drawers for name in graph.find_upstream_modules(drawer)}
    assert "controlplane.benchmarks.harness.figure" in seen
    assert [name for name in seen if name.startswith("autoscaler")] == []


@pytest.mark.parametrize("kind", CLASSES)
def test_a_probe_takes_away_what_was_planted_and_nothing_else(kind: str) -> None:
    for training in drawn(kind):
        relieved = training.relieved()
        assert relieved.step < training.step
        assert training.removable == pytest.approx(1 - relieved.step / training.step)
        assert relieved.base == training.base


def test_a_healthy_training_has_nothing_to_take_away() -> None:
    assert {training.removable for training in drawn(HEALTHY)} == {0.0}


def test_changed_or_not_a_training_has_the_same_noise() -> None:
    (training,) = drawn("cpu", 1)
    watched = Watched(training, np.random.default_rng(5), 40)
    both = [(watched.sample(training, at), watched.sample(training.relieved(), at)) for at in range(40)]
    for before, after in both:
        assert (before is None) == (after is None)
        if before is not None and after is not None:
            assert after.step[0] < before.step[0]
            assert (after.cpu, after.disk) == (before.cpu, before.disk)


@pytest.mark.parametrize("watcher", [watchers.by_reporter, watchers.by_prometheus])
def test_a_gross_bottleneck_is_named_and_a_quiet_training_is_not(watcher: object) -> None:
    assert callable(watcher)
    reached = score(watcher, ROWS, 1, 20)
    assert reached.precision > 0.9
    assert reached.alarmed < 0.1


def test_a_score_counts_what_is_named_wrongly() -> None:
    always = score(lambda _training, _watched, _windows: NAMES["cpu"], ROWS, 1, 5)
    assert always.recall == pytest.approx(1 / 6)
    assert always.alarmed == 1.0
    assert always.precision == pytest.approx(1 / 7 / 6)  # one of seven classes as large, and five classes never named


def test_levels_of_busy_gpus_leave_nothing_to_probe() -> None:
    guilty = Levels(cpu=1.0, throttled=0.5, disk=0.9, nic=0.5, sm=(0.9, 0.95))
    assert hypotheses(guilty, nodes=2) == ()
    assert hypotheses(Levels(cpu=1.0, throttled=0.5), nodes=1) == ()  # nothing is known of its GPUs


def test_each_hypothesis_is_given_once_and_not_again_once_it_was_tried() -> None:
    levels = Levels(cpu=1.0, throttled=0.5, disk=0.8, nic=0.5, sm=(0.3, 0.32))
    found = hypotheses(levels, nodes=2)
    assert found == (Bottleneck.INPUT_CPU, Bottleneck.NETWORK, Bottleneck.TOO_SMALL, Bottleneck.STORAGE)
    assert hypotheses(levels, 2, {Bottleneck.INPUT_CPU}) == found[1:]
    assert Bottleneck.NETWORK not in hypotheses(levels, nodes=1)


def test_one_worker_for_which_the_others_wait_is_a_straggler() -> None:
    assert hypotheses(Levels(sm=(0.4, 0.42, 0.8)), nodes=1) == (Bottleneck.STRAGGLER,)
    assert hypotheses(Levels(sm=(0.6, 0.62, 0.65)), nodes=1) == ()


def test_a_slow_down_is_found_by_its_worker() -> None:
    times = np.ones((BEFORE + 25, 4))
    times[BEFORE:, 2] = 1.5
    assert watchers.slow_workers(Stretch(times, 2, 1.5)) == (False, True)
    assert watchers.slow_workers(Stretch(times, 1, 1.5)) == (False, False)
    times[:BEFORE, 0] = 1.6
    assert watchers.slow_workers(Stretch(times, 2, 1.5))[0]


def test_of_changes_the_better_are_kept_the_more_often() -> None:
    kept = [kept_percent(truth, 0.05, 1, 100) for truth in (-0.05, 0.0, 0.3)]
    assert kept == sorted(kept)
    assert kept[0] < 5
    assert kept[2] > 95
