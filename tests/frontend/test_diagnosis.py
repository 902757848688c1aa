"""The page of a training says what slows it, what would make it faster, and what was tried."""

import re
from dataclasses import asdict, replace

import pytest

from autoscaler.bottleneck.detect import Diagnosis, Evidence
from autoscaler.bottleneck.window import Bottleneck, Levels
from autoscaler.reallocate.course import Course
from autoscaler.throughput.allocation import Allocation
from autoscaler.throughput.goodput import Gradients
from autoscaler.throughput.observation import Observation
from controlplane.domain import coursestate, diagnosisstate
from controlplane.domain.coursestate import Kept
from controlplane.models import Experiment, TrainingDiagnosis, TrainingStart, Workload
from scheduler.model.workload import Phase
from tests.frontend.conftest import Visit
from tests.frontend.factory import NOW, World, document


def test_a_training_shows_what_slows_it(world: World, visit: Visit) -> None:
    w = world.add(document("training", "slow", "nlp"), Phase.RUNNING)
    at = f"/workloads/{w.pk}/?tab=diagnosis"
    assert "Its program reports no steps" in visit("mel").get(at).content.decode()
    levels = Levels(cpu=0.97, throttled=0.5, sm=(0.4, 0.5))
    found = Diagnosis(
        9, levels, {Bottleneck.INPUT_CPU: Evidence(4.2, 0.3, (0.1, 0.5))}, bottleneck=Bottleneck.INPUT_CPU
    )
    row = {"attempt": w.attempt, "at": NOW, "since": NOW - 60, "bottleneck": "input_cpu"}
    TrainingDiagnosis.objects.create(workload=w.pk, state=diagnosisstate.plain(found), **row)
    page = visit("mel").get(at).content.decode()
    for said in ("Too little CPU for its input", "Give each worker more CPU.", "CPU of its workers", "97 %", "45 %"):
        assert said in page
    assert 'aria-label="80 % of what it takes to name it"' in page
    assert "Too little CPU for its input, part of a step in the last 2 looks: 10 % at first, now 50 %" in page
    assert page.count('<rect x="9') == 2  # the newest look is the last of 30 places
    assert "What would make it faster" not in page
    assert "20 s to leave and 100 s to its first step, not measured yet" in page
    start = {"workload": w, "kind": "x", "at": NOW}
    TrainingStart.objects.create(attempt=2, leave=20.0, begin=25.0, **start)
    page = visit("mel").get(at).content.decode()
    assert "20 s to leave and 50 s to its first step, learned from 1 of its own and 0 of trainings like it" in page
    assert "<dt>A restart</dt><dd>70 s</dd>" in page
    before, after = Allocation((1,), 1, 1, 1.0), Allocation((1,), 1, 1, 4.0)
    kept = Kept(w.attempt, Course(before), ("8 cores for each worker instead of 4: expected +40 %",))
    TrainingDiagnosis.objects.update(course=coursestate.plain(kept))
    Experiment.objects.create(
        workload=w, attempt=1, axis="cpu", status="kept", begun_at=NOW - 600, ended_at=NOW, expected=0.5,
        expected_error=0.1, before=asdict(before), after=asdict(after), gain=0.405,
        gain_error=0.02, windows=9, message="4 cores for each worker instead of 1",
    )  # fmt: skip
    Workload.objects.filter(pk=w.pk).update(cpu_milli=4000)
    page = visit("mel").get(at).content.decode()
    for said in (
        "8 cores for each worker instead of 4: expected +40 %",
        "+65\xa0%",
        "+50\xa0%",
        "kept",
        "Take the newest",
    ):
        assert said in page
    assert "With other numbers of workers" not in page  # no steps of twelve looks yet
    steps = tuple(Observation(Allocation((n,), n, 1, 1.0), 1.0 + 0.1 * n) for n in (1, 2))
    TrainingDiagnosis.objects.update(course=coursestate.plain(replace(kept, course=Course(before, seen=steps))))
    page = visit("mel").get(at).content.decode()
    assert "With other numbers of workers" in page
    assert 'aria-label="Speed with so many workers: 1: 1.00 x, 2: 1.' in page
    assert "2 workers: 1." in page and "measured 1.83 x" in page
    assert "goodput" not in page  # its program reports no gradient noise
    TrainingDiagnosis.objects.update(state=diagnosisstate.plain(found, Gradients(noise=64.0, batch=64.0)))
    page = visit("mel").get(at).content.decode()
    assert 'class="useful"' in page and "Dotted: goodput" in page
    told = re.search(r"2 workers: (\d\.\d\d) x, .*, measured 1\.83 x, goodput (\d\.\d\d) x", page)
    assert told is not None
    assert float(told[2]) == pytest.approx(float(told[1]) * 2 / 3, abs=0.01)
    assert "Take the newest" not in visit("vic").get(at).content.decode()
    asked = visit("mel").get(f"/workloads/{w.pk}/take-back").content.decode()
    assert "Each worker gets 1 core again" in asked
    assert visit("vic").post(f"/workloads/{w.pk}/take-back").status_code == 403
    Experiment.objects.update(status="on_trial", ended_at=None, gain=None)
    why = visit("vic").get(f"/workloads/{w.pk}/?tab=why").content.decode()
    assert "A change of it is on trial: 4 cores for each worker instead of 1." in why
    assert "weft rollback slow" in why
    assert f'<a href="/workloads/{w.pk}/?tab=diagnosis">' in why
    chat = Workload.objects.get(name="chat")
    assert "What Weft changed of it" not in visit("vic").get(f"/workloads/{chat.pk}/?tab=why").content.decode()
    assert visit("mel").get(f"/workloads/{chat.pk}/take-back").status_code == 404
    assert "Diagnosis" not in visit("mel").get(f"/workloads/{chat.pk}/").content.decode()


def test_a_training_shows_its_batch_and_what_others_would_give(world: World, visit: Visit) -> None:
    file = {**document("training", "fit", "nlp"), "batch": {"size": 64, "min": 32, "max": 256}}
    w = world.add(file, Phase.RUNNING)
    at = f"/workloads/{w.pk}/?tab=diagnosis"
    w.refresh_from_db()
    found = Diagnosis(9, bottleneck=Bottleneck.GPU_COMPUTE)
    row = {"attempt": w.attempt, "at": NOW, "since": NOW - 60, "bottleneck": "gpu_compute"}
    TrainingDiagnosis.objects.create(workload=w.pk, state=diagnosisstate.plain(found), **row)
    page = visit("mel").get(at).content.decode()
    for said in (
        "Its batch",
        "64 examples of all workers in a step; Weft may choose from 32 to 256.",
        "no gradient noise",
    ):
        assert said in page
    assert "Goodput with a batch" not in page
    before, after = Allocation((1,), 1, 64, 1.0), Allocation((1,), 1, 128, 1.0)
    seen = (Observation(before, 1.0, 0.0, 0.0, 0.02), Observation(after, 1.3, 0.0, 0.0, 0.02))
    course = coursestate.plain(Kept(w.attempt, Course(after, seen=seen)))
    Workload.objects.filter(pk=w.pk).update(batch=128)
    TrainingDiagnosis.objects.update(state=diagnosisstate.plain(found, Gradients(512.0, 128.0)), course=course)
    Experiment.objects.create(
        workload=w, attempt=1, axis="batch", status="kept", begun_at=NOW - 600, ended_at=NOW, expected=0.3,
        expected_error=0.1, before=asdict(before), after=asdict(after), gain=0.3,
        gain_error=0.02, windows=9, message="128 examples in a step instead of 64",
    )  # fmt: skip
    Workload.objects.filter(pk=w.pk).update(cpu_milli=1000, gpus=1)
    page = visit("mel").get(at).content.decode()
    for said in (
        "128 examples of all workers in a step, instead of the 64 of its job file",
        "Its gradient noise is 512 examples.",
        'aria-label="Goodput with a batch of so many examples: 32: ',
        "128 examples: 1.00 x, 1.00 to 1.00, measured 1.00 x, all examples 1.00 x",
        "of another batch, of its goodput",
    ):
        assert said in page, said
    assert "128 examples in a step" in visit("mel").get(f"/workloads/{w.pk}/").content.decode()
    fixed = world.add({**document("training", "fixed", "nlp"), "batch": {"size": 64}}, Phase.RUNNING)
    TrainingDiagnosis.objects.create(workload=fixed.pk, state=diagnosisstate.plain(found), **row | {"attempt": 1})
    assert "its job file leaves no other" in visit("mel").get(f"/workloads/{fixed.pk}/?tab=diagnosis").content.decode()
