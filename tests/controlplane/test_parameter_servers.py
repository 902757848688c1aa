"""Where a training waits for its parameter servers the loop tries another number of them, and keeps what is faster."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from controlplane.cluster.port import PodPhase, PodUse, TrainingUse
from controlplane.jobspec import members
from controlplane.models import Event, Experiment, Workload
from controlplane.queries.workloads import experiments, reallocated
from controlplane.services.intake.ownership import Hand
from controlplane.services.training import changing
from tests.controlplane.moved import LONG, MINUTE, Steps, pass_minutes, turn, until, world_of
from tests.controlplane.state import World, story

pytestmark = pytest.mark.django_db
PS = {"name": "ps", "count": 1, "resources": {"cpu": 4, "memory": "1Gi"}}
COMPUTES = 0.3  # s of a step


@dataclass
class Served(Steps):
    """Most of a step is the exchange with the servers; how many there are, the pods of the newest attempt say."""

    exchange: Callable[[int], float] = field(default=lambda servers: 1.2 / servers)
    busy: int = 3600  # 1/1000 cores of each server

    def training(self, workloads: Any) -> tuple[TrainingUse, ...]:
        return tuple(self._use(uid) for uid in workloads if self._running(uid))

    def pods(self, workloads: Any) -> tuple[PodUse, ...]:
        return tuple(
            PodUse(pod.workload, pod.attempt, pod.rank, None, self.busy, 100, 0.0)
            for uid in workloads
            for pod in self._running(uid)
            if pod.rank < self.servers(uid)
        )

    def servers(self, uid: str) -> int:
        newest = max((pod for pod in self.cluster.started if pod.workload == uid), key=lambda pod: pod.attempt)
        return members.role_members(newest.spec)

    def _running(self, uid: str) -> list[Any]:
        mine = [pod for pod in self.cluster.pods.values() if pod.workload == uid and pod.phase == PodPhase.RUNNING]
        newest = max((pod.attempt for pod in mine), default=0)
        return [pod for pod in mine if pod.attempt == newest]

    def _use(self, uid: str) -> TrainingUse:
        exchange = self.exchange(self.servers(uid))
        step = COMPUTES + exchange
        noise = 1.0 + 0.01 * (round(self.cluster.at / MINUTE) % 3)
        return TrainingUse(uid, self._running(uid)[0].attempt, 7, step * noise, None, 0.0, exchange / step)


@pytest.fixture
def world() -> World:
    return world_of(Served())


def running(world: World, roles: Any = (PS,), *, saves: bool = True) -> Workload:
    resources = {"gpus": 1, "cpu": 4, "memory": "1Gi"}
    asked = {"checkpoint": {"interval": "10m"}} if saves else {}
    made = world.submit("fit", resources=resources, workers=4, roles=list(roles), **asked)
    turn(world)
    turn(world)
    made.refresh_from_db()
    assert made.phase == "Running"
    world.later(LONG)
    return made


def servers(training: Workload) -> int:
    training.refresh_from_db()
    return int(sum(count for _, count, _ in training.roles))


def test_more_servers_are_tried_by_a_restart_and_kept_where_they_make_it_faster(world: World) -> None:
    training = running(world)
    done = until(world, training, "kept")
    assert (done.axis, done.before["servers"]) == ("servers", 1)
    wanted = done.after["servers"]
    assert 1 < wanted <= 4
    assert (servers(training), training.attempt, training.failures, training.preempted_at) == (wanted, 2, 0, [])
    assert (training.goes_to, training.role_counts) == ([], [])
    assert "parameter server" in done.message
    newest = [pod for pod in world.cluster.started if pod.attempt == 2]
    assert sorted(pod.rank for pod in newest) == list(range(wanted + 4))
    assert [members.role_of(pod.spec, pod.rank)[0] for pod in newest].count("ps") == wanted
    assert {len(pod.gpus) for pod in newest if pod.rank < wanted} == {0}
    assert training.spec["roles"][0]["count"] == 1  # its job file stays as it was written
    kinds = story(training)
    assert kinds[kinds.index("ChangeTried") :][:3] == ["ChangeTried", "Evicted", "Moved"]
    assert experiments.newest_in_place(training) is not None


def test_it_is_taken_back_by_a_person(world: World) -> None:
    training = running(world)
    until(world, training, "kept")
    training.refresh_from_db()
    changing.take_back(workload=training, actor="mia", hand=Hand.PERSON)
    training.refresh_from_db()
    assert training.role_counts == [1]
    (told,) = [one for one in reallocated.of(training) if one["axis"] == "servers"]
    assert told["message"].startswith("It is to run on 1 node with 1 parameter server, with 4 workers on it")
    pass_minutes(world, 3)
    assert (servers(training), training.attempt) == (1, 3)


def test_where_more_servers_make_nothing_faster_it_goes_back_to_what_it_had(world: World) -> None:
    world.metrics.exchange = lambda servers: 1.2
    training = running(world)
    tried = until(world, training, "rolled_back")
    assert tried.axis == "servers"
    pass_minutes(world, 3)
    assert (servers(training), training.phase) == (1, "Running")
    assert Event.objects.filter(kind="ChangeRolledBack").exists()


def test_one_that_saves_no_work_is_only_told(world: World) -> None:
    training = running(world, saves=False)
    pass_minutes(world, 20)
    assert not Experiment.objects.exists()
    assert any("parameter servers instead of 1" in one for one in experiments.recommended(training))


@pytest.mark.parametrize(
    "roles",
    [
        [PS, {"name": "evaluator", "resources": {"cpu": 1, "memory": "1Gi"}}],
        [{**PS, "name": "launcher"}],
        [{**PS, "resources": {"gpus": 1, "cpu": 4, "memory": "1Gi"}}],
    ],
)
def test_other_roles_stay_as_they_are(world: World, roles: Any) -> None:
    running(world, roles)
    pass_minutes(world, 20)
    assert not Experiment.objects.filter(axis="servers").exists()


def test_where_its_servers_are_not_what_it_waits_for_their_number_stays(world: World) -> None:
    world.metrics.busy = 100
    running(world)
    pass_minutes(world, 20)
    assert not Experiment.objects.filter(axis="servers").exists()
