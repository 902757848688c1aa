"""The demo's own driver, on its machines: one with a free batch ends sooner than one with the same work and none."""

import pytest

from controlplane.jobspec.spec import parse
from controlplane.loops.embedded import Driver
from controlplane.models import Experiment, Team, User, Workload
from controlplane.services.workloads.submission import submit
from tests.controlplane.quietdemo import quiet_demo

pytestmark = [pytest.mark.django_db, pytest.mark.embedded]
HOUR = 3600.0
WORK = 6 * HOUR


@pytest.fixture
def driver() -> Driver:
    """The demo's machines and teams, with no work but what a test submits."""
    return quiet_demo()


def submitted(driver: Driver, name: str, batch: dict[str, int], **truth: float) -> Workload:
    """On two GPUs of one node."""
    team = Team.objects.filter(quotas__nominal__gt=0).order_by("name").first()
    assert team is not None
    Team.objects.filter(pk=team.pk).update(reallocation="automatic")
    simulated = {"duration": WORK, "profile": "transformer-like-base", **truth}
    asked = {
        "resources": {"gpus": 2, "cpu": 8, "memory": "8Gi", "gpu_model": "A100"},
        "checkpoint": {"interval": "10m"},
    }
    job = {"type": "training", "name": name, "team": team.name, "image": "example/a:1", "batch": batch, **asked}
    spec = parse({**job, "expected_duration": "6h", "simulated": simulated}, allow_simulated=True)
    user = User.objects.filter(is_superuser=True).first()
    assert user is not None
    w = submit(spec=spec, user=user)
    driver.round(driver.now, woken=True)
    return w


def took(workload: Workload) -> float:
    workload.refresh_from_db()
    assert workload.phase == "Succeeded"
    assert workload.ended_at is not None and workload.first_started_at is not None
    return workload.ended_at - workload.first_started_at


def test_a_training_with_a_free_batch_ends_sooner_than_one_with_a_fixed_one(driver: Driver) -> None:
    truth = {"batch_part": 0.3, "gradient_noise": 4096.0}
    free = submitted(driver, "free", {"size": 64, "max": 256}, **truth)
    fixed = submitted(driver, "fixed", {"size": 64}, **truth)
    useless = submitted(driver, "useless", {"size": 64, "max": 256}, batch_part=1.0, gradient_noise=2048.0)
    driver.run_to(driver.now + 1.2 * WORK)
    tried = {one.workload.name: one for one in Experiment.objects.filter(axis="batch").order_by("-id")}
    assert took(free) < 0.75 * took(fixed)
    assert (free.batch, fixed.batch) == (256, 64)
    assert tried.keys() == {"free", "useless"}
    assert (tried["useless"].status, tried["free"].status) == ("rolled_back", "kept")
    useless.refresh_from_db()
    assert (useless.batch, useless.phase) == (64, "Succeeded")
    assert took(useless) < 1.1 * took(fixed)  # what the try and its two restarts cost
