"""Batches on the simulated cluster, by its model of trainings: what the loop measures is what a batch gives there."""

import math

import pytest

from controlplane.models import Workload
from tests.controlplane.test_moves_simulated import Demo, broken, has, newest

pytestmark = pytest.mark.django_db
FREE = {"size": 64, "max": 128}
HOURS = 3600.0


def submit(demo: Demo, name: str, batch: dict[str, int], hours: float = 400.0, **truth: float) -> Workload:
    simulated = {"duration": hours * HOURS, "profile": "quiet", **truth}
    return demo.submit(name, batch=batch, simulated=simulated, expected_duration=f"{hours:g}h")


def test_a_training_with_a_free_batch_ends_sooner_than_one_with_the_same_work_and_a_fixed_one() -> None:
    demo = Demo.begin("a")
    truth = {"batch_part": 0.3, "gradient_noise": 4096.0}
    free, fixed = submit(demo, "free", FREE, 5, **truth), submit(demo, "fixed", {"size": 64}, 5, **truth)
    demo.let(int(5.5 * HOURS), until=lambda: not Workload.objects.exclude(phase="Succeeded").exists())
    free.refresh_from_db()
    fixed.refresh_from_db()
    took = [one.ended_at - one.first_started_at for one in (free, fixed)]
    assert (free.batch, fixed.batch) == (128, 64)
    assert newest(fixed) is None
    assert took[0] < 0.75 * took[1]
    assert broken(demo) == ()


def test_a_larger_batch_with_which_it_learns_no_faster_is_rolled_back() -> None:
    """Its steps are longer by as much as its batch is larger, and each example teaches less: no model knew before."""
    demo = Demo.begin("a")
    fit = submit(demo, "fit", FREE, batch_part=1.0, gradient_noise=1024.0)
    before = demo.speed(fit)
    demo.let(3600, until=has(fit, "rolled_back"))
    tried = newest(fit)
    assert tried is not None
    assert (tried.axis, tried.status) == ("batch", "rolled_back")
    assert tried.gain is not None and tried.gain < 0.02
    demo.let(300, until=lambda: Workload.objects.get(pk=fit.pk).batch == 64)
    demo.let(120)
    assert demo.speed(fit) == pytest.approx(before)
    assert broken(demo) == ()


def test_what_is_measured_of_a_batch_is_what_the_simulation_gains_of_it() -> None:
    demo = Demo.begin("a")
    fit = submit(demo, "fit", FREE, batch_part=0.3, gradient_noise=256.0)
    before = demo.speed(fit)
    demo.let(3600, until=has(fit, "kept"))
    kept = newest(fit)
    assert kept is not None
    gained = demo.speed(fit) / before
    assert 1.1 < gained < 1.5
    assert math.exp(kept.gain or 0.0) == pytest.approx(gained, rel=0.06)


def test_a_batch_for_which_its_gpus_have_no_memory_is_given_up_and_nothing_is_lost_but_time() -> None:
    demo = Demo.begin("a")
    fit = submit(demo, "fit", {"size": 64, "max": 256}, batch_part=0.3, gradient_noise=4096.0, most_batch=128)
    demo.let(7200, until=lambda: Workload.objects.get(pk=fit.pk).batch == 128 and has(fit, "rolled_back")())
    demo.let(600)
    fit.refresh_from_db()
    assert (fit.batch, fit.phase, fit.failures, fit.retries) == (128, "Running", 0, 0)
    tried = newest(fit)
    assert tried is not None
    assert (tried.after["batch"], tried.status) == (256, "rolled_back")
    assert tried.message.endswith("it failed with that, and runs as before")
    assert broken(demo) == ()
