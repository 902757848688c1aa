"""Notebooks that nobody uses are parked, and only those."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from controlplane.cluster.port import PodPhase, PodUse
from controlplane.models import Event, Workload
from controlplane.services.errors import Refused
from controlplane.services.tenancy import teams
from controlplane.services.workloads import idle, workloads
from tests.controlplane.state import NoMetrics, World, phase, story

pytestmark = pytest.mark.django_db

MINUTE = 60.0
AT_REST, AT_WORK = 8, 700  # 1/1000 cores


@dataclass
class Measured(NoMetrics):
    """Says of every pod what the test says; None: nothing at all."""

    said: dict[str, tuple[float | None, int | None] | None] = field(default_factory=dict)
    asked: list[list[str]] = field(default_factory=list)
    attempt: int = 1

    def pods(self, workloads):
        self.asked.append(list(workloads))
        known = [(uid, self.said[uid]) for uid in workloads if self.said.get(uid)]
        return tuple(PodUse(uid, self.attempt, 0, duty, cpu, 100, 0.0) for uid, (duty, cpu) in known)


@pytest.fixture
def world() -> World:
    return World(metrics=Measured())


def open_notebook(world: World, name: str = "explore", park_after: str = "30m", **asked: Any) -> Workload:
    notebook = world.submit(name, kind="notebook", idle={"park_after": park_after}, **asked)
    world.run(notebook, "a")
    return notebook


def pass_minutes(world: World, count: int) -> None:
    """So many minutes, the account loop after each."""
    for _ in range(count):
        world.later(MINUTE - 1)
        world.observe()
        world.account()


def measure(world: World, notebook: Workload, duty: float | None, cpu: int | None) -> None:
    world.metrics.said[str(notebook.pk)] = (duty, cpu)


def test_a_notebook_that_nobody_uses_is_suspended_as_culled_and_can_be_resumed(world):
    notebook = open_notebook(world)
    measure(world, notebook, 0.0, AT_REST)
    pass_minutes(world, 30)
    assert phase(notebook) == "Running"
    pass_minutes(world, 2)
    assert phase(notebook) == "Suspending"
    world.pods(notebook, PodPhase.GONE)
    notebook.refresh_from_db()
    assert (notebook.phase, notebook.reason) == ("Suspended", "Culled")
    assert notebook.message == "It was not used for 30 minutes (idle.park_after). Resume it to start it again."
    event = Event.objects.get(workload=notebook.pk, kind="Suspending")
    assert (event.actor, event.reason) == ("loop:account", "Culled")
    workloads.resume(workload=notebook, actor="alice")
    assert phase(notebook) == "Queued"


@pytest.mark.parametrize(("duty", "cpu"), [(0.02, AT_REST), (0.0, AT_WORK), (None, AT_WORK), (0.5, None)])
def test_one_that_is_used_stays(world, duty, cpu):
    notebook = open_notebook(world)
    measure(world, notebook, duty, cpu)
    pass_minutes(world, 40)
    assert phase(notebook) == "Running"


@pytest.mark.parametrize(("duty", "cpu"), [(0.0, None), (0.005, 49)])
def test_what_is_known_of_it_decides(world, duty, cpu):
    notebook = open_notebook(world)
    measure(world, notebook, duty, cpu)
    pass_minutes(world, 32)
    assert phase(notebook) == "Suspending"


@pytest.mark.parametrize("asks", [{"gpus": 0}, {"gpu_share": {"guarantee": 0.5, "memory": "8Gi"}}], ids=str)
def test_of_one_without_a_device_of_its_own_the_cpu_decides(world, asks):
    notebook = open_notebook(world, resources={"cpu": 1, "memory": "1Gi", **asks})
    measure(world, notebook, None, AT_REST)
    pass_minutes(world, 32)
    assert phase(notebook) == "Suspending"


def test_one_whose_own_device_is_not_measured_stays_though_its_cpu_is_quiet(world):
    notebook = open_notebook(world)
    measure(world, notebook, None, AT_REST)
    pass_minutes(world, 40)
    assert phase(notebook) == "Running"


def test_one_of_which_nothing_is_known_stays(world):
    silent, empty = open_notebook(world, "silent"), open_notebook(world, "empty")
    measure(world, empty, None, None)
    pass_minutes(world, 40)
    assert (phase(silent), phase(empty)) == ("Running", "Running")


@pytest.mark.parametrize("between", [(0.3, AT_WORK), None])
def test_use_or_silence_in_between_begins_the_time_anew(world, between):
    notebook = open_notebook(world)
    measure(world, notebook, 0.0, AT_REST)
    pass_minutes(world, 25)
    world.metrics.said[str(notebook.pk)] = between
    pass_minutes(world, 1)
    notebook.refresh_from_db()
    assert notebook.idle_since is None
    measure(world, notebook, 0.0, AT_REST)
    pass_minutes(world, 29)
    assert phase(notebook) == "Running"
    pass_minutes(world, 3)
    assert phase(notebook) == "Suspending"


def test_after_it_was_resumed_its_time_begins_anew(world):
    notebook = open_notebook(world)
    measure(world, notebook, 0.0, AT_REST)
    pass_minutes(world, 32)
    world.pods(notebook, PodPhase.GONE)
    workloads.resume(workload=notebook, actor="alice")
    world.run(notebook, "b")
    world.metrics.attempt = 2
    pass_minutes(world, 29)
    assert phase(notebook) == "Running"
    pass_minutes(world, 3)
    assert phase(notebook) == "Suspending"


def test_what_an_earlier_attempt_does_is_not_its_doing(world):
    notebook = open_notebook(world)
    world.metrics.attempt = 7
    measure(world, notebook, 0.0, AT_REST)
    pass_minutes(world, 40)
    assert phase(notebook) == "Running"


def test_without_park_after_and_for_other_kinds_nobody_is_asked(world):
    plain = world.submit("plain", kind="notebook")
    job = world.submit("job")
    world.run(plain, "a")
    world.run(job, "b")
    measure(world, plain, 0.0, AT_REST)
    measure(world, job, 0.0, AT_REST)
    pass_minutes(world, 40)
    assert (phase(plain), phase(job)) == ("Running", "Running")
    assert all(asked == [] for asked in world.metrics.asked)


def test_a_teams_limit_parks_those_without_park_after_and_those_that_wait_longer(world):
    plain = world.submit("plain", kind="notebook")
    world.run(plain, "a")
    patient = open_notebook(world, "patient", park_after="8h")
    brief = open_notebook(world, "brief", park_after="5m")
    teams.set_notebooks(team=plain.team, actor="ada", notebook_park_minutes=10)
    for notebook in (plain, patient, brief):
        measure(world, notebook, 0.0, AT_REST)
    pass_minutes(world, 9)
    assert (phase(plain), phase(patient), phase(brief)) == ("Running", "Running", "Suspending")
    pass_minutes(world, 3)
    assert (phase(plain), phase(patient)) == ("Suspending", "Suspending")
    event = Event.objects.get(workload=plain.pk, kind="Suspending")
    assert event.message.startswith("It was not used for 10 minutes (its team's limit).")
    teams.set_notebooks(team=plain.team, actor="ada", notebook_park_minutes=0)
    again = world.submit("again", kind="notebook")
    world.run(again, "a")
    measure(world, again, 0.0, AT_REST)
    pass_minutes(world, 40)
    assert phase(again) == "Running", "no limit any more"


def test_a_notebook_that_is_larger_or_more_patient_than_its_team_allows_is_refused(world):
    team = world.submit("any").team
    teams.set_notebooks(team=team, actor="ada", notebook_park_minutes=60, notebook_max_milli=500)
    share = {"guarantee": 0.5, "limit": 1.0, "memory": "1Gi"}
    for more, at, said in (
        ({"resources": {"gpus": 1}}, "resources.gpus", "asks for 1 GPUs, but notebooks of team"),
        ({"resources": {"gpu_share": share | {"guarantee": 0.51}}}, "resources.gpu_share.guarantee", "at most 0.5"),
        (
            {"resources": {"gpu_share": share}, "idle": {"park_after": "61m"}},
            "idle.park_after",
            "set it to 60m at most",
        ),
    ):
        with pytest.raises(Refused, match=said) as caught:
            world.submit("large", kind="notebook", **more)
        assert caught.value.field == at
    fits = world.submit("fits", kind="notebook", resources={"gpu_share": share}, idle={"park_after": "60m"})
    assert phase(fits) == "Queued"
    assert phase(world.submit("job", resources={"gpus": 1})) == "Queued", "another kind is not asked"


def test_a_team_whose_notebooks_are_not_extended(world):
    notebook = open_notebook(world)
    teams.set_notebooks(team=notebook.team, actor="ada", notebook_extend=False)
    notebook.team.refresh_from_db()
    with pytest.raises(Refused, match="does not let them be extended") as caught:
        idle.extend(workload=notebook, actor="alice")
    assert caught.value.status == 403


def test_what_a_team_says_of_notebooks_is_said_once_and_within_bounds(world):
    team = world.submit("any").team
    for _ in range(2):
        teams.set_notebooks(team=team, actor="ada", notebook_park_minutes=60, notebook_extend=True)
    event = Event.objects.get(kind="NotebookPolicyChanged")
    assert (event.actor, event.data) == ("ada", {"notebook_park_minutes": 60})
    for at, value in (("notebook_park_minutes", 10**7), ("notebook_max_milli", -1)):
        with pytest.raises(Refused) as caught:
            teams.set_notebooks(team=team, actor="ada", **{at: value})
        assert caught.value.field == at
    team.refresh_from_db()
    assert (team.notebook_park_minutes, team.notebook_max_milli) == (60, 0)


def test_one_that_is_stopped_meanwhile_is_left_alone(world):
    notebook = open_notebook(world)
    measure(world, notebook, 0.0, AT_REST)
    pass_minutes(world, 30)
    workloads.stop(workload=notebook, actor="alice")
    pass_minutes(world, 5)
    assert phase(notebook) == "Stopping"
    assert "Suspending" not in story(notebook)


def test_an_idle_round_changes_no_version(world):
    notebook = open_notebook(world)
    measure(world, notebook, 0.0, AT_REST)
    pass_minutes(world, 2)
    notebook.refresh_from_db()
    version, since = notebook.version, notebook.idle_since
    pass_minutes(world, 5)
    notebook.refresh_from_db()
    assert (notebook.version, notebook.idle_since) == (version, since)
